// SPDX-License-Identifier: MIT
// The generator gives the numbers it always gave, and they look random.
#include "engine/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "engine/error.h"

namespace kvcheck {
namespace {

constexpr int kDraws = 100000;

struct Moments {
  double mean = 0;
  double variance = 0;
  double low = 0;
  double high = 0;
};

template <typename Next>
Moments moments_of(Next next) {
  std::vector<double> values(kDraws);
  std::generate(values.begin(), values.end(), next);
  Moments m{.low = *std::min_element(values.begin(), values.end()),
            .high = *std::max_element(values.begin(), values.end())};
  for (const double value : values) m.mean += value / kDraws;
  for (const double value : values) m.variance += (value - m.mean) * (value - m.mean) / kDraws;
  return m;
}

double correlation(Draw a, Draw b) {
  double sum = 0;
  for (int i = 0; i < kDraws; ++i) sum += a.next_normal() * b.next_normal();
  return sum / kDraws;
}

// A correct generator's correlation has this standard deviation; five of them never happen.
const double kCorrelationMax = 5 / std::sqrt(double{kDraws});

TEST(Random, mix_is_splitmix64) {
  // The published sequence of splitmix64.c from the state 1234567.
  const std::vector<std::uint64_t> expected = {6457827717110365317U, 3203168211198807973U,
                                               9817491932198370423U, 4593380528125082431U,
                                               16408922859458223821U};
  std::uint64_t state = 1234567;
  for (const std::uint64_t value : expected) EXPECT_EQ(mix(state += 0x9E3779B97F4A7C15), value);
}

TEST(Random, stream_of_is_fnv_1a) {
  EXPECT_EQ(stream_of(""), 0xCBF29CE484222325U);
  EXPECT_EQ(stream_of("a"), 0xAF63DC4C8601EC8CU);
  EXPECT_EQ(stream_of("foobar"), 0x85944171F73967E8U);
}

TEST(Random, hash_is_pinned) {
  EXPECT_EQ(hash(0, 0, 0), 0x568A9B0B1A2C05ECU);
  EXPECT_EQ(hash(1, 0, 0), 0x6EC85F1F8547BC0CU);
  EXPECT_EQ(hash(0, 1, 0), 0x01D614F74E2A26C6U);
  EXPECT_EQ(hash(0, 0, 1), 0x44E5B8B147EF718BU);
  EXPECT_EQ(hash(~std::uint64_t{0}, ~std::uint64_t{0}, ~std::uint64_t{0}), 0xE34DDFFAF69AE84BU);
}

TEST(Random, draws_are_pinned) {
  Draw draw{.seed = 7, .stream = stream_of("pinned")};
  EXPECT_EQ(draw.next_bits(), 0x1FDAE9AD331B1DD9U);
  EXPECT_EQ(draw.next_uniform(), 0x1.ac6e72ff4ff04p-2);
  EXPECT_EQ(draw.next_below(1000), 68);
  EXPECT_EQ(draw.next_in({-5, 5}), -3);
  EXPECT_EQ(draw.next_normal(), 0x1.f1812p-2);
  EXPECT_EQ(draw.next_normal(), 0x1.9d4e4p-1);
  EXPECT_EQ(draw.counter, 12U);  // a normal number takes four
}

TEST(Random, a_copy_goes_on_alike) {
  Draw draw{.seed = 1};
  (void)draw.next_bits();
  Draw copy = draw;
  EXPECT_EQ(draw.next_bits(), copy.next_bits());
  EXPECT_EQ((Draw{.seed = 1, .counter = 1}.next_bits()),
            (Draw{.seed = 1, .counter = 1}).next_bits());
}

TEST(Random, uniform_numbers_fill_the_unit_interval) {
  Draw draw{.seed = 1};
  const Moments m = moments_of([&] { return draw.next_uniform(); });
  EXPECT_GE(m.low, 0.0);
  EXPECT_LT(m.low, 1e-3);
  EXPECT_LT(m.high, 1.0);
  EXPECT_GT(m.high, 1 - 1e-3);
  EXPECT_NEAR(m.mean, 0.5, 0.005);
  EXPECT_NEAR(m.variance, 1.0 / 12, 0.002);
}

TEST(Random, normal_numbers_have_mean_0_and_variance_1) {
  Draw draw{.seed = 1};
  const Moments m = moments_of([&] { return draw.next_normal(); });
  EXPECT_NEAR(m.mean, 0, 0.02);
  EXPECT_NEAR(m.variance, 1, 0.03);
  EXPECT_LT(m.low, -3.5);
  EXPECT_GT(m.high, 3.5);
}

TEST(Random, normal_numbers_have_the_shape_of_a_bell) {
  Draw draw{.seed = 2};
  int within_one = 0;
  int within_two = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double size = std::abs(draw.next_normal());
    within_one += size < 1;
    within_two += size < 2;
  }
  EXPECT_NEAR(within_one / double{kDraws}, 0.6827, 0.015);
  EXPECT_NEAR(within_two / double{kDraws}, 0.9545, 0.01);
}

TEST(Random, a_normal_number_times_a_float_is_exact) {
  // So a fused multiply-add gives what a product and a sum give.
  Draw draw{.seed = 3};
  for (int i = 0; i < 10000; ++i) {
    const double scale = static_cast<float>(draw.next_uniform());
    const double normal = draw.next_normal();
    const volatile double product = scale * normal;
    EXPECT_EQ(std::fma(scale, normal, 1.0), product + 1.0);
    EXPECT_EQ(std::fma(scale, normal, -product), 0.0);
  }
}

TEST(Random, streams_and_seeds_are_independent) {
  for (std::uint64_t s = 0; s < 4; ++s) {
    EXPECT_LT(std::abs(correlation({.stream = s}, {.stream = s + 1})), kCorrelationMax);
    EXPECT_LT(std::abs(correlation({.seed = s}, {.seed = s + 1})), kCorrelationMax);
    EXPECT_LT(std::abs(correlation({.seed = s}, {.stream = s + 1})), kCorrelationMax);
  }
  EXPECT_LT(std::abs(correlation({}, {.counter = 4})), kCorrelationMax);
}

TEST(Random, nearby_coordinates_share_no_value) {
  std::set<std::uint64_t> seen;
  for (std::uint64_t i = 0; i < 30 * 30 * 30; ++i) {
    seen.insert(hash(i / 900, i / 30 % 30, i % 30));
  }
  EXPECT_EQ(seen.size(), 30U * 30U * 30U);
}

TEST(Random, below_gives_every_value_alike) {
  for (const int n : {1, 2, 3, 7, 40}) {
    Draw draw{.seed = 4, .stream = static_cast<std::uint64_t>(n)};
    std::vector<int> counts(static_cast<std::size_t>(n));
    for (int i = 0; i < kDraws; ++i) ++counts.at(static_cast<std::size_t>(draw.next_below(n)));
    const double expected = double{kDraws} / n;
    for (const int count : counts) EXPECT_NEAR(count, expected, 5 * std::sqrt(expected));
  }
}

TEST(Random, ranges_include_both_ends) {
  Draw draw{.seed = 5};
  std::set<int> seen;
  for (int i = 0; i < 200; ++i) seen.insert(draw.next_in({3, 5}));
  EXPECT_EQ(seen, (std::set<int>{3, 4, 5}));
  EXPECT_EQ(draw.next_in({9, 9}), 9);
}

TEST(Random, choices_include_every_value) {
  Draw draw{.seed = 6};
  std::set<char> seen;
  int hits = 0;
  for (int i = 0; i < 3000; ++i) {
    seen.insert(draw.next_of({'a', 'b', 'c'}));
    hits += draw.next_one_in(3);
  }
  EXPECT_EQ(seen.size(), 3U);
  EXPECT_NEAR(hits, 1000, 150);
}

TEST(Random, nothing_to_choose_from_is_a_mistake) {
  Draw draw;
  EXPECT_THROW((void)draw.next_below(0), InternalError);
  EXPECT_THROW((void)draw.next_in({2, 1}), InternalError);
}

}  // namespace
}  // namespace kvcheck
