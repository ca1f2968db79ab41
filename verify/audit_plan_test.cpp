// SPDX-License-Identifier: MIT
// Each question of a plan, answered wrongly, is the one that is named.
#include "verify/audit_plan.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "verify/test_canaries.h"

namespace kvcheck {
namespace {

// A feed of two tokens to a sequence of four rows; layer 0 sees a window of 4, layer 1 everything.
struct Step {
  ModelData model = two_window_model();
  std::vector<LoggedRow> log = plain_log(std::vector<int>{1, 2, 3, 4, 5, 6});
  PlannedFeed feed{.held = 4, .tokens = 2};
  StepPlan right;

  Step() { plan_step(model.weights.config, std::span(&feed, 1), right); }

  // "question, layer: what is wrong" of the first wrong answer.
  [[nodiscard]] std::string first_wrong(const std::function<void(StepPlan&)>& change) const {
    StepPlan plan = right;
    change(plan);
    std::vector<ExpectedRow> rows;
    for (int row = 4; row < 6; ++row) {
      rows.push_back({0, row, row, log[static_cast<std::size_t>(row)].sees});
    }
    for (const PlanFinding& found :
         compare_plans(model.weights.config, right, plan, std::span(&feed, 1), rows)) {
      EXPECT_GT(found.compared, 0) << found.question;
      if (found.wrong.empty()) continue;
      return std::string(found.question) + ", " + std::to_string(found.layer) + ": " + found.wrong;
    }
    return "none";
  }
};

TEST(AuditPlan, the_right_plan_is_right_in_whatever_words) {
  const Step step;
  EXPECT_EQ(step.first_wrong([](StepPlan&) {}), "none");
  EXPECT_EQ(step.first_wrong([](StepPlan& plan) {
    own_view(plan, 0);
    own_positions(plan, 1);
  }),
            "none");
}

TEST(AuditPlan, names_the_question_that_is_answered_wrongly) {
  const Step step;
  EXPECT_EQ(step.first_wrong([](StepPlan& plan) { plan.rows[1].position = 3; }),
            "position, -1: row 5: position 3 where 5 was expected");
  EXPECT_EQ(step.first_wrong([](StepPlan& plan) { own_positions(plan, 1).key[0] = 0; }),
            "position, 1: row 4, key: position 0 where 4 was expected");
  EXPECT_EQ(step.first_wrong([](StepPlan& plan) { own_positions(plan, 0).query[1] = 6; }),
            "position, 0: row 5, query: position 6 where 5 was expected");
  EXPECT_EQ(step.first_wrong([](StepPlan& plan) { plan.rows[0].slot = 7; }),
            "slot, -1: row 4: slot 7 where slot 4 was expected");
  EXPECT_EQ(step.first_wrong([](StepPlan& plan) { own_view(plan, 1).write[0] = kNowhere; }),
            "slot, 1: row 4: stored nowhere where slot 4 was expected");
  EXPECT_EQ(step.first_wrong([](StepPlan& plan) { plan.write_store[1] = 0; }),
            "store, 1: its rows go to the store of layer 0 where 1 was expected");
  EXPECT_EQ(step.first_wrong([](StepPlan& plan) {
    plan.read_store = {1, 0};
  }),
            "store, -1: reads the store of layer 1 where 0 was expected");
  EXPECT_EQ(step.first_wrong([](StepPlan& plan) { plan.kv_head_of[1] = 1; }),
            "K/V head, -1: query head 1: K/V head 1 where 0 was expected");
  EXPECT_EQ(step.first_wrong([](StepPlan& plan) { plan.rules[1].score_scale = 0.25; }),
            "constants, 1: score scale 0.25 where 0.5 was expected");
  EXPECT_EQ(step.first_wrong([](StepPlan& plan) { plan.logit_cap = 5; }),
            "constants, -1: cap of logits 5 where 0 was expected");
  EXPECT_EQ(step.first_wrong([](StepPlan& plan) { plan.length_after[0] = 5; }),
            "length, -1: 5 rows held afterwards where 6 were expected");
}

TEST(AuditPlan, says_which_rows_are_seen) {
  const Step step;
  const auto seeing = [&](int layer, std::vector<int> slots) {
    return step.first_wrong([&](StepPlan& plan) {
      SlotView& view = own_view(plan, layer);
      const int old = view.first[1];
      view.slots.erase(view.slots.begin(), view.slots.begin() + old);
      view.slots.insert(view.slots.begin(), slots.begin(), slots.end());
      for (std::size_t r = 1; r < view.first.size(); ++r) {
        view.first[r] += static_cast<int>(slots.size()) - old;
      }
    });
  };
  EXPECT_EQ(seeing(0, {1, 2, 3, 4}), "none");
  EXPECT_EQ(seeing(0, {0, 1, 2, 3, 4}),
            "visible rows, 0: row 4 sees rows 0-4 where 1-4 were expected");
  EXPECT_EQ(seeing(1, {0, 1, 3, 4}),
            "visible rows, 1: row 4 sees rows 0-1,3-4 where 0-4 were expected");
  EXPECT_EQ(seeing(1, {0, 1, 2, 3, 9}),
            "visible rows, 1: row 4 sees rows 0-3 (slot 9 holds none) where 0-4 were expected");
}

}  // namespace
}  // namespace kvcheck
