// SPDX-License-Identifier: MIT
// The suite's rows about operations do not depend on the number of threads, and say what was run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "verify/test_canaries.h"
#include "verify/test_faults.h"

namespace kvcheck {
namespace {

// A stand-in for random ones, as many as are asked for: sequence `number` of a list that begins
// again.
Operations listed(const OperationSpace&, std::uint64_t, std::uint64_t number) {
  constexpr std::string_view kList[] = {
      "open.feed:0x3.truncate:0x1.feed:0x2",
      "open.open.batch:0x2-1x2.reorder:0-1@1-0.feed:0x1",
      "open.feed:0x1.fork:0.feed:0x1.feed:1x1.feed:0x1",
      "open.feed:0x6.truncate:0x2.feed:0x1",
      "open.feed:0x2.save:0.load:0.feed:1x1",
  };
  return parse_operations(kList[number % std::size(kList)], "test");
}

SuiteOptions options_of(OperationChoice::Kind kind, std::vector<CacheKind> caches) {
  SuiteOptions options = options_for(Arithmetic::row);
  options.prefixes = false;
  options.schedules = false;
  options.operations = {
      .kind = kind, .count = 100, .depth = 3, .caches = std::move(caches), .draw = listed};
  return options;
}

struct Ran {
  RunResult result;
  Collector collector;
};

Ran run_with(SuiteOptions options, int jobs, const ModelData& model, const EngineFactory& factory) {
  options.jobs = jobs;
  Ran run;
  run.result = run_on(options, random_run(model, 1), factory, run.collector);
  return run;
}

void expect_same(const Ran& a, const Ran& b) {
  EXPECT_EQ(a.collector.text, b.collector.text);
  ASSERT_EQ(a.result.checks.size(), b.result.checks.size());
  for (std::size_t i = 0; i < a.result.checks.size(); ++i) {
    const CheckSummary& one = a.result.checks[i];
    const CheckSummary& other = b.result.checks[i];
    EXPECT_EQ(one.counts, other.counts);
    EXPECT_TRUE(one.coverage == other.coverage);
    EXPECT_EQ(one.not_covered, other.not_covered);
    EXPECT_EQ(one.loss.has_value(), other.loss.has_value());
    if (!one.loss || !other.loss) continue;
    EXPECT_EQ(one.loss->rows, other.loss->rows);
    EXPECT_EQ(one.loss->same_choice, other.loss->same_choice);
    EXPECT_EQ(one.loss->max_abs_difference, other.loss->max_abs_difference);
    EXPECT_EQ(one.loss->max_divergence, other.loss->max_divergence);
  }
}

TEST(SuiteOperations, give_the_same_rows_with_any_number_of_threads) {
  const ModelData model = two_window_model();
  for (const auto kind : {OperationChoice::Kind::random, OperationChoice::Kind::exhaustive}) {
    const SuiteOptions options = options_of(kind, all_cache_kinds());
    const Ran one = run_with(options, 1, model, builtin_engine);
    EXPECT_EQ(one.result.verdict, Verdict::agree);
    expect_same(one, run_with(options, 4, model, builtin_engine));
  }
}

TEST(SuiteOperations, give_the_same_failures_with_any_number_of_threads) {
  const ModelData model = two_window_model();
  const EngineFactory factory = canary("reorder-ignored", Tells::all).factory;
  const SuiteOptions options = options_of(OperationChoice::Kind::random, {CacheKind{}});
  const Ran one = run_with(options, 1, model, factory);
  EXPECT_EQ(one.result.verdict, Verdict::diverge);
  EXPECT_EQ(one.collector.summary("operations").counts.diverged, 20) << "of the five in the list";
  EXPECT_EQ(one.collector.failures.size(), 20U);
  expect_same(one, run_with(options, 4, model, factory));
}

TEST(SuiteOperations, count_what_was_run_refused_and_lost) {
  const ModelData model = two_window_model();
  const SuiteOptions options = options_of(
      OperationChoice::Kind::random, {{.layout = CacheLayout::ring}, {.format = RowFormat::int8}});
  const Ran run = run_with(options, 2, model, builtin_engine);
  ASSERT_EQ(run.result.checks.size(), 2U);
  const CheckSummary& ring = run.result.checks[0];
  EXPECT_EQ(ring.counts.cases, 100);
  EXPECT_EQ(ring.counts.refused, 20);
  EXPECT_FALSE(ring.loss);
  ASSERT_TRUE(ring.coverage);
  EXPECT_EQ(ring.coverage->sequences, 100U);
  EXPECT_EQ(ring.coverage->of(Verb::truncate), 20U) << "what was refused is not covered";
  EXPECT_EQ(ring.coverage->of(Verb::reset), 0U);
  EXPECT_THAT(ring.not_covered, ::testing::Contains("reset"));
  const CheckSummary& rounded = run.result.checks[1];
  EXPECT_EQ(rounded.counts.refused, 0);
  ASSERT_TRUE(rounded.loss);
  EXPECT_EQ(rounded.loss->rows, 20 * ((3 + 2) + (4 + 1) + (1 + 1 + 1 + 1) + (6 + 1) + (2 + 1)));
}

}  // namespace
}  // namespace kvcheck
