// SPDX-License-Identifier: MIT
// A run says the same whatever the number of threads, and says what happened when it was stopped,
// when the engine failed, and when nothing could be decided.
#include "verify/suite.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>

#include "engine/error.h"
#include "engine/generated.h"
#include "verify/assignments.h"
#include "verify/case_text.h"
#include "verify/test_faults.h"

namespace kvcheck {
namespace {

EngineFactory factory_of(std::string_view fault) {
  for (const PlantedFault& planted : planted_faults()) {
    if (planted.id == fault) return planted.factory;
  }
  throw std::out_of_range("no such fault");
}

// Everything that a run over three models reports.
std::string report(int jobs, bool record_all, const EngineFactory& factory) {
  const ModelData small = small_model();
  const ModelData plain = load_model("gen:plain:1");
  const ModelData saturated = load_model("gen:saturated:1");
  SuiteOptions options;
  options.jobs = jobs;
  options.record_all = record_all;
  Collector collector;
  const std::atomic<bool> never = false;
  const RunResult result =
      run_suite(options, {whole_run(small), random_run(plain, 2), random_run(saturated, 2)},
                factory, collector, never);
  EXPECT_EQ(result.checks.size(), collector.summaries.size());
  EXPECT_FALSE(result.interrupted);
  return collector.text + std::string(name(result.verdict));
}

TEST(Suite, says_the_same_whatever_the_number_of_threads) {
  const std::string one = report(1, true, builtin_engine);
  EXPECT_EQ(report(2, true, builtin_engine), one);
  EXPECT_EQ(report(4, true, builtin_engine), one);
  EXPECT_NE(one.find("agree"), std::string::npos);
}

TEST(Suite, keeps_the_same_cases_whatever_the_number_of_threads) {
  const std::string one = report(1, false, builtin_engine);
  EXPECT_EQ(report(2, false, builtin_engine), one);
  EXPECT_EQ(report(4, false, builtin_engine), one);
}

TEST(Suite, finds_the_same_failures_whatever_the_number_of_threads) {
  const EngineFactory faulty = factory_of("positions-plus-one");
  const std::string one = report(1, false, faulty);
  EXPECT_EQ(report(4, false, faulty), one);
  EXPECT_NE(one.find("diverge"), std::string::npos);
}

TEST(Suite, another_run_says_the_same_again) {
  EXPECT_EQ(report(1, false, builtin_engine), report(1, false, builtin_engine));
}

TEST(Suite, announces_as_many_checks_as_it_reports_in_the_order_of_the_table) {
  ModelData model = small_model();
  model.contract_abs = 1e-5;
  Collector collector;
  SuiteOptions options;
  (void)run_on(options, whole_run(model), builtin_engine, collector);
  std::string order;
  for (const CheckSummary& s : collector.summaries) {
    order += s.check + " " + std::string(name(s.arithmetic)) + " " + to_text(s.policy) + "\n";
  }
  EXPECT_EQ(order,
            "all-prefixes row exact\nexact row exact\ncontract row abs:1e-05\n"
            "all-prefixes matrix abs:1e-05\ncontract matrix abs:1e-05\nnoise matrix noise:30\n"
            "causality row exact\ncausality matrix abs:1e-05\n"
            "schedules row exact\nschedules matrix abs:1e-05\n"
            "accounting row exact\naccounting matrix abs:1e-05\n"
            "generation row exact\ngeneration matrix abs:1e-05\n");
  EXPECT_EQ(collector.announced, collector.summaries.size());
}

TEST(Suite, counts_every_case_prefix_and_logit) {
  const ModelData model = small_model();
  Collector collector;
  (void)run_on(options_for(Arithmetic::row), whole_run(model), builtin_engine, collector);
  const auto counts = [&](std::string_view check) {
    const CheckSummary& s = collector.summary(check);
    return std::vector<std::int64_t>{s.counts.cases, s.counts.prefixes, s.counts.logits};
  };
  using Numbers = std::vector<std::int64_t>;
  EXPECT_EQ(counts("all-prefixes"), (Numbers{120, 120, 360}));
  EXPECT_EQ(counts("exact"), (Numbers{120, 120, 360}));
  EXPECT_EQ(counts("causality"), (Numbers{81, 81, 81 * 4 * 3}));
  // Every schedule of n tokens compares n rows of 3 logits.
  EXPECT_EQ(counts("schedules"), (Numbers{777, 120, 3 * (3 + 9 * 4 + 27 * 12 + 81 * 32)}));
  EXPECT_EQ(counts("accounting"), (Numbers{162, 81, 81 * 2 * 2 * 3})) << "half of four rows";
  EXPECT_GT(counts("generation")[0], 10);
  EXPECT_EQ(counts("generation")[0], counts("generation")[1]) << "a case is a prompt";
  EXPECT_GE(counts("generation")[2], 3 * counts("generation")[0]) << "a row at least";
}

TEST(Suite, runs_only_the_checks_of_the_groups_that_are_asked_for) {
  const ModelData model = small_model();
  SuiteOptions options = options_for(Arithmetic::row);
  options.prefixes = false;
  Collector schedules;
  (void)run_on(options, whole_run(model), builtin_engine, schedules);
  ASSERT_EQ(schedules.summaries.size(), 3U);
  EXPECT_EQ(schedules.summaries[0].check, "schedules");
  EXPECT_EQ(schedules.summaries[1].check, "accounting");
  EXPECT_EQ(schedules.summaries[2].check, "generation");
  options.schedules = false;
  Collector none;
  EXPECT_EQ(run_on(options, whole_run(model), builtin_engine, none).verdict, Verdict::gave_up);
  EXPECT_EQ(none.announced, 0U);
}

TEST(Suite, a_tolerance_replaces_the_policy_in_force_but_no_checks_own) {
  const ModelData model = small_model();
  SuiteOptions options = options_for(Arithmetic::matrix);
  options.tolerance = AbsLimit{0};
  Collector collector;
  (void)run_on(options, whole_run(model), builtin_engine, collector);
  EXPECT_EQ(collector.summary("all-prefixes").policy, Policy{AbsLimit{0}});
  EXPECT_EQ(collector.summary("schedules").policy, Policy{AbsLimit{0}});
  EXPECT_EQ(collector.summary("noise").policy, Policy{NoiseLimit{}});
  EXPECT_EQ(collector.summary("accounting").policy, Policy{AbsLimit{0}});
}

TEST(Suite, only_the_largest_source_is_judged_again) {
  const ModelData model = small_model();
  ModelRun run = whole_run(model);
  run.sources.insert(run.sources.begin(), {Source::corpus, PrefixTree::of({{0, 1}}, 4)});
  Collector collector;
  (void)run_on(options_for(Arithmetic::row), run, builtin_engine, collector);
  EXPECT_EQ(collector.summaries.front().check, "corpus-prefixes");
  EXPECT_EQ(collector.summaries.front().counts.cases, 2);
  EXPECT_EQ(collector.summaries.size(), 7U);
  EXPECT_EQ(collector.summary("exact").counts.cases, 120);
}

// ---- What is recorded

TEST(Suite, records_every_failure_and_the_worst_of_the_rest) {
  const ModelData model = small_model();
  Collector kept;
  SuiteOptions options = options_for(Arithmetic::matrix);
  (void)run_on(options, whole_run(model), factory_of("positions-plus-one"), kept);
  const CheckSummary& summary = kept.summary("all-prefixes");
  std::int64_t diverged = 0;
  for (const CaseRecord& record : kept.records_of("all-prefixes")) {
    diverged += record.result.verdict == Verdict::diverge ? 1 : 0;
  }
  EXPECT_EQ(diverged, summary.counts.diverged);
  EXPECT_GT(diverged, 0);
  EXPECT_LT(diverged, 120);
  EXPECT_EQ(kept.records_of("all-prefixes").size(), 120U) << "fewer than are kept at most";
}

TEST(Suite, shows_the_largest_difference_and_the_worst_ratio_of_a_pass) {
  const ModelData model = small_model();
  Collector collector;
  (void)run_on(options_for(Arithmetic::matrix), whole_run(model), builtin_engine, collector);
  const CheckSummary& summary = collector.summary("all-prefixes");
  double largest = 0;
  double ratio = 0;
  for (const CaseRecord& record : collector.records_of("all-prefixes")) {
    largest = std::max(largest, record.result.row->max_abs_difference);
    ratio = std::max(ratio, record.result.ratio.value());
  }
  ASSERT_TRUE(summary.worst_difference.has_value());
  EXPECT_EQ(summary.worst_difference->result.row->max_abs_difference, largest);
  EXPECT_EQ(summary.worst_ratio, ratio);
}

// ---- Stopping

TEST(Suite, stopped_before_it_begins_it_compares_nothing) {
  const ModelData model = small_model();
  const std::atomic<bool> stop = true;
  Collector collector;
  const RunResult result =
      run_suite(options_for(Arithmetic::row), {whole_run(model)}, builtin_engine, collector, stop);
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(result.verdict, Verdict::gave_up);
  EXPECT_TRUE(collector.records.empty());
}

TEST(Suite, stopped_on_the_way_it_reports_what_was_compared) {
  const ModelData model = small_model();
  std::atomic<bool> stop = false;
  int calls = 0;
  Hooks hooks;
  hooks.feed = [&](Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
    inner.batch(feeds, rows, out);
    if (++calls == 20) stop = true;
  };
  Collector collector;
  const RunResult result =
      run_suite(options_for(Arithmetic::row), {whole_run(model)}, hooked(hooks), collector, stop);
  EXPECT_TRUE(result.interrupted);
  ASSERT_EQ(collector.summaries.size(), 2U) << "all-prefixes and exact; nothing else had begun";
  const CheckSummary& partial = collector.summaries.front();
  EXPECT_GT(partial.counts.cases, 40);
  EXPECT_LT(partial.counts.cases, 120);
  EXPECT_EQ(partial.verdict, Verdict::agree);
  EXPECT_EQ(collector.records_of("all-prefixes").size(),
            static_cast<std::size_t>(partial.counts.cases));
}

// ---- Failing engines

// The case of the first broken record of a check, after it went through a token and was found good
// for a replay.
Case usable_case(const Collector& collector, std::string_view check, const ModelData& model) {
  for (const CaseRecord& record : collector.records_of(check)) {
    if (record.result.verdict != Verdict::broken) continue;
    EXPECT_EQ(record.result.mark, Mark::crash);
    Case subject = parse_token(to_token(record.subject), "test");
    EXPECT_EQ(subject, record.subject);
    EXPECT_NO_THROW(require_same_model(subject, model, "test")) << to_token(subject);
    return subject;
  }
  throw std::out_of_range("nothing broke");
}

// Fails at every full forward of three tokens that begin with 1.
Hooks failing_oracle() {
  Hooks hooks;
  hooks.full = [](Engine& inner, const TokenBlock& block, Rows rows, Logits& out) {
    if (block.length() == 3 && block.tokens[0] == 1) throw EngineError("out of paper");
    inner.full(block, rows, out);
  };
  return hooks;
}

TEST(Suite, an_engine_that_fails_is_broken_with_the_place_and_its_words) {
  const ModelData model = small_model();
  Collector collector;
  const RunResult result =
      run_on(options_for(Arithmetic::row), whole_run(model), hooked(failing_oracle()), collector);
  EXPECT_EQ(result.verdict, Verdict::broken);
  const CheckSummary& summary = collector.summary("all-prefixes");
  EXPECT_EQ(summary.verdict, Verdict::broken);
  EXPECT_EQ(summary.counts.crashed, 1);
  // The other first tokens are still run: 40 prefixes each; of this one [1], [1 0], and the place.
  EXPECT_EQ(summary.counts.cases, 83);
  const auto records = collector.records_of("all-prefixes");
  const auto broken = std::ranges::find(
      records, Verdict::broken, [](const CaseRecord& record) { return record.result.verdict; });
  ASSERT_NE(broken, records.end());
  EXPECT_EQ(broken->result.note, "out of paper");
  EXPECT_EQ(broken->subject.tokens, (std::vector<int>{1, 0, 0}));
  ASSERT_FALSE(collector.failures.empty());
  EXPECT_EQ(collector.failures.front().result.verdict, Verdict::broken);
}

TEST(Suite, a_case_that_broke_the_engine_can_be_run_again) {
  const ModelData model = small_model();
  Collector collector;
  const EngineFactory factory = hooked(failing_oracle());
  (void)run_on(options_for(Arithmetic::row), whole_run(model), factory, collector);
  for (const char* check : {"all-prefixes", "exact", "causality", "schedules", "accounting"}) {
    SCOPED_TRACE(check);
    const CaseResult again = run_case(usable_case(collector, check, model), model, factory).result;
    EXPECT_EQ(again.verdict, Verdict::broken);
    EXPECT_EQ(again.mark, Mark::crash);
    EXPECT_EQ(again.note, "out of paper");
  }
}

TEST(Suite, a_failure_within_a_schedule_names_the_schedule) {
  const ModelData model = small_model();
  Hooks hooks;
  hooks.feed = [](Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
    if (feeds.size() == 1 && feeds[0].tokens.size() == 2) throw EngineError("no pairs");
    inner.batch(feeds, rows, out);
  };
  Collector collector;
  (void)run_on(options_for(Arithmetic::row), whole_run(model), hooked(hooks), collector);
  EXPECT_EQ(collector.summary("all-prefixes").verdict, Verdict::agree);
  EXPECT_EQ(collector.summary("schedules").verdict, Verdict::broken);
  const Case subject = usable_case(collector, "schedules", model);
  EXPECT_EQ(subject.schedule, Schedule{2});
  EXPECT_EQ(run_case(subject, model, hooked(hooks)).result.note, "no pairs");
}

TEST(Suite, an_engine_that_refuses_a_valid_feed_is_broken) {
  const ModelData model = small_model();
  Hooks hooks;
  hooks.feed = [](Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
    if (inner.held(feeds[0].sequence).rows == 2) throw Error("two are enough");
    inner.batch(feeds, rows, out);
  };
  Collector collector;
  const RunResult result =
      run_on(options_for(Arithmetic::row), whole_run(model), hooked(hooks), collector);
  EXPECT_EQ(result.verdict, Verdict::broken);
  EXPECT_EQ(collector.summary("all-prefixes").verdict, Verdict::broken);
  EXPECT_EQ(collector.summary("all-prefixes").counts.crashed, 3) << "once for each first token";
  ASSERT_FALSE(collector.failures.empty());
  EXPECT_EQ(collector.failures.front().result.note, "two are enough");
}

// ---- Marks

// Wrong in the first answer that it ever gives, whichever engine gives it.
TEST(Suite, what_differs_only_once_diverges_and_is_marked_flaky) {
  const ModelData model = small_model();
  const auto answers = std::make_shared<std::atomic<int>>(0);
  Hooks hooks;
  hooks.feed = [answers](Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
    inner.batch(feeds, rows, out);
    if ((*answers)++ == 0) first_logit(out, 0) += 1;
  };
  Collector collector;
  const RunResult result =
      run_on(options_for(Arithmetic::row), whole_run(model), hooked(hooks), collector);
  const CheckSummary& summary = collector.summary("all-prefixes");
  EXPECT_EQ(summary.verdict, Verdict::diverge);
  EXPECT_EQ(summary.counts.diverged, 1);
  EXPECT_EQ(summary.counts.flaky, 1);
  EXPECT_EQ(result.verdict, Verdict::diverge);
  ASSERT_FALSE(collector.failures.empty());
  EXPECT_EQ(collector.failures.front().result.mark, Mark::none) << "shown before it is run again";
}

TEST(Suite, what_differs_again_is_not_flaky) {
  const ModelData model = small_model();
  Collector collector;
  (void)run_on(options_for(Arithmetic::row), whole_run(model), factory_of("stale-keys"), collector);
  EXPECT_GT(collector.summary("all-prefixes").counts.diverged, 0);
  EXPECT_EQ(collector.summary("all-prefixes").counts.flaky, 0);
}

// Adds to a logit of the cached path, in these scalars.
EngineFactory off_by(double f32, double f64) {
  Hooks hooks;
  hooks.feed = [=](Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
    inner.batch(feeds, rows, out);
    const double by = inner.hello().compute == ScalarKind::f32 ? f32 : f64;
    for (int r = 0; r < out.rows(); ++r) first_logit(out, r) += by;
  };
  return hooked(hooks);
}

TEST(Suite, what_float32_cannot_decide_is_decided_in_float64) {
  const ModelData model = ill_conditioned_model();
  Collector collector;
  const RunResult result =
      run_on(options_for(Arithmetic::matrix), whole_run(model), off_by(0.5, 0), collector);
  const CheckSummary& summary = collector.summary("all-prefixes");
  EXPECT_EQ(summary.counts.widened, 120);
  EXPECT_EQ(summary.counts.gated, 0);
  EXPECT_EQ(summary.verdict, Verdict::agree);
  EXPECT_EQ(result.verdict, Verdict::agree);
  EXPECT_TRUE(collector.failures.empty());
}

TEST(Suite, what_differs_in_float64_as_well_diverges) {
  const ModelData model = ill_conditioned_model();
  Collector collector;
  (void)run_on(options_for(Arithmetic::matrix), whole_run(model), off_by(0.5, 0.5), collector);
  const CheckSummary& summary = collector.summary("all-prefixes");
  EXPECT_EQ(summary.counts.widened, 120);
  EXPECT_EQ(summary.counts.diverged, 120);
  EXPECT_EQ(summary.verdict, Verdict::diverge);
  EXPECT_FALSE(collector.failures.empty());
}

// An engine that has no float64 decided nothing: that is a crash, not a decision.
TEST(Suite, a_failure_while_deciding_in_float64_is_a_crash) {
  const ModelData model = ill_conditioned_model();
  Hooks hooks;
  hooks.feed = [=](Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
    if (inner.hello().compute == ScalarKind::f64) throw EngineError("no float64");
    inner.batch(feeds, rows, out);
    first_logit(out, 0) += 0.5;
  };
  SuiteOptions options = options_for(Arithmetic::matrix);
  options.schedules = false;
  Collector collector;
  (void)run_on(options, random_run(model, 1), hooked(hooks), collector);
  const CheckSummary& summary = collector.summary("random-prefixes");
  EXPECT_EQ(summary.verdict, Verdict::broken);
  EXPECT_GT(summary.counts.crashed, 0);
  EXPECT_EQ(summary.counts.widened, 0);
}

TEST(Suite, nothing_to_compare_is_gave_up) {
  const ModelData model = small_model();
  Collector collector;
  const ModelRun nothing{model, {{Source::random, PrefixTree::of({}, 4)}}, {}};
  EXPECT_EQ(run_on({}, nothing, builtin_engine, collector).verdict, Verdict::gave_up);
  EXPECT_TRUE(collector.records.empty());
  const std::atomic<bool> never = false;
  EXPECT_EQ(run_suite({}, {}, builtin_engine, collector, never).verdict, Verdict::gave_up);
}

// A sequence so long that walks over it are cut, and one that parts from it.
ModelRun long_run(const ModelData& model) {
  std::vector<int> tokens = random_tokens(model.weights.config.vocabulary, kCutLength + 6, 1, 0);
  std::vector<int> other = tokens;
  other.resize(kCutLength / 2);
  other.back() = (other.back() + 1) % model.weights.config.vocabulary;
  const int context = model.weights.config.context;
  return {model, {{Source::file, PrefixTree::of({tokens, other}, context)}}, {}};
}

std::vector<CheckSummary> summaries_of(OracleChoice oracle, const EngineFactory& factory) {
  const ModelData model = load_model("gen:two-bases:1:context80");
  SuiteOptions options;
  options.oracle = oracle;
  options.schedules = false;
  Collector collector;
  (void)run_on(options, long_run(model), factory, collector);
  return collector.summaries;
}

TEST(Suite, long_sequences_are_cut_and_every_prefix_compared_once) {
  for (const OracleChoice oracle : {OracleChoice::per_prefix, OracleChoice::full}) {
    int checks = 0;
    for (const CheckSummary& summary : summaries_of(oracle, builtin_engine)) {
      EXPECT_EQ(summary.verdict, Verdict::agree) << summary.check;
      EXPECT_EQ(summary.full_oracle, oracle == OracleChoice::full);
      if (summary.check != "file-prefixes") continue;
      EXPECT_EQ(summary.counts.prefixes, kCutLength + 6 + 1);
      ++checks;
    }
    EXPECT_EQ(checks, 2);
  }
}

TEST(Suite, faults_in_long_sequences_are_seen_by_either_oracle) {
  for (const OracleChoice oracle : {OracleChoice::per_prefix, OracleChoice::full}) {
    int checks = 0;
    for (const CheckSummary& summary : summaries_of(oracle, factory_of("positions-plus-one"))) {
      if (summary.check == "causality") continue;
      EXPECT_EQ(summary.verdict, Verdict::diverge) << summary.check;
      ++checks;
    }
    EXPECT_EQ(checks, 4) << "prefixes in both arithmetics, exact, noise";
  }
}

// A case is run again beside a forward of its own, which is right here: the engine still gives two
// answers to one question.
TEST(Suite, a_difference_from_whole_forwards_alone_is_not_flaky) {
  Hooks hooks;
  hooks.full = [](Engine& inner, const TokenBlock& block, Rows rows, Logits& out) {
    inner.full(block, rows, out);
    if (rows == Rows::all) first_logit(out, 2) += 1;  // of three tokens: no sampled length
  };
  int checks = 0;
  for (const CheckSummary& summary : summaries_of(OracleChoice::full, hooked(hooks))) {
    if (summary.check != "file-prefixes") continue;
    ++checks;
    EXPECT_EQ(summary.verdict, Verdict::diverge);
    ASSERT_TRUE(summary.worst_difference);
    const CaseResult& worst = summary.worst_difference->result;
    EXPECT_EQ(worst.mark, Mark::none);
    EXPECT_EQ(worst.note,
              "differs from the forward of its whole sequence, and not from one of its own");
  }
  EXPECT_EQ(checks, 2);
}

// A wrong forward of a whole sequence must not raise the floor that it is judged by.
TEST(Suite, wrong_forwards_of_long_sequences_are_seen_by_causality) {
  for (const OracleChoice oracle : {OracleChoice::per_prefix, OracleChoice::full}) {
    int checks = 0;
    for (const CheckSummary& summary :
         summaries_of(oracle, factory_of("full-sees-the-next-token"))) {
      if (summary.check != "causality") continue;
      EXPECT_EQ(summary.verdict, Verdict::diverge) << name(summary.arithmetic);
      ++checks;
    }
    EXPECT_EQ(checks, 2);
  }
}

TEST(Suite, the_oracle_is_chosen_by_its_work) {
  const ModelData small = load_model("gen:plain:1:context80");
  const ModelData large = load_model("gen:wide:1:context8192");
  for (const ModelData* model : {&small, &large}) {
    const int length = model->weights.config.context;
    const ModelRun run{
        *model,
        {{Source::file,
          PrefixTree::of({std::vector<int>(static_cast<std::size_t>(length), 0)}, length)}},
        {}};
    for (const auto& assignment : plan_assignments({}, {run})) {
      EXPECT_EQ(assignment->oracle,
                model == &small ? OracleChoice::per_prefix : OracleChoice::full);
    }
  }
}

}  // namespace
}  // namespace kvcheck
