// SPDX-License-Identifier: MIT
// A case that is run alone comes to what it came to within its run, bit for bit.
#include "verify/replay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "engine/test_support.h"
#include "verify/case_text.h"
#include "verify/hooked_engine.h"
#include "verify/test_faults.h"

namespace kvcheck {
namespace {

// How many cases of each check gave the same result alone; what did not is a failure of the test.
std::map<std::string, int> replay_all(const ModelRun& run, Arithmetic arithmetic,
                                      const EngineFactory& factory) {
  Collector collector;
  SuiteOptions options = options_for(arithmetic);
  options.record_all = true;
  options.seed = 7;
  (void)run_on(options, run, factory, collector);
  std::map<std::string, int> replayed;
  std::map<std::string, int> seen;
  for (const CaseRecord& record : collector.records) {
    // All prefixes, and every fifth of the many schedules.
    if (record.subject.check == "schedules" && seen["schedules"]++ % 5 != 0) continue;
    const Case subject = parse_token(to_token(record.subject), "test");
    require_same_model(subject, run.model, "test");
    const std::string again = describe(run_case(subject, run.model, factory).result);
    EXPECT_EQ(again, describe(record.result)) << to_token(subject);
    ++replayed[subject.check];
  }
  return replayed;
}

struct Setting {
  std::string_view fault;  // empty: none
  Arithmetic arithmetic;
};

void PrintTo(const Setting& setting, std::ostream* out) {
  *out << setting.fault << " in " << name(setting.arithmetic) << " arithmetic";
}

struct ReplayTest : testing::TestWithParam<Setting> {
  static EngineFactory factory() {
    for (const PlantedFault& fault : planted_faults()) {
      if (fault.id == GetParam().fault) return fault.factory;
    }
    return builtin_engine;
  }
};

TEST_P(ReplayTest, every_case_beside_its_siblings_comes_to_the_same_alone) {
  const ModelData model = small_model();
  const auto replayed = replay_all(whole_run(model), GetParam().arithmetic, factory());
  EXPECT_EQ(replayed.at("all-prefixes"), 120);
  EXPECT_EQ(replayed.at("causality"), 81);
  EXPECT_EQ(replayed.at("schedules"), 156);
  EXPECT_EQ(replayed.at("accounting"), 162);
  const bool row = GetParam().arithmetic == Arithmetic::row;
  EXPECT_EQ(replayed.at(row ? "exact" : "noise"), 120);
}

TEST_P(ReplayTest, every_case_of_random_sequences_comes_to_the_same_alone) {
  const ModelData model = load_model("gen:plain:2");
  const auto replayed = replay_all(random_run(model, 2), GetParam().arithmetic, factory());
  EXPECT_GT(replayed.at("random-prefixes"), 6);
  EXPECT_EQ(replayed.at("causality"), 2);
  EXPECT_GT(replayed.at("schedules"), 6);
  EXPECT_EQ(replayed.at("accounting"), 4);
}

std::string test_name(const testing::TestParamInfo<Setting>& param) {
  std::string text(param.param.fault.empty() ? "clean" : param.param.fault);
  std::ranges::replace(text, '-', '_');
  return text + "_" + std::string(name(param.param.arithmetic));
}

INSTANTIATE_TEST_SUITE_P(Settings, ReplayTest,
                         testing::Values(Setting{"", Arithmetic::matrix},
                                         Setting{"positions-plus-one", Arithmetic::row},
                                         Setting{"positions-plus-one", Arithmetic::matrix},
                                         Setting{"last-row-repeated", Arithmetic::matrix},
                                         Setting{"full-sees-the-next-token", Arithmetic::matrix},
                                         Setting{"one-row-too-many", Arithmetic::row}),
                         test_name);

// Cases whose two sides differ, all by rounding.
std::vector<CaseRecord> rounded_cases(const ModelRun& run) {
  Collector collector;
  SuiteOptions options = options_for(Arithmetic::matrix);
  options.record_all = true;
  EXPECT_EQ(run_on(options, run, builtin_engine, collector).verdict, Verdict::agree);
  std::erase_if(collector.records, [](const CaseRecord& record) {
    return !record.result.row || record.result.row->same_bits;
  });
  return collector.records;
}

// ---- In float64

TEST(InFloat64, rounding_agrees_by_a_share_of_the_largest_logit) {
  const ModelData model = wide_model();
  for (const CaseRecord& record : rounded_cases(random_run(model, 3))) {
    const auto wide = in_float64(record, model, builtin_engine);
    ASSERT_TRUE(wide);
    EXPECT_EQ(wide->verdict, Verdict::agree) << to_token(record.subject);
    EXPECT_LE(wide->difference, kGoldenLimit * record.result.row->largest);
  }
}

TEST(InFloat64, rounding_of_ill_conditioned_models_agrees) {
  for (const char* name : {"gen:saturated:1", "gen:sharp-attention:3", "gen:tiny-embeddings:1"}) {
    const ModelData model = load_model(name);
    for (const CaseRecord& record : rounded_cases(random_run(model, 3))) {
      const auto wide = in_float64(record, model, builtin_engine);
      if (!wide) continue;  // decided in float64 already
      EXPECT_EQ(wide->verdict, Verdict::agree) << to_token(record.subject);
    }
  }
}

TEST(InFloat64, a_fault_stays_what_it_is) {
  const ModelData model = small_model();
  Collector collector;
  (void)run_on(options_for(Arithmetic::matrix), random_run(model, 2), positions_plus_one(),
               collector);
  int diverged = 0;
  for (const CaseRecord& record : collector.records) {
    if (record.result.verdict != Verdict::diverge || !record.result.row) continue;
    const auto wide = in_float64(record, model, positions_plus_one());
    ASSERT_TRUE(wide);
    EXPECT_EQ(wide->verdict, Verdict::diverge);
    EXPECT_GT(wide->difference, 0.9 * record.result.row->max_abs_difference);
    ++diverged;
  }
  EXPECT_GT(diverged, 5);
}

// Where rounding is amplified beyond a share of the largest logit, the floor of float32 says how
// far.
TEST(InFloat64, a_floor_explains_what_is_as_much_smaller) {
  const ModelData model = small_model();
  Collector collector;
  (void)run_on(options_for(Arithmetic::matrix), random_run(model, 1), positions_plus_one(),
               collector);
  const auto found = std::ranges::find_if(collector.records, [](const CaseRecord& record) {
    return record.result.verdict == Verdict::diverge && record.result.noise;
  });
  ASSERT_NE(found, collector.records.end());
  CaseRecord record = *found;
  const auto verdict_at = [&](double floor) {
    record.result.noise->floor = floor * 0x1p29;
    return in_float64(record, model, positions_plus_one())->verdict;
  };
  const double difference = in_float64(record, model, positions_plus_one())->difference;
  EXPECT_EQ(verdict_at(difference / 29), Verdict::agree);
  EXPECT_EQ(verdict_at(difference / 31), Verdict::diverge);
  EXPECT_EQ(verdict_at(std::nan("")), Verdict::diverge);
}

// Without a wrong row in sight one forward is the oracle of all rows, but for a few lengths.
TEST(InFloat64, a_long_case_takes_few_forwards_unless_it_is_wrong) {
  const ModelData model = load_model("gen:wide:1:context64");
  std::vector<CaseRecord> records = rounded_cases(random_run(model, 1));
  const auto longest = std::ranges::find_if(records, [](const CaseRecord& record) {
    return record.subject.check == "schedules" && record.subject.tokens.size() == 64;
  });
  ASSERT_NE(longest, records.end());
  const auto forwards = [&] {
    int count = 0;
    const EngineFactory counting = [&](const ModelData& of, const EngineSetup& setup) {
      Hooks hooks;
      hooks.full = [&](Engine& inner, const TokenBlock& block, Rows rows, Logits& out) {
        ++count;
        inner.full(block, rows, out);
      };
      return std::make_unique<HookedEngine>(builtin_engine(of, setup), std::move(hooks));
    };
    EXPECT_TRUE(in_float64(*longest, model, counting));
    return count;
  };
  EXPECT_LE(forwards(), 8);
  longest->result.verdict = Verdict::diverge;
  EXPECT_GE(forwards(), 64);
}

TEST(InFloat64, is_said_of_what_float32_decided_and_differs) {
  const ModelData model = wide_model();
  CaseRecord record = rounded_cases(random_run(model, 1)).front();
  EXPECT_TRUE(in_float64(record, model, builtin_engine));
  record.result.mark = Mark::widened;
  EXPECT_FALSE(in_float64(record, model, builtin_engine));
  record.result.mark = Mark::none;
  record.subject.scalar = ScalarKind::f64;
  EXPECT_FALSE(in_float64(record, model, builtin_engine));
  record.subject.scalar = ScalarKind::f32;
  ModelData large = model;
  large.weights.config.vocabulary = kFloat64ParametersMax;
  EXPECT_FALSE(in_float64(record, large, builtin_engine)) << "of such a size";
  record.result.row->same_bits = true;
  EXPECT_FALSE(in_float64(record, model, builtin_engine));
  record.result.row.reset();
  EXPECT_FALSE(in_float64(record, model, builtin_engine));
}

TEST(InFloat64, is_part_of_every_summary_that_differs) {
  const ModelData model = wide_model();
  const ModelRun run = random_run(model, 2);
  Collector collector;
  (void)run_on(options_for(Arithmetic::matrix), run, builtin_engine, collector);
  const CheckSummary& summary = collector.summary("random-prefixes");
  ASSERT_TRUE(summary.in_float64);
  EXPECT_EQ(summary.in_float64->verdict, Verdict::agree);
  EXPECT_EQ(summary.in_float64->difference,
            in_float64(*summary.worst_difference, model, builtin_engine)->difference);
  Collector exact;
  (void)run_on(options_for(Arithmetic::row), run, builtin_engine, exact);
  EXPECT_FALSE(exact.summary("random-prefixes").in_float64);
}

TEST(InFloat64, stops_when_asked) {
  const ModelData model = wide_model();
  const CaseRecord record = rounded_cases(random_run(model, 1)).front();
  const std::atomic<bool> stop = true;
  EXPECT_FALSE(in_float64(record, model, builtin_engine, &stop));
}

TEST(InFloat64, an_engine_that_fails_there_breaks) {
  const ModelData model = wide_model();
  const CaseRecord record = rounded_cases(random_run(model, 1)).front();
  const auto wide = in_float64(record, model, [](const ModelData&, const EngineSetup&) {
    throw EngineError("no engine in float64");
    return std::unique_ptr<Engine>();
  });
  ASSERT_TRUE(wide);
  EXPECT_EQ(wide->verdict, Verdict::broken);
}

TEST(Replay, rounding_is_repeated_to_the_last_bit) {
  const ModelData model = wide_model();
  for (const ModelRun& run : {whole_run(model), random_run(model, 3)}) {
    const std::vector<CaseRecord> records = rounded_cases(run);
    EXPECT_GT(records.size(), 10U);
    for (const CaseRecord& record : records) {
      const CaseResult again = run_case(record.subject, model, builtin_engine).result;
      EXPECT_EQ(describe(again), describe(record.result)) << to_token(record.subject);
    }
  }
}

// Rounding depends on what stands side by side, so the token must tell.
TEST(Replay, a_case_that_forgets_its_siblings_rounds_otherwise) {
  const ModelData model = wide_model();
  int different = 0;
  for (const CaseRecord& record : rounded_cases(whole_run(model))) {
    Case alone = record.subject;
    alone.siblings = false;
    const CaseResult again = run_case(alone, model, builtin_engine).result;
    different += describe(again) == describe(record.result) ? 0 : 1;
  }
  EXPECT_GT(different, 0);
}

TEST(Replay, a_case_tells_whether_it_had_siblings) {
  const ModelData model = small_model();
  Collector whole;
  Collector random;
  (void)run_on(options_for(Arithmetic::matrix), whole_run(model), builtin_engine, whole);
  (void)run_on(options_for(Arithmetic::matrix), random_run(model, 2), builtin_engine, random);
  for (const CaseRecord& record : whole.records) EXPECT_TRUE(record.subject.siblings);
  for (const CaseRecord& record : random.records) EXPECT_FALSE(record.subject.siblings);
}

TEST(Replay, golden_logits_are_compared_again_on_each_side) {
  ASSERT_TRUE(has_bundled("chapter8"));
  const ModelData model = load_model("chapter8");
  ASSERT_NE(model.golden, nullptr);
  Case subject{.check = "golden",
               .model = "chapter8",
               .model_hash = short_hash(model),
               .scalar = ScalarKind::f64,
               .policy = RelativeLimit{},
               .siblings = true,
               .tokens = {0, 2, 4},
               .schedule = {}};
  EXPECT_EQ(run_case(subject, model, builtin_engine).result.verdict, Verdict::agree);
  Hooks hooks;
  hooks.feed = [](Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
    inner.batch(feeds, rows, out);
    for (double& value : out.values) value += 1e-3;
  };
  EXPECT_EQ(run_case(subject, model, hooked(hooks)).result.verdict, Verdict::agree);
  subject.schedule = {1, 1, 1};
  EXPECT_EQ(run_case(subject, model, builtin_engine).result.verdict, Verdict::agree);
  EXPECT_EQ(run_case(subject, model, hooked(hooks)).result.verdict, Verdict::diverge);
}

TEST(Replay, golden_cases_need_golden_logits) {
  const ModelData model = small_model();
  const Case subject{.check = "golden",
                     .model = model.name,
                     .model_hash = short_hash(model),
                     .tokens = {0},
                     .schedule = {}};
  EXPECT_EQ(error_of([&] { require_same_model(subject, model, "token"); }),
            "token: no golden logits of small, expected a folder with golden.f64, got none");
}

Case case_on(const ModelData& model, std::vector<int> tokens) {
  return {.check = "random-prefixes",
          .model = model.name,
          .model_hash = short_hash(model),
          .arithmetic = Arithmetic::row,
          .tokens = std::move(tokens),
          .schedule = {}};
}

TEST(Replay, tells_the_scalar_that_decided) {
  const ModelData model = ill_conditioned_model();
  Hooks hooks;
  hooks.feed = [](Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
    inner.batch(feeds, rows, out);
    // In float32 more than any row may differ by; in float64 less than 30 noise floors.
    double& logit = first_logit(out, 0);
    logit += inner.hello().compute == ScalarKind::f32 ? 1e-3 : 0x1p-40;
  };
  Case subject = case_on(model, {0, 1});
  subject.arithmetic = Arithmetic::matrix;
  subject.policy = NoiseLimit{};
  const Replayed wide = run_case(subject, model, hooked(hooks));
  EXPECT_EQ(wide.result.mark, Mark::widened);
  EXPECT_EQ(wide.scalar, ScalarKind::f64);
  ASSERT_TRUE(wide.row.has_value());
  EXPECT_EQ(wide.row->comparison.ulps,
            ulps_between(wide.row->comparison.uncached, wide.row->comparison.cached, wide.scalar));
  subject.policy = AbsLimit{1};
  EXPECT_EQ(run_case(subject, model, hooked(hooks)).scalar, ScalarKind::f32);
  subject.scalar = ScalarKind::f64;
  EXPECT_EQ(run_case(subject, model, hooked(hooks)).scalar, ScalarKind::f64);
}

TEST(Replay, hands_over_the_worst_row_with_both_rows_of_logits) {
  const ModelData model = small_model();
  Hooks hooks;
  hooks.feed = [](Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
    inner.batch(feeds, rows, out);
    if (out.rows() == 3) first_logit(out, 1) += 0.5;
  };
  Case subject = case_on(model, {0, 1, 2});
  subject.check = "schedules";
  subject.schedule = {3};
  const Replayed replayed = run_case(subject, model, hooked(hooks));
  EXPECT_EQ(replayed.result.verdict, Verdict::diverge);
  EXPECT_EQ(replayed.result.position, 1);
  EXPECT_EQ(replayed.result.rows_compared, 3);
  ASSERT_TRUE(replayed.row.has_value());
  ASSERT_EQ(replayed.row->cached.size(), 3U);
  EXPECT_EQ(replayed.row->cached[0], replayed.row->uncached[0] + 0.5);
  EXPECT_EQ(replayed.row->cached[1], replayed.row->uncached[1]);
}

TEST(Replay, runs_just_the_schedule_of_the_case) {
  const ModelData model = small_model();
  std::vector<std::size_t> fed;
  Hooks hooks;
  hooks.feed = [&](Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
    inner.batch(feeds, rows, out);
    fed.push_back(feeds[0].tokens.size());
  };
  Case subject = case_on(model, {0, 1, 2, 2});
  subject.check = "schedules";
  subject.schedule = {1, 3};
  (void)run_case(subject, model, hooked(hooks));
  EXPECT_EQ(fed, (std::vector<std::size_t>{1, 3}));
}

TEST(Replay, the_line_to_paste_holds_the_token) {
  const Case subject = case_on(small_model(), {0});
  EXPECT_EQ(repro_line(subject), "kvcheck repro " + to_token(subject));
}

TEST(Replay, the_short_hash_is_what_tokens_hold) {
  const ModelData model = small_model();
  EXPECT_EQ(short_hash(model), model.sha256.substr(0, 8));
  EXPECT_EQ(short_hash(model).size(), 8U);
}

TEST(Replay, refuses_another_model) {
  const ModelData model = small_model();
  Case subject = case_on(model, {0, 1});
  EXPECT_NO_THROW(require_same_model(subject, model, "token"));
  subject.model_hash = "00000000";
  EXPECT_EQ(error_of([&] { require_same_model(subject, model, "token"); }),
            "token: another model named small, expected SHA-256 00000000..., got " +
                short_hash(model) + "...");
}

TEST(Replay, refuses_a_schedule_of_another_length) {
  const ModelData model = small_model();
  Case subject = case_on(model, {0, 1});
  for (const Schedule& schedule : {Schedule{1}, Schedule{1, 2}, Schedule{3}}) {
    subject.schedule = schedule;
    const int sum = schedule.size() == 1 ? schedule[0] : 3;
    EXPECT_EQ(error_of([&] { require_same_model(subject, model, "token"); }),
              "token: schedule, expected 2 tokens in all, got " + std::to_string(sum));
  }
  subject.schedule = {1, 1};
  EXPECT_NO_THROW(require_same_model(subject, model, "token"));
}

// So many prefixes are not enumerated, and the numbers of those beside a prefix would overflow.
TEST(Replay, refuses_siblings_of_more_prefixes_than_a_run_takes) {
  Config config = small_config();
  config.vocabulary = 33;
  config.context = 20;
  const ModelData model = model_of("many", random_model(config, {}, 1));
  Case subject = case_on(model, {1, 2});
  EXPECT_NO_THROW(require_same_model(subject, model, "token"));
  subject.siblings = true;
  EXPECT_EQ(error_of([&] { require_same_model(subject, model, "token"); }),
            "token: computed beside siblings, of a whole vocabulary, expected at most 10000000 "
            "prefixes, got 9223372036854775807");
}

TEST(Replay, refuses_tokens_that_the_model_cannot_take) {
  const ModelData model = small_model();
  const auto error = [&](std::vector<int> tokens) {
    return error_of([&] { require_same_model(case_on(model, std::move(tokens)), model, "token"); });
  };
  EXPECT_EQ(error({0, 3}),
            "token: token outside the vocabulary, expected an id from 0 to 2, got 3");
  EXPECT_EQ(error({-1}), "token: token outside the vocabulary, expected an id from 0 to 2, got -1");
  EXPECT_EQ(error({0, 0, 0, 0, 0}), "token: past the context, expected at most 4 rows, got 5");
  EXPECT_EQ(error({}), "token: no tokens, expected at least 1, got 0");
}

TEST(Replay, refuses_a_check_that_there_is_not) {
  const ModelData model = small_model();
  Case subject = case_on(model, {0});
  subject.check = "nothing";
  const std::string error = error_of([&] { (void)run_case(subject, model, builtin_engine); });
  EXPECT_TRUE(error.starts_with("case: unknown check, expected one of corpus-prefixes, ")) << error;
  EXPECT_TRUE(error.ends_with(", got nothing")) << error;
}

}  // namespace
}  // namespace kvcheck
