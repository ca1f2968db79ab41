// SPDX-License-Identifier: MIT
// The plan of a step answers every question of a cache as worked out by hand.
#include "engine/step_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/test_support.h"

namespace kvcheck {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::IsEmpty;

Config config_with(std::vector<int> windows) {
  Config c = tiny_config();
  c.context = 12;
  c.layers = static_cast<int>(windows.size());
  c.windows = std::move(windows);
  return c;
}

StepPlan planned(const Config& config, const std::vector<PlannedFeed>& feeds) {
  StepPlan plan;
  plan_step(config, feeds, plan);
  return plan;
}

std::vector<int> slots_of(const StepPlan& plan, int layer, int row) {
  const int view = plan.view_of_layer.at(static_cast<std::size_t>(layer));
  const std::span<const int> slots = plan.views.at(static_cast<std::size_t>(view)).of(row);
  return {slots.begin(), slots.end()};
}

// (sequence, position, slot) of every row.
std::vector<std::vector<int>> rows_of(const StepPlan& plan) {
  std::vector<std::vector<int>> rows;
  for (const PlannedRow& row : plan.rows) rows.push_back({row.sequence, row.position, row.slot});
  return rows;
}

// All that a plan says, for comparisons.
std::vector<std::vector<int>> contents(const StepPlan& plan) {
  std::vector<std::vector<int>> all = rows_of(plan);
  for (const SlotView& view : plan.views) {
    all.push_back(view.first);
    all.push_back(view.slots);
    all.push_back(view.positions);
    all.push_back(view.write);
  }
  all.insert(all.end(), {plan.length_after, plan.view_of_layer, plan.kv_head_of, plan.write_store,
                         plan.read_store});
  return all;
}

TEST(StepPlan, a_prefill_starts_at_position_0) {
  const StepPlan plan = planned(config_with({0}), {{0, 3}});
  EXPECT_THAT(rows_of(plan),
              ElementsAre(ElementsAre(0, 0, 0), ElementsAre(0, 1, 1), ElementsAre(0, 2, 2)));
  EXPECT_THAT(plan.length_after, ElementsAre(3));
}

TEST(StepPlan, a_decode_goes_on_where_the_cache_ends) {
  const StepPlan plan = planned(config_with({0}), {{5, 1}});
  EXPECT_THAT(rows_of(plan), ElementsAre(ElementsAre(0, 5, 5)));
  EXPECT_THAT(plan.length_after, ElementsAre(6));
}

TEST(StepPlan, several_feeds_follow_each_other_each_with_its_own_positions) {
  const StepPlan plan = planned(config_with({0}), {{4, 1}, {0, 2}, {7, 1}});
  EXPECT_THAT(rows_of(plan), ElementsAre(ElementsAre(0, 4, 4), ElementsAre(1, 0, 0),
                                         ElementsAre(1, 1, 1), ElementsAre(2, 7, 7)));
  EXPECT_THAT(plan.length_after, ElementsAre(5, 2, 8));
  EXPECT_THAT(slots_of(plan, 0, 0), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(slots_of(plan, 0, 1), ElementsAre(0));
  EXPECT_THAT(slots_of(plan, 0, 2), ElementsAre(0, 1));
  EXPECT_THAT(slots_of(plan, 0, 3), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(StepPlan, a_row_sees_itself_and_all_before_it_but_nothing_after) {
  const StepPlan plan = planned(config_with({0}), {{2, 3}});
  EXPECT_THAT(slots_of(plan, 0, 0), ElementsAre(0, 1, 2));
  EXPECT_THAT(slots_of(plan, 0, 1), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(slots_of(plan, 0, 2), ElementsAre(0, 1, 2, 3, 4));
}

TEST(StepPlan, a_window_counts_the_row_itself) {
  const StepPlan plan = planned(config_with({1, 3}), {{1, 3}});
  for (int row = 0; row < 3; ++row) EXPECT_THAT(slots_of(plan, 0, row), ElementsAre(row + 1));
  EXPECT_THAT(slots_of(plan, 1, 0), ElementsAre(0, 1));
  EXPECT_THAT(slots_of(plan, 1, 1), ElementsAre(0, 1, 2));
  EXPECT_THAT(slots_of(plan, 1, 2), ElementsAre(1, 2, 3));
}

TEST(StepPlan, a_window_longer_than_the_sequence_hides_nothing) {
  const StepPlan plan = planned(config_with({9}), {{3, 1}});
  EXPECT_THAT(slots_of(plan, 0, 0), ElementsAre(0, 1, 2, 3));
}

TEST(StepPlan, layers_of_equal_window_share_a_view) {
  const StepPlan plan = planned(config_with({0, 2, 0, 3, 2}), {{6, 1}});
  EXPECT_THAT(plan.view_of_layer, ElementsAre(0, 1, 0, 2, 1));
  ASSERT_EQ(plan.views.size(), 3U);
  EXPECT_THAT(slots_of(plan, 4, 0), ElementsAre(5, 6));
  EXPECT_THAT(slots_of(plan, 3, 0), ElementsAre(4, 5, 6));
}

TEST(StepPlan, query_heads_share_kv_heads_in_runs) {
  Config config = config_with({0});
  config.query_heads = 6;
  config.kv_heads = 2;
  EXPECT_THAT(planned(config, {{0, 1}}).kv_head_of, ElementsAre(0, 0, 0, 1, 1, 1));
  config.kv_heads = 6;
  EXPECT_THAT(planned(config, {{0, 1}}).kv_head_of, ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(StepPlan, every_layer_writes_and_reads_its_own_store) {
  const StepPlan plan = planned(config_with({0, 0, 4}), {{0, 1}});
  EXPECT_THAT(plan.write_store, ElementsAre(0, 1, 2));
  EXPECT_THAT(plan.read_store, ElementsAre(0, 1, 2));
}

TEST(StepPlan, nothing_of_a_bigger_plan_is_left_in_a_smaller_one) {
  Config big = config_with({0, 2, 3, 5});
  big.query_heads = 4;
  StepPlan plan;
  plan_step(big, std::vector<PlannedFeed>{{3, 4}, {0, 9}, {5, 5}}, plan);
  const Config small = config_with({2, 2});
  plan_step(small, std::vector<PlannedFeed>{{1, 1}}, plan);
  EXPECT_THAT(contents(plan), ElementsAreArray(contents(planned(small, {{1, 1}}))));
  EXPECT_EQ(plan.views.size(), 1U);
}

TEST(StepPlan, rows_lie_in_the_slots_that_a_cache_gives_them) {
  const std::vector<int> slots{7, 3, 9, 1, 5};  // one more than is fed
  const StepPlan plan = planned(config_with({0, 2}), {{.held = 2, .tokens = 2, .slots = slots}});
  EXPECT_THAT(rows_of(plan), ElementsAre(ElementsAre(0, 2, 9), ElementsAre(0, 3, 1)));
  EXPECT_THAT(plan.length_after, ElementsAre(4));
  EXPECT_THAT(slots_of(plan, 0, 0), ElementsAre(7, 3, 9));
  EXPECT_THAT(slots_of(plan, 0, 1), ElementsAre(7, 3, 9, 1));
  EXPECT_THAT(slots_of(plan, 1, 0), ElementsAre(3, 9));
  EXPECT_THAT(slots_of(plan, 1, 1), ElementsAre(9, 1));
  EXPECT_THAT(plan.views[0].write, IsEmpty());
}

TEST(StepPlan, every_feed_of_a_step_has_slots_of_its_own) {
  const std::vector<int> first{4, 5}, second{0, 8, 2};
  const StepPlan plan = planned(config_with({0}), {{.held = 1, .tokens = 1, .slots = first},
                                                   {.held = 2, .tokens = 1, .slots = second},
                                                   {.held = 1, .tokens = 1}});
  EXPECT_THAT(rows_of(plan),
              ElementsAre(ElementsAre(0, 1, 5), ElementsAre(1, 2, 2), ElementsAre(2, 1, 1)));
  EXPECT_THAT(slots_of(plan, 0, 0), ElementsAre(4, 5));
  EXPECT_THAT(slots_of(plan, 0, 1), ElementsAre(0, 8, 2));
  EXPECT_THAT(slots_of(plan, 0, 2), ElementsAre(0, 1));
}

// Rows 1 to 4 of 7 were dropped: the next position is 7, four ahead of the rows.
TEST(StepPlan, a_window_counts_positions_and_not_rows) {
  const std::vector<int> positions{0, 5, 6};
  const StepPlan plan = planned(config_with({0, 3, 2, 8}),
                                {{.held = 3, .tokens = 2, .ahead = 4, .positions = positions}});
  EXPECT_THAT(rows_of(plan), ElementsAre(ElementsAre(0, 7, 3), ElementsAre(0, 8, 4)));
  EXPECT_THAT(plan.length_after, ElementsAre(5));
  EXPECT_THAT(slots_of(plan, 0, 0), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(slots_of(plan, 0, 1), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(slots_of(plan, 1, 0), ElementsAre(1, 2, 3));  // positions 5, 6, 7
  EXPECT_THAT(slots_of(plan, 1, 1), ElementsAre(2, 3, 4));
  EXPECT_THAT(slots_of(plan, 2, 0), ElementsAre(2, 3));
  EXPECT_THAT(slots_of(plan, 2, 1), ElementsAre(3, 4));
  EXPECT_THAT(slots_of(plan, 3, 0), ElementsAre(0, 1, 2, 3));  // from position 0 on
  EXPECT_THAT(slots_of(plan, 3, 1), ElementsAre(1, 2, 3, 4));
}

TEST(StepPlan, rows_that_are_too_far_behind_are_not_seen_at_all) {
  const std::vector<int> positions{0, 1, 2};
  const StepPlan last_dropped =
      planned(config_with({4}), {{.held = 3, .tokens = 2, .ahead = 5, .positions = positions}});
  EXPECT_THAT(slots_of(last_dropped, 0, 0), ElementsAre(3));
  EXPECT_THAT(slots_of(last_dropped, 0, 1), ElementsAre(3, 4));
  const StepPlan all_dropped = planned(config_with({4}), {{.held = 0, .tokens = 2, .ahead = 6}});
  EXPECT_THAT(rows_of(all_dropped), ElementsAre(ElementsAre(0, 6, 0), ElementsAre(0, 7, 1)));
  EXPECT_THAT(slots_of(all_dropped, 0, 0), ElementsAre(0));
  EXPECT_THAT(slots_of(all_dropped, 0, 1), ElementsAre(0, 1));
}

TEST(StepPlan, positions_and_slots_are_given_together) {
  const std::vector<int> positions{0, 3, 4}, slots{6, 2, 8, 0};
  const StepPlan plan =
      planned(config_with({3}),
              {{.held = 3, .tokens = 1, .ahead = 2, .slots = slots, .positions = positions}});
  EXPECT_THAT(rows_of(plan), ElementsAre(ElementsAre(0, 5, 0)));
  EXPECT_THAT(slots_of(plan, 0, 0), ElementsAre(2, 8, 0));
}

TEST(StepPlan, a_ring_takes_its_rows_modulo_its_length) {
  const std::vector<int> rings{4, 0};
  const StepPlan plan = planned(config_with({4, 0}), {{.held = 6, .tokens = 3, .rings = rings}});
  EXPECT_THAT(rows_of(plan),
              ElementsAre(ElementsAre(0, 6, 6), ElementsAre(0, 7, 7), ElementsAre(0, 8, 8)));
  EXPECT_THAT(plan.views.at(0).write, ElementsAre(2, 3, 0));
  EXPECT_THAT(slots_of(plan, 0, 0), ElementsAre(3, 0, 1, 2));  // rows 3 to 6
  EXPECT_THAT(slots_of(plan, 0, 1), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(slots_of(plan, 0, 2), ElementsAre(1, 2, 3, 0));
  EXPECT_THAT(plan.views.at(1).write, IsEmpty());
  EXPECT_THAT(slots_of(plan, 1, 0), ElementsAre(0, 1, 2, 3, 4, 5, 6));
}

TEST(StepPlan, rings_of_several_feeds_are_written_in_the_order_of_the_rows) {
  const std::vector<int> rings{2};
  const StepPlan plan = planned(config_with({2}), {{.held = 3, .tokens = 1, .rings = rings},
                                                   {.held = 0, .tokens = 3, .rings = rings}});
  EXPECT_THAT(plan.views.at(0).write, ElementsAre(1, 0, 1, 0));
  EXPECT_THAT(slots_of(plan, 0, 0), ElementsAre(0, 1));
  EXPECT_THAT(slots_of(plan, 0, 1), ElementsAre(0));
  EXPECT_THAT(slots_of(plan, 0, 2), ElementsAre(0, 1));
  EXPECT_THAT(slots_of(plan, 0, 3), ElementsAre(1, 0));
}

TEST(StepPlan, nothing_of_a_ring_is_left_in_a_plan_without) {
  const Config config = config_with({2});
  const std::vector<int> rings{2};
  StepPlan plan;
  plan_step(config, std::vector<PlannedFeed>{{.held = 3, .tokens = 2, .rings = rings}}, plan);
  plan_step(config, std::vector<PlannedFeed>{{.held = 1, .tokens = 1}}, plan);
  EXPECT_THAT(contents(plan), ElementsAreArray(contents(planned(config, {{1, 1}}))));
}

TEST(StepPlan, a_view_of_its_own_says_what_the_shared_one_said) {
  StepPlan plan = planned(config_with({0, 0}), {{2, 2}});
  SlotView& own = own_view(plan, 0);
  EXPECT_THAT(own.write, ElementsAre(2, 3));
  own.write[0] = kNowhere;
  own.slots[0] = 1;
  EXPECT_THAT(slots_of(plan, 0, 0), ElementsAre(1, 1, 2));
  EXPECT_THAT(slots_of(plan, 1, 0), ElementsAre(0, 1, 2));
  EXPECT_NE(plan.view_of_layer[0], plan.view_of_layer[1]);
  EXPECT_THAT(plan.views[static_cast<std::size_t>(plan.view_of_layer[1])].write, IsEmpty());
  EXPECT_THAT(own_view(plan, 0).write, ElementsAre(kNowhere, 3));
}

TEST(StepPlan, positions_of_its_own_are_those_of_the_rows_until_they_are_changed) {
  StepPlan plan = planned(config_with({0, 0}), {{4, 2}, {0, 1}});
  EXPECT_THAT(plan.positions_of_layer, IsEmpty());
  own_positions(plan, 1).key[0] = 9;
  EXPECT_THAT(own_positions(plan, 1).query, ElementsAre(4, 5, 0));
  EXPECT_THAT(own_positions(plan, 1).key, ElementsAre(9, 5, 0));
  EXPECT_THAT(own_positions(plan, 0).key, ElementsAre(4, 5, 0));
  plan_step(config_with({0, 0}), std::vector<PlannedFeed>{{4, 2}}, plan);
  EXPECT_THAT(plan.positions_of_layer, IsEmpty());
}

TEST(StepPlan, no_feeds_plan_no_rows) {
  const StepPlan plan = planned(config_with({0}), {});
  EXPECT_THAT(plan.rows, IsEmpty());
  EXPECT_THAT(plan.length_after, IsEmpty());
}

// ---- Constants

std::vector<int> positions_of(const StepPlan& plan, int layer, int row) {
  const int view = plan.view_of_layer.at(static_cast<std::size_t>(layer));
  const std::span<const int> positions =
      plan.views.at(static_cast<std::size_t>(view)).positions_of(row);
  return {positions.begin(), positions.end()};
}

TEST(StepPlan, constants_are_those_of_the_model) {
  Config config = config_with({0, 3});
  config.head_size = 4;
  const StepPlan usual = planned(config, {{0, 1}});
  EXPECT_EQ(usual.rules, (std::vector<AttentionRule>(2, {.score_scale = 0.5L})));
  EXPECT_EQ(usual.embedding_scale, 1);
  EXPECT_EQ(usual.logit_cap, 0);
  config.head_norm = true;
  config.attention_cap = 50;
  config.logit_cap = 30;
  config.embedding_scale = 2.5;
  const StepPlan plan = planned(config, {{0, 1}});
  const AttentionRule rule{.score_scale = 0.5L, .score_cap = 50, .head_norm = true};
  EXPECT_EQ(plan.rules, (std::vector<AttentionRule>(2, rule)));
  EXPECT_EQ(plan.embedding_scale, 2.5);
  EXPECT_EQ(plan.logit_cap, 30);
}

TEST(StepPlan, layers_rotate_by_their_own_base) {
  Config config = config_with({0, 3, 0});
  config.positions = Positions::rotary;
  const auto bases = [&] {
    std::vector<int> found;
    for (const AttentionRule& rule : planned(config, {{0, 1}}).rules) {
      found.push_back(rule.rotary_base);
    }
    return found;
  };
  EXPECT_THAT(bases(), ElementsAre(0, 0, 0));
  config.rotary_base_windowed = 100;
  EXPECT_THAT(bases(), ElementsAre(0, 1, 0));
  config.positions = Positions::learned;
  EXPECT_THAT(bases(), ElementsAre(kNoRotation, kNoRotation, kNoRotation));
}

TEST(StepPlan, alibi_takes_slopes_and_the_positions_of_keys) {
  Config config = config_with({0, 2});
  config.positions = Positions::alibi;
  config.query_heads = config.kv_heads = 2;
  StepPlan plan = planned(config, {{2, 2}, {0, 1}});
  for (const AttentionRule& rule : plan.rules) {
    EXPECT_THAT(rule.slopes, ElementsAre(1.0L / 16, 1.0L / 256));
  }
  EXPECT_THAT(positions_of(plan, 0, 0), ElementsAre(0, 1, 2));
  EXPECT_THAT(positions_of(plan, 0, 1), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(positions_of(plan, 0, 2), ElementsAre(0));
  EXPECT_THAT(positions_of(plan, 1, 1), ElementsAre(2, 3));
  own_view(plan, 0).positions[0] = 7;
  EXPECT_THAT(positions_of(plan, 0, 0), ElementsAre(7, 1, 2));
  config.positions = Positions::none;
  plan_step(config, std::vector<PlannedFeed>{{2, 2}}, plan);
  EXPECT_THAT(contents(plan), ElementsAreArray(contents(planned(config, {{2, 2}}))));
  EXPECT_THAT(plan.views.at(0).positions, IsEmpty());
  EXPECT_EQ(plan.rules, planned(config, {{2, 2}}).rules);
}

// Rows 1 and 2 of four were dropped or renumbered; the slots say nothing of that.
TEST(StepPlan, alibi_takes_the_positions_that_the_cache_records) {
  Config config = config_with({0, 4});
  config.positions = Positions::alibi;
  const std::vector<int> positions{0, 3, 4}, slots{6, 2, 8, 0};
  const StepPlan plan = planned(
      config, {{.held = 3, .tokens = 1, .ahead = 2, .slots = slots, .positions = positions}});
  EXPECT_THAT(slots_of(plan, 0, 0), ElementsAre(6, 2, 8, 0));
  EXPECT_THAT(positions_of(plan, 0, 0), ElementsAre(0, 3, 4, 5));
  EXPECT_THAT(slots_of(plan, 1, 0), ElementsAre(2, 8, 0));
  EXPECT_THAT(positions_of(plan, 1, 0), ElementsAre(3, 4, 5));
}

TEST(StepPlan, alibi_counts_positions_not_slots_of_a_ring) {
  Config config = config_with({4});
  config.positions = Positions::alibi;
  const std::vector<int> rings{4};
  const StepPlan plan = planned(config, {{.held = 6, .tokens = 1, .rings = rings}});
  EXPECT_THAT(slots_of(plan, 0, 0), ElementsAre(3, 0, 1, 2));
  EXPECT_THAT(positions_of(plan, 0, 0), ElementsAre(3, 4, 5, 6));
}

}  // namespace
}  // namespace kvcheck
