// SPDX-License-Identifier: MIT
// The plan of a step over flat caches answers every question of a cache as worked out by hand.
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

TEST(StepPlan, no_feeds_plan_no_rows) {
  const StepPlan plan = planned(config_with({0}), {});
  EXPECT_THAT(plan.rows, IsEmpty());
  EXPECT_THAT(plan.length_after, IsEmpty());
}

}  // namespace
}  // namespace kvcheck
