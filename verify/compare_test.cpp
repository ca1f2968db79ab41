// SPDX-License-Identifier: MIT
// A difference is never overlooked: NaN, infinities, ties and the sign of zero each have a stated
// answer.
#include "verify/compare.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "engine/error.h"
#include "engine/random.h"

namespace kvcheck {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

RowComparison compare(const std::vector<double>& uncached, const std::vector<double>& cached,
                      ScalarKind scalar = ScalarKind::f32) {
  return compare_rows(uncached, cached, scalar);
}

TEST(CompareRows, equal_rows_do_not_differ) {
  const RowComparison found = compare({1, -2, 0.5}, {1, -2, 0.5});
  EXPECT_EQ(found.max_abs_difference, 0);
  EXPECT_EQ(found.token_at_max, 0);
  EXPECT_EQ(found.ulps, 0U);
  EXPECT_TRUE(found.same_bits);
  EXPECT_TRUE(found.uncached_finite);
  EXPECT_TRUE(found.cached_finite);
}

TEST(CompareRows, tells_where_the_largest_difference_is_and_both_values_there) {
  const RowComparison found = compare({1, 2, 3, 4}, {1.25, 2, 2, 4.5});
  EXPECT_EQ(found.max_abs_difference, 1);
  EXPECT_EQ(found.token_at_max, 2);
  EXPECT_EQ(found.uncached, 3);
  EXPECT_EQ(found.cached, 2);
  EXPECT_EQ(found.ulps, 1U << 22U) << "half a binade of floats";
  EXPECT_FALSE(found.same_bits);
}

TEST(CompareRows, of_equal_differences_the_lowest_id_is_told) {
  EXPECT_EQ(compare({0, 0, 0}, {0, -1, 1}).token_at_max, 1);
}

TEST(CompareRows, the_last_logit_counts) {
  const RowComparison found = compare({0, 0, 0}, {0, 0, 1e-30});
  EXPECT_EQ(found.max_abs_difference, 1e-30);
  EXPECT_EQ(found.token_at_max, 2);
  EXPECT_FALSE(found.same_bits);
}

TEST(CompareRows, zeros_of_both_signs_are_the_same) {
  const RowComparison found = compare({0.0, 1}, {-0.0, 1});
  EXPECT_EQ(found.max_abs_difference, 0);
  EXPECT_TRUE(found.same_bits);
  EXPECT_EQ(found.ulps, 0U);
}

TEST(CompareRows, nan_in_the_cached_row_is_an_infinite_difference) {
  const RowComparison found = compare({1, 2, 3}, {9, kNan, 3});
  EXPECT_EQ(found.max_abs_difference, kInf);
  EXPECT_EQ(found.token_at_max, 1);
  EXPECT_TRUE(std::isnan(found.cached));
  EXPECT_EQ(found.uncached, 2);
  EXPECT_EQ(found.ulps, kMost);
  EXPECT_TRUE(found.uncached_finite);
  EXPECT_FALSE(found.cached_finite);
  EXPECT_FALSE(found.same_bits);
}

TEST(CompareRows, nan_in_the_uncached_row_is_an_infinite_difference) {
  const RowComparison found = compare({1, kNan, 3}, {1, 2, 3});
  EXPECT_EQ(found.max_abs_difference, kInf);
  EXPECT_EQ(found.token_at_max, 1);
  EXPECT_FALSE(found.uncached_finite);
  EXPECT_TRUE(found.cached_finite);
  EXPECT_FALSE(found.same_bits);
}

TEST(CompareRows, nan_on_both_sides_is_no_agreement) {
  const RowComparison found = compare({kNan, 1}, {kNan, 1});
  EXPECT_EQ(found.max_abs_difference, kInf);
  EXPECT_FALSE(found.same_bits);
  EXPECT_FALSE(found.uncached_finite);
  EXPECT_FALSE(found.cached_finite);
}

TEST(CompareRows, the_same_infinity_does_not_differ_but_is_not_finite) {
  const RowComparison found = compare({kInf, -kInf, 1}, {kInf, -kInf, 1});
  EXPECT_EQ(found.max_abs_difference, 0);
  EXPECT_TRUE(found.same_bits);
  EXPECT_FALSE(found.uncached_finite);
  EXPECT_FALSE(found.cached_finite);
}

TEST(CompareRows, infinities_against_anything_else_differ_infinitely) {
  EXPECT_EQ(compare({kInf}, {-kInf}).max_abs_difference, kInf);
  EXPECT_EQ(compare({kInf}, {1}).max_abs_difference, kInf);
  EXPECT_EQ(compare({1}, {-kInf}).max_abs_difference, kInf);
  EXPECT_FALSE(compare({1}, {-kInf}).cached_finite);
  EXPECT_FALSE(compare({kInf}, {1}).uncached_finite);
}

TEST(CompareRows, a_difference_beyond_the_largest_number_is_infinite) {
  const RowComparison found = compare({1.7e308}, {-1.7e308}, ScalarKind::f64);
  EXPECT_EQ(found.max_abs_difference, kInf);
  EXPECT_TRUE(found.uncached_finite);
  EXPECT_TRUE(found.cached_finite);
}

TEST(CompareRows, argmax_is_the_lowest_id_of_the_largest) {
  const RowComparison found = compare({1, 3, 3, 2}, {4, 4, 0, 4});
  EXPECT_EQ(found.argmax_uncached, 1);
  EXPECT_EQ(found.argmax_cached, 0);
}

TEST(CompareRows, nan_is_never_the_largest) {
  const RowComparison found = compare({kNan, 1, 2, kNan}, {1, kNan, -kInf, 5});
  EXPECT_EQ(found.argmax_uncached, 2);
  EXPECT_EQ(found.argmax_cached, 3);
  EXPECT_EQ(compare({kNan, kNan}, {-kInf, -kInf}).argmax_uncached, 0);
}

TEST(CompareRows, largest_is_the_size_of_the_uncached_row) {
  EXPECT_EQ(compare({1, -7, 3}, {99, -7, 3}).largest, 7);
  EXPECT_EQ(compare({0}, {5}).largest, 0);
}

TEST(CompareRows, only_rows_of_one_length_are_compared) {
  EXPECT_THROW((void)compare({1, 2}, {1}), InternalError);
  EXPECT_THROW((void)compare({1}, {1, 2}), InternalError);
  EXPECT_THROW((void)compare({}, {}), InternalError);
}

TEST(UlpsBetween, neighbours_are_one_apart) {
  EXPECT_EQ(ulps_between(1.0, std::nextafterf(1.0F, 2.0F), ScalarKind::f32), 1U);
  EXPECT_EQ(ulps_between(1.0, std::nextafterf(1.0F, 0.0F), ScalarKind::f32), 1U);
  EXPECT_EQ(ulps_between(-1.0, std::nextafterf(-1.0F, 0.0F), ScalarKind::f32), 1U);
  EXPECT_EQ(ulps_between(1.0, std::nextafter(1.0, 2.0), ScalarKind::f64), 1U);
  EXPECT_EQ(ulps_between(std::numeric_limits<float>::max(), kInf, ScalarKind::f32), 1U);
}

TEST(UlpsBetween, the_count_goes_across_zero) {
  constexpr double kTiny32 = std::numeric_limits<float>::denorm_min();
  constexpr double kTiny64 = std::numeric_limits<double>::denorm_min();
  EXPECT_EQ(ulps_between(-kTiny32, kTiny32, ScalarKind::f32), 2U);
  EXPECT_EQ(ulps_between(kTiny64, -kTiny64, ScalarKind::f64), 2U);
  EXPECT_EQ(ulps_between(-0.0, kTiny32, ScalarKind::f32), 1U);
  EXPECT_EQ(ulps_between(0.0, -0.0, ScalarKind::f32), 0U);
  EXPECT_EQ(ulps_between(0.0, -0.0, ScalarKind::f64), 0U);
}

TEST(UlpsBetween, the_scalar_decides_what_a_neighbour_is) {
  const double next = std::nextafterf(1.0F, 2.0F);
  EXPECT_EQ(ulps_between(1.0, next, ScalarKind::f64), std::uint64_t{1} << 29U);
}

TEST(UlpsBetween, nan_is_as_far_as_can_be_from_every_number) {
  for (const ScalarKind scalar : {ScalarKind::f32, ScalarKind::f64}) {
    EXPECT_EQ(ulps_between(kNan, 1, scalar), kMost);
    EXPECT_EQ(ulps_between(-kInf, kNan, scalar), kMost);
    EXPECT_EQ(ulps_between(kNan, kNan, scalar), 0U);
  }
}

TEST(UlpsBetween, the_whole_range_does_not_overflow) {
  EXPECT_EQ(ulps_between(-kInf, kInf, ScalarKind::f64), std::uint64_t{0x7ff} << 53U);
  EXPECT_EQ(ulps_between(-kInf, kInf, ScalarKind::f32), std::uint64_t{0xff} << 24U);
}

RC_GTEST_PROP(UlpsBetween, counts_the_steps_from_float_to_float_either_way, ()) {
  const auto whole = *rc::gen::inRange(-100'000, 100'000).as("64ths");
  const int steps = *rc::gen::inRange(0, 50).as("steps");
  const float from = static_cast<float>(whole) / 64.0F;
  float to = from;
  for (int i = 0; i < steps; ++i) to = std::nextafterf(to, 1e30F);
  RC_ASSERT(ulps_between(from, to, ScalarKind::f32) == static_cast<std::uint64_t>(steps));
  RC_ASSERT(ulps_between(to, from, ScalarKind::f32) == static_cast<std::uint64_t>(steps));
}

// One changed entry in rows of any length, drawn so that no other difference is as large.
RC_GTEST_PROP(CompareRows, finds_a_single_difference_anywhere, ()) {
  const int length = *rc::gen::inRange(1, 40).as("length");
  const int at = *rc::gen::inRange(0, length).as("at");
  const auto seed = *rc::gen::arbitrary<std::uint64_t>().as("seed");
  Draw draw{.seed = seed};
  std::vector<double> uncached(static_cast<std::size_t>(length));
  for (double& value : uncached) value = draw.next_normal();
  std::vector<double> cached = uncached;
  double& changed = cached[static_cast<std::size_t>(at)];
  changed = std::nextafter(changed, kInf);
  const RowComparison found = compare(uncached, cached, ScalarKind::f64);
  RC_ASSERT(!found.same_bits);
  RC_ASSERT(found.token_at_max == at);
  RC_ASSERT(found.max_abs_difference > 0);
  RC_ASSERT(found.ulps == 1U);
}

RC_GTEST_PROP(CompareRows, a_nan_anywhere_is_seen_whatever_else_differs, ()) {
  const int length = *rc::gen::inRange(1, 40).as("length");
  const int at = *rc::gen::inRange(0, length).as("at");
  const bool in_cached = *rc::gen::arbitrary<bool>().as("in the cached row");
  std::vector<double> uncached(static_cast<std::size_t>(length), 1.0);
  std::vector<double> cached(static_cast<std::size_t>(length), -1e300);
  (in_cached ? cached : uncached)[static_cast<std::size_t>(at)] = kNan;
  const RowComparison found = compare(uncached, cached);
  RC_ASSERT(found.max_abs_difference == kInf);
  RC_ASSERT(found.token_at_max == at);
  RC_ASSERT(found.uncached_finite == in_cached);
  RC_ASSERT(found.cached_finite != in_cached);
}

}  // namespace
}  // namespace kvcheck
