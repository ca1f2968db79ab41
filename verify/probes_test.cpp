// SPDX-License-Identifier: MIT
// What each probe measures, of which prefixes, and how it ends when the engine fails.
#include "verify/probes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "engine/error.h"
#include "verify/test_faults.h"

namespace kvcheck {
namespace {

// A measurement that outlives its walk.
struct Copied {
  std::vector<int> tokens;
  Schedule schedule;
  std::vector<MeasuredRow> rows;
};

struct Laboratory {
  explicit Laboratory(ModelData subject, Arithmetic arithmetic = Arithmetic::row,
                      const EngineFactory& factory = builtin_engine)
      : model(std::move(subject)),
        bench(make_bench(model, {ScalarKind::f32, arithmetic}, 1, factory)) {}

  std::vector<Copied> run(ProbeFunction function, const Probe& probe) {
    std::vector<Copied> found;
    failure = run_probe(function, bench, probe, [&](const Measured& m) {
      found.push_back(
          {{m.tokens.begin(), m.tokens.end()}, m.schedule, {m.rows.begin(), m.rows.end()}});
    });
    return found;
  }

  ModelData model;
  Bench bench;
  std::optional<ProbeFailure> failure;
};

std::string text_of(const std::vector<Copied>& found) {
  std::string text;
  for (const Copied& measured : found) {
    text += fmt::format("{}:{}", fmt::join(measured.tokens, ""), to_text(measured.schedule));
    for (const MeasuredRow& row : measured.rows) text += fmt::format(" {}", row.position);
    text += "\n";
  }
  return text;
}

const PrefixTree kThree = PrefixTree::of({{0, 1, 2}, {0, 2}}, 4);

TEST(ProbePrefixes, measures_the_last_row_of_every_prefix) {
  Laboratory lab(small_model());
  EXPECT_EQ(text_of(lab.run(probe_prefixes, {.tree = kThree})),
            "0:1 0\n01:1+1 1\n012:1+1+1 2\n02:1+1 1\n");
  EXPECT_FALSE(lab.failure.has_value());
}

TEST(ProbePrefixes, compares_the_cached_row_with_the_oracles) {
  Hooks hooks;
  hooks.feed = [](Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
    inner.batch(feeds, rows, out);
    first_logit(out, out.rows() - 1) += 0.5;
  };
  for (const PrefixTree& tree : {kThree, PrefixTree::all(small_config())}) {
    Laboratory lab(small_model(), Arithmetic::row, hooked(hooks));
    lab.bench.keep_rows = true;
    const auto found = lab.run(probe_prefixes, {.tree = tree});
    ASSERT_FALSE(found.empty());
    const MeasuredRow& row = found.back().rows.at(0);
    Logits expected;
    builtin_engine(lab.model, {ScalarKind::f32, Arithmetic::row})
        ->full({found.back().tokens, 1}, Rows::last, expected);
    EXPECT_EQ(row.uncached, expected.values);
    EXPECT_NEAR(row.cached[0], expected.values[0] + 0.5, 1e-6);
    EXPECT_NEAR(row.comparison.max_abs_difference, 0.5, 1e-6);
    EXPECT_EQ(row.comparison.uncached, row.uncached[0]) << "the oracle's side is the uncached one";
  }
}

TEST(ProbePrefixes, keeps_rows_only_when_asked) {
  Laboratory lab(small_model());
  EXPECT_TRUE(lab.run(probe_prefixes, {.tree = kThree}).at(0).rows.at(0).uncached.empty());
}

TEST(ProbePrefixes, measures_floors_where_rounding_is_expected_or_rows_differ) {
  Laboratory exact(small_model());
  for (const Copied& found : exact.run(probe_prefixes, {.tree = kThree})) {
    EXPECT_FALSE(found.rows.at(0).floor.has_value()) << "nothing to explain";
  }
  Laboratory rounding(small_model(), Arithmetic::matrix);
  for (const Copied& found : rounding.run(probe_prefixes, {.tree = kThree})) {
    EXPECT_TRUE(found.rows.at(0).floor.has_value());
  }
  EXPECT_GT(rounding.bench.noise_seconds, 0);
  Laboratory wrong(small_model(), Arithmetic::row, positions_plus_one());
  const auto found = wrong.run(probe_prefixes, {.tree = kThree});
  EXPECT_FALSE(found.at(0).rows.at(0).floor.has_value());
  EXPECT_TRUE(found.at(1).rows.at(0).floor.has_value());
  rounding.bench.noise.reset();
  EXPECT_FALSE(rounding.run(probe_prefixes, {.tree = kThree}).at(0).rows.at(0).floor.has_value());
}

TEST(ProbeSchedules, measures_every_row_of_every_feed) {
  Laboratory lab(small_model());
  const auto found =
      lab.run(probe_schedules, {.tree = kThree, .scope = {.path = {0, 1, 2}, .path_only = true}});
  const std::string text = text_of(found);
  EXPECT_EQ(found.size(), 4U);
  for (const char* schedule : {"3", "1+2", "2+1", "1+1+1"}) {
    EXPECT_NE(text.find(fmt::format("012:{} 0 1 2\n", schedule)), text.npos) << text;
  }
}

TEST(ProbeSchedules, runs_only_the_schedule_that_is_asked_for) {
  Laboratory lab(small_model());
  const auto found = lab.run(probe_schedules, {.tree = kThree,
                                               .scope = {.path = {0, 1, 2}, .path_only = true},
                                               .only_schedule = Schedule{2, 1}});
  EXPECT_EQ(text_of(found), "012:2+1 0 1 2\n");
}

// A longer prefix's decode runs the very same feeds.
TEST(ProbeSchedules, long_prefixes_are_decoded_once) {
  Config config = small_config();
  config.context = 9;
  Laboratory lab(model_of("long", random_model(config, {}, 1)));
  const PrefixTree tree = PrefixTree::of({{0, 1, 2, 0, 0, 2, 1, 2, 0}}, 9);
  std::map<std::size_t, std::set<std::string>> schedules;
  for (const Copied& found : lab.run(probe_schedules, {.tree = tree})) {
    schedules[found.tokens.size()].insert(to_text(found.schedule));
    EXPECT_EQ(found.rows.size(), found.tokens.size());
  }
  EXPECT_EQ(schedules[6].size(), 32U);
  EXPECT_EQ(schedules[7], (std::set<std::string>{"7"}));
  EXPECT_EQ(schedules[8], (std::set<std::string>{"8"}));
  EXPECT_EQ(schedules[9], (std::set<std::string>{"9", "1+1+1+1+1+1+1+1+1"}));
}

TEST(ProbeSchedules, too_few_rows_are_a_failure_of_the_engine) {
  Hooks hooks;
  hooks.feed = [](Engine& inner, std::span<const Feed> feeds, Rows, Logits& out) {
    inner.batch(feeds, Rows::last, out);
  };
  Laboratory lab(small_model(), Arithmetic::row, hooked(hooks));
  (void)lab.run(probe_schedules, {.tree = PrefixTree::of({{0, 1}}, 4)});
  ASSERT_TRUE(lab.failure.has_value());
  EXPECT_EQ(lab.failure->what, "1 rows of logits were answered where 2 were asked for");
  EXPECT_EQ(lab.failure->tokens, (std::vector<int>{0, 1}));
  EXPECT_EQ(lab.failure->schedule, Schedule{2});
}

TEST(ProbeCausality, measures_all_rows_of_the_longest_prefixes) {
  Laboratory lab(small_model());
  EXPECT_EQ(text_of(lab.run(probe_causality, {.tree = kThree})), "012: 0 1 2\n02: 0 1\n");
  EXPECT_EQ(text_of(lab.run(probe_causality,
                            {.tree = kThree, .scope = {.path = {0, 1}, .path_only = true}})),
            "01: 0 1\n");
}

// Fewer rows than tokens would leave the last ones, the likeliest to be wrong, uncompared.
TEST(ProbeCausality, too_few_rows_are_a_failure_of_the_engine) {
  Hooks hooks;
  hooks.full = [](Engine& inner, const TokenBlock& block, Rows rows, Logits& out) {
    inner.full(block, rows, out);
    if (rows == Rows::all) out.values.resize(out.values.size() - 3);
  };
  Laboratory lab(small_model(), Arithmetic::row, hooked(hooks));
  (void)lab.run(probe_causality, {.tree = kThree});
  EXPECT_TRUE(lab.failure.has_value());
}

// ---- Golden logits

// The small model with the logits of its own oracle, off by `by` at the prefix [1, 2].
ModelData with_golden(double by) {
  ModelData model = small_model();
  const auto engine = builtin_engine(model, {ScalarKind::f64, Arithmetic::row});
  std::vector<double> values;
  std::vector<std::vector<int>> level{{}};
  for (int n = 1; n <= model.weights.config.context; ++n) {
    std::vector<std::vector<int>> next;
    for (const std::vector<int>& prefix : level) {
      for (int token = 0; token < model.weights.config.vocabulary; ++token) {
        next.push_back(prefix);
        next.back().push_back(token);
        Logits logits;
        engine->full({next.back(), 1}, Rows::last, logits);
        if (next.back() == std::vector<int>{1, 2}) first_logit(logits, 0) += by;
        values.insert(values.end(), logits.values.begin(), logits.values.end());
      }
    }
    level = std::move(next);
  }
  const Config& config = model.weights.config;
  model.golden =
      std::make_shared<const GoldenLogits>(config.vocabulary, config.context, std::move(values));
  return model;
}

// The cases of a run of the golden check that diverge: tokens and schedule.
std::string diverging(const ModelData& model, const EngineFactory& factory) {
  Collector collector;
  (void)run_on(options_for(Arithmetic::row), whole_run(model), factory, collector);
  EXPECT_EQ(collector.summary("golden").counts.cases, 240) << "both decoders on every prefix";
  EXPECT_EQ(collector.summary("golden").scalar, ScalarKind::f64);
  std::string text;
  for (const CaseRecord& record : collector.records_of("golden")) {
    if (record.result.verdict != Verdict::diverge) continue;
    text += fmt::format("{}:{} ", fmt::join(record.subject.tokens, ""),
                        to_text(record.subject.schedule));
  }
  return text;
}

TEST(ProbeGolden, agrees_with_its_own_logits) {
  EXPECT_EQ(diverging(with_golden(0), builtin_engine), "");
}

TEST(ProbeGolden, says_which_side_is_off) {
  EXPECT_EQ(diverging(with_golden(1e-9), builtin_engine), "12: 12:1+1 ");
  const ModelData model = with_golden(0);
  Hooks hooks;
  const auto wrong_at_01 = [](const Engine& inner) {
    return inner.hello().compute == ScalarKind::f64 ? 1e-9 : 0;
  };
  hooks.full = [=](Engine& inner, const TokenBlock& block, Rows rows, Logits& out) {
    inner.full(block, rows, out);
    if (block.length() == 1 && out.rows() == 3) first_logit(out, 1) += wrong_at_01(inner);
  };
  EXPECT_EQ(diverging(model, hooked(hooks)), "1: ") << "only the oracle";
  hooks.full = {};
  hooks.feed = [=](Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
    const bool first = inner.held(feeds[0].sequence).rows == 0;
    inner.batch(feeds, rows, out);
    if (first && out.rows() == 3) first_logit(out, 1) += wrong_at_01(inner);
  };
  EXPECT_EQ(diverging(model, hooked(hooks)), "1:1 ") << "only the cache";
}

// ---- How a probe ends

TEST(RunProbe, a_failing_engine_is_a_value_with_the_place) {
  for (const bool refuses : {false, true}) {
    Hooks hooks;
    hooks.feed = [=](Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
      if (inner.held(feeds[0].sequence).rows == 1) {
        if (refuses) throw Error("no more");
        throw EngineError("no more");
      }
      inner.batch(feeds, rows, out);
    };
    Laboratory lab(small_model(), Arithmetic::row, hooked(hooks));
    EXPECT_EQ(text_of(lab.run(probe_prefixes, {.tree = kThree})), "0:1 0\n");
    ASSERT_TRUE(lab.failure.has_value());
    EXPECT_EQ(lab.failure->what, "no more");
    EXPECT_EQ(lab.failure->tokens, (std::vector<int>{0, 1}));
  }
}

// The schedule at hand belongs to the prefix at hand, or there is none.
TEST(RunProbe, the_place_of_a_failure_is_one_case) {
  for (const ProbeFunction function : {probe_prefixes, probe_schedules, probe_accounting}) {
    Hooks hooks;
    hooks.full = [](Engine& inner, const TokenBlock& block, Rows rows, Logits& out) {
      if (block.length() == 2 && block.tokens[1] == 2) throw EngineError("no more");
      inner.full(block, rows, out);
    };
    Laboratory lab(small_model(), Arithmetic::row, hooked(hooks));
    (void)lab.run(function, {.tree = kThree});
    ASSERT_TRUE(lab.failure.has_value());
    EXPECT_EQ(lab.failure->tokens, (std::vector<int>{0, 2}));
    int fed = 0;
    for (const int length : lab.failure->schedule) fed += length;
    EXPECT_TRUE(fed == 0 || fed == 2) << to_text(lab.failure->schedule);
  }
}

// A case without tokens could not be run again.
TEST(RunProbe, an_engine_that_fails_before_the_first_prefix_fails_at_it) {
  Hooks hooks;
  hooks.open = [](Engine&) -> SequenceId { throw EngineError("full"); };
  const Scope scopes[] = {{}, {.path = {0, 2}}, {.path = {0, 2}, .path_only = true}};
  const std::vector<int> first[] = {{0}, {0, 2}, {0, 2}};
  for (std::size_t i = 0; i < std::size(scopes); ++i) {
    Laboratory lab(small_model(), Arithmetic::row, hooked(hooks));
    (void)lab.run(probe_prefixes, {.tree = kThree, .scope = scopes[i]});
    ASSERT_TRUE(lab.failure.has_value());
    EXPECT_EQ(lab.failure->tokens, first[i]);
    EXPECT_TRUE(lab.failure->schedule.empty());
  }
}

TEST(RunProbe, mistakes_of_this_program_are_not_blamed_on_the_engine) {
  Hooks hooks;
  hooks.feed = [](Engine&, std::span<const Feed>, Rows, Logits&) { throw InternalError("mine"); };
  Laboratory lab(small_model(), Arithmetic::row, hooked(hooks));
  EXPECT_THROW((void)lab.run(probe_prefixes, {.tree = kThree}), InternalError);
}

TEST(RunProbe, ends_early_when_it_is_asked_to) {
  Laboratory lab(small_model());
  std::atomic<bool> stop = false;
  int seen = 0;
  const Sink sink = [&](const Measured&) { stop = ++seen == 2; };
  EXPECT_THROW((void)run_probe(probe_prefixes, lab.bench, {.tree = kThree, .stop = &stop}, sink),
               Stopped);
  EXPECT_EQ(seen, 2);
}

}  // namespace
}  // namespace kvcheck
