// SPDX-License-Identifier: MIT
// Margins worked by hand, and that every decision which a small change turns is a tie.
#include "verify/decision.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "engine/error.h"
#include "engine/random.h"

namespace kvcheck {
namespace {

using Row = std::vector<double>;

DecodingPolicy policy_of(std::string_view text) { return parse_decoding(text, 1000, "test"); }

Decision compared(std::string_view policy, const Row& uncached, const Row& cached,
                  DrawPlace place = {}) {
  return compare_decisions(policy_of(policy), {}, uncached, cached, place);
}

TEST(Decision, of_greedy_is_the_gap_of_the_two_logits) {
  const Decision close = compared("greedy", {3, 2.75, 0}, {2.5, 2.625, 0});
  EXPECT_EQ(close.margin, 0.25);
  EXPECT_EQ(close.change, 0.5 + 0.125);
  EXPECT_TRUE(close.tie);
  EXPECT_EQ(close.by, "gap of the two logits");
}

TEST(Decision, is_a_tie_up_to_the_change_and_not_beyond) {
  EXPECT_TRUE(decision_of(0.1, 0.1, "x").tie);
  EXPECT_FALSE(decision_of(0.1001, 0.1, "x").tie);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(decision_of(nan, 1, "x").tie);
  EXPECT_FALSE(decision_of(0, nan, "x").tie);
}

// A draw whose u lies in [low, high).
DrawPlace place_within(double low, double high) {
  for (std::uint64_t step = 0;; ++step) {
    const double u = uniform_of({1, step});
    if (u >= low && u < high) return {1, step};
  }
}

TEST(Decision, of_a_draw_is_its_distance_to_the_other_tokens_interval) {
  // Half each; then token 0 has 0.45.
  const Row cached{std::log(0.45), std::log(0.55)};
  const DrawPlace place = place_within(0.46, 0.49);
  const Decision drawn = compared("temperature:1", {0, 0}, cached, place);
  EXPECT_NEAR(drawn.margin, 0.5 - uniform_of(place), 1e-12);
  EXPECT_NEAR(drawn.change, 0.05, 1e-11);
  EXPECT_TRUE(drawn.tie);
  EXPECT_EQ(drawn.by, "distance of the draw to the other token");
}

TEST(Decision, of_top_k_is_the_distance_to_the_last_that_stays) {
  // Token 1 stays, then token 2: they are 0.1 apart, and move by 0.1.
  const Decision cut = compared("top-k:2", {2, 1, 0.9}, {2, 0.95, 1}, place_within(0.9, 1));
  EXPECT_EQ(cut.by, "cut of top-k");
  EXPECT_NEAR(cut.margin, 0.1, 1e-12);
  EXPECT_NEAR(cut.change, 0.2, 1e-12);
  EXPECT_TRUE(cut.tie);
}

TEST(Decision, of_top_p_and_min_p_is_the_distance_to_their_cuts) {
  // 0.5 of all is less than 0.51 and, moved, no longer.
  const Row uncached{std::log(0.5), std::log(0.3), std::log(0.2)};
  const Row share{std::log(0.52), std::log(0.29), std::log(0.19)};
  const Decision top_p = compared("top-p:0.51", uncached, share, place_within(0.7, 1));
  EXPECT_EQ(top_p.by, "cut of top-p");
  EXPECT_NEAR(top_p.margin, 0.01, 1e-12);
  EXPECT_TRUE(top_p.tie);
  // The weight 0.6 of token 1 falls below 0.59.
  const Row smaller{std::log(0.5), std::log(0.29), std::log(0.2)};
  const Decision min_p = compared("min-p:0.59", uncached, smaller, place_within(0.7, 1));
  EXPECT_EQ(min_p.by, "cut of min-p");
  EXPECT_NEAR(min_p.margin, std::log(0.6 / 0.59), 1e-12);
  EXPECT_TRUE(min_p.tie);
}

TEST(Decision, between_rows_that_differ_without_bounds_is_no_tie) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(compared("greedy", {3, 2}, {-infinity, 2}).tie);
  EXPECT_FALSE(compared("top-k:1", {3, 2}, {-infinity, 2}).tie);
  // What is impossible in both differs by nothing.
  EXPECT_TRUE(compared("greedy", {3, 2, -infinity}, {1.9, 2, -infinity}).tie);
}

TEST(Decision, that_is_the_same_is_a_mistake_to_ask_about) {
  EXPECT_THROW((void)compared("greedy", {3, 2}, {3, 2}), InternalError);
}

// Whatever decides, what a change of the rows turns is within that change.
TEST(Decision, is_a_tie_whenever_a_change_of_the_rows_turns_it) {
  Draw draw{1, stream_of("decision test")};
  std::map<std::string, int> turned;
  for (int i = 0; i < 60'000; ++i) {
    const int vocabulary = draw.next_in({2, 12});
    const double moved = draw.next_of({1e-6, 1e-3, 0.05, 0.5});
    Row uncached;
    Row cached;
    for (int t = 0; t < vocabulary; ++t) {
      uncached.push_back(draw.next_one_in(3) ? std::round(draw.next_normal()) : draw.next_normal());
      cached.push_back(uncached.back() + moved * (2 * draw.next_uniform() - 1));
    }
    DecodingPolicy policy;
    if (!draw.next_one_in(4)) policy.temperature = draw.next_of({0.5, 1.0, 2.0});
    const int filter = policy.greedy() ? 0 : draw.next_below(5);
    if (filter == 1 || filter == 4) policy.top_k = draw.next_in({1, vocabulary});
    if (filter == 2 || filter == 4) policy.top_p = 1 - draw.next_uniform();
    if (filter == 3) policy.min_p = 1 - draw.next_uniform();
    if (draw.next_one_in(4)) policy.penalty = 1.5;
    const std::vector<int> seen{0, 1};
    const DrawPlace place{2, static_cast<std::uint64_t>(i)};
    PolicyScratch scratch;
    if (choose(policy, uncached, seen, place, scratch).token ==
        choose(policy, cached, seen, place, scratch).token) {
      continue;
    }
    const Decision decision = compare_decisions(policy, seen, uncached, cached, place);
    EXPECT_TRUE(decision.tie) << to_text(policy) << " case " << i << ": " << decision.by << " "
                              << decision.margin << " > " << decision.change;
    ++turned[std::string(decision.by)];
  }
  for (const char* by : {"gap of the two logits", "distance of the draw to the other token",
                         "cut of top-k", "cut of top-p", "cut of min-p"}) {
    EXPECT_GT(turned[by], 20) << by;
  }
}

}  // namespace
}  // namespace kvcheck
