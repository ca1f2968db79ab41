// SPDX-License-Identifier: MIT
// The answers of an executed plan, compared as whole numbers with what the log of the sequences
// says: before any value is looked at.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/logged.h"
#include "engine/step_plan.h"

namespace kvcheck {

// A row that is fed, as the log has it.
struct ExpectedRow {
  int feed;  // index into the feeds of the step
  int held;  // index among the rows that its sequence holds
  int position;
  std::span<const SeenRow> sees;  // itself last
};

// One question of a plan.
struct PlanFinding {
  std::string_view question;
  int layer = -1;  // of the first wrong answer, where it is not wrong in all of them
  std::int64_t compared = 0;
  std::string wrong = {};  // what was answered and what was expected; empty: all is right
};

// The rows of a sequence that a layer must see from `row`: from which one of those held on.
[[nodiscard]] int first_seen(const Config& config, int layer, const ExpectedRow& row);
// Where a row lies that a sequence holds or is fed.
[[nodiscard]] int slot_of(const PlannedFeed& feed, int layer, int row);
// Where a fed row goes by a plan.
[[nodiscard]] int written_slot(const StepPlan& plan, int layer, int row);
[[nodiscard]] const SlotView& view_of(const StepPlan& plan, int layer);

// All questions, in order: position, slot, visible rows, store, K/V head, constants, length.
// `right` is the plan as it was before anybody rewrote it, `rows` are those of the plan, in order.
[[nodiscard]] std::vector<PlanFinding> compare_plans(const Config& config, const StepPlan& right,
                                                     const StepPlan& executed, PlannedFeeds feeds,
                                                     std::span<const ExpectedRow> rows);

}  // namespace kvcheck
