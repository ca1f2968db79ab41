// SPDX-License-Identifier: MIT
// Sums, and that the worst is never lost in them.
#include "reports/merge.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/error.h"
#include "reports/test_records.h"

namespace kvcheck {
namespace {

CheckSummary with_difference(double difference, double ratio) {
  CheckSummary summary = diverging_check();
  summary.worst_difference->result.row->max_abs_difference = difference;
  summary.worst_ratio = ratio;
  return summary;
}

double merged_difference(const CheckSummary& a, const CheckSummary& b) {
  const CheckSummary pair[] = {a, b};
  return merge(pair, "both").worst_difference->result.row->max_abs_difference;
}

TEST(Merge, sums_what_can_be_counted) {
  CheckSummary first = diverging_check();
  first.counts.flaky = 4;
  first.counts.crashed = 5;
  const CheckSummary parts[] = {first, diverging_check()};
  const CheckSummary sum = merge(parts, "2 models");
  EXPECT_EQ(sum.model, "2 models");
  EXPECT_EQ(sum.check, "all-prefixes");
  EXPECT_EQ(sum.counts.cases, 80);
  EXPECT_EQ(sum.counts.prefixes, 22);
  EXPECT_EQ(sum.counts.logits, 2468);
  EXPECT_EQ(sum.counts.diverged, 2);
  EXPECT_EQ(sum.counts.undecided, 4);
  EXPECT_EQ(sum.counts.gated, 4);
  EXPECT_EQ(sum.counts.widened, 6);
  EXPECT_EQ(sum.counts.flaky, 4);
  EXPECT_EQ(sum.counts.crashed, 5);
  EXPECT_EQ(sum.seconds, 0.5);
}

TEST(Merge, takes_the_worst_verdict) {
  CheckSummary good = diverging_check();
  good.verdict = Verdict::agree;
  const CheckSummary parts[] = {good, diverging_check(), good};
  EXPECT_EQ(merge(parts, "").verdict, Verdict::diverge);
  EXPECT_EQ(merge({parts, 1}, "").verdict, Verdict::agree);
}

TEST(Merge, takes_the_worst_difference_and_ratio_from_wherever_they_are) {
  CheckSummary parts[] = {with_difference(1, 20), with_difference(3, 5), with_difference(2, 30)};
  parts[1].in_float64 = InFloat64{Verdict::agree, 3e-9};
  const CheckSummary sum = merge(parts, "");
  EXPECT_EQ(sum.in_float64->difference, 3e-9);
  EXPECT_EQ(sum.worst_difference->result.row->max_abs_difference, 3);
  EXPECT_EQ(sum.worst_ratio, 30);
}

TEST(Merge, infinity_and_nan_are_the_worst) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double bad : {infinity, nan}) {
    const CheckSummary parts[] = {with_difference(1, bad), with_difference(bad, 1)};
    const CheckSummary sum = merge(parts, "");
    EXPECT_FALSE(std::isfinite(*sum.worst_ratio));
    EXPECT_FALSE(std::isfinite(sum.worst_difference->result.row->max_abs_difference));
    EXPECT_FALSE(std::isfinite(merged_difference(with_difference(bad, 1), with_difference(1, 1))));
  }
  EXPECT_TRUE(std::isnan(merged_difference(with_difference(infinity, 1), with_difference(nan, 1))));
}

TEST(Merge, something_is_worse_than_nothing) {
  CheckSummary nothing = diverging_check();
  nothing.worst_difference.reset();
  nothing.worst_ratio.reset();
  const CheckSummary first[] = {nothing, with_difference(0, 0)};
  EXPECT_EQ(merge(first, "").worst_ratio, 0);
  EXPECT_TRUE(merge(first, "").worst_difference.has_value());
  const CheckSummary last[] = {with_difference(0, 0), nothing};
  EXPECT_EQ(merge(last, "").worst_ratio, 0);
  EXPECT_TRUE(merge(last, "").worst_difference.has_value());
  EXPECT_FALSE(merge({first, 1}, "").worst_ratio.has_value());
}

TEST(Merge, nothing_at_all_is_a_mistake) { EXPECT_THROW((void)merge({}, ""), InternalError); }

TEST(MergeByCheck, keeps_checks_and_ways_of_judging_apart) {
  CheckSummary row = diverging_check();
  row.arithmetic = Arithmetic::row;
  CheckSummary wide = diverging_check();
  wide.scalar = ScalarKind::f64;
  CheckSummary exact = diverging_check();
  exact.policy = Exact{};
  const CheckSummary parts[] = {
      diverging_check(), agreeing_check(), diverging_check(), row, wide, row, exact};
  const auto merged = merge_by_check(parts, "20 generated models");
  ASSERT_EQ(merged.size(), 5U);
  EXPECT_EQ(merged[0].counts.cases, 80);
  EXPECT_EQ(merged[1].check, "corpus-prefixes");
  EXPECT_EQ(merged[2].arithmetic, Arithmetic::row);
  EXPECT_EQ(merged[2].counts.cases, 80);
  EXPECT_EQ(merged[3].scalar, ScalarKind::f64);
  EXPECT_EQ(merged[4].policy, Policy{Exact{}});
  for (const CheckSummary& sum : merged) EXPECT_EQ(sum.model, "20 generated models");
  EXPECT_TRUE(merge_by_check({}, "").empty());
}

TEST(MergeByCheck, keeps_kinds_of_cache_apart_and_adds_what_was_reached) {
  CheckSummary ring = operations_check();
  ring.cache_kind = {.layout = CacheLayout::ring};
  CheckSummary other_model = operations_check();
  other_model.model = "gen:wide:1";
  EXPECT_FALSE(same_check(operations_check(), ring));
  EXPECT_TRUE(same_check(operations_check(), other_model));
  const CheckSummary parts[] = {operations_check(), ring, other_model};
  const auto merged = merge_by_check(parts, "2 models");
  ASSERT_EQ(merged.size(), 2U);
  EXPECT_EQ(merged[0].coverage->sequences, 4U);
  EXPECT_EQ(merged[1].cache_kind, ring.cache_kind);
  EXPECT_EQ(merged[1].coverage->sequences, 2U);
}

TEST(Merge, takes_the_worst_loss) {
  CheckSummary one = operations_check();
  one.loss = Loss{.rows = 1, .same_choice = 1, .max_abs_difference = 2, .max_divergence = 3};
  CheckSummary other = one;
  other.loss = Loss{.rows = 2, .same_choice = 0, .max_abs_difference = 1, .max_divergence = 4};
  const CheckSummary parts[] = {one, other};
  const Loss loss = merge(parts, "").loss.value();
  EXPECT_EQ(loss.rows, 3);
  EXPECT_EQ(loss.same_choice, 1);
  EXPECT_EQ(loss.max_abs_difference, 2);
  EXPECT_EQ(loss.max_divergence, 4);
}

}  // namespace
}  // namespace kvcheck
