// SPDX-License-Identifier: MIT
// What one cached step will do, as a plain value: the questions that a cache must answer before
// anything is computed. The cached decoder executes a plan and decides nothing itself, so a wrong
// cache is a wrong answer here.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "engine/config.h"

namespace kvcheck {

// One input row: a token of one of the sequences that are fed together.
struct PlannedRow {
  int sequence;  // index into the feeds of this step
  int position;  // absolute index of the token: which learned position or rotation it takes
  int slot;      // where its K/V row goes, in layers without a ring

  bool operator==(const PlannedRow&) const = default;
};

// Which slots each row sees, in position order. Layers with the same window share a view.
struct SlotView {
  std::vector<int> first;  // [rows + 1]: row r sees slots[first[r]] .. slots[first[r + 1] - 1]
  std::vector<int> slots;
  std::vector<int> positions = {};  // [slots]: of the key in each, for ALiBi only
  std::vector<int> write;  // [rows]: where the K/V rows go, where that is not PlannedRow::slot

  bool operator==(const SlotView&) const = default;

  [[nodiscard]] std::span<const int> of(int row) const { return seen(slots, row); }
  [[nodiscard]] std::span<const int> positions_of(int row) const { return seen(positions, row); }

 private:
  [[nodiscard]] std::span<const int> seen(std::span<const int> all, int row) const {
    const auto r = static_cast<std::size_t>(row);
    return all.subspan(static_cast<std::size_t>(first[r]),
                       static_cast<std::size_t>(first[r + 1] - first[r]));
  }
};

// At which positions a layer takes the queries and the keys of the rows that are fed.
struct RowPositions {
  std::vector<int> query;  // [rows]
  std::vector<int> key;    // [rows]

  bool operator==(const RowPositions&) const = default;
};

inline constexpr int kNoRotation = -1;

// The constants of a layer's attention.
struct AttentionRule {
  long double score_scale = 1;
  double score_cap = 0;                  // 0: none
  bool head_norm = false;                // of queries and keys
  int rotary_base = kNoRotation;         // index into Config::rotary_bases()
  std::vector<long double> slopes = {};  // [query heads] of ALiBi; empty: none

  bool operator==(const AttentionRule&) const = default;
};

// A K/V row that goes there is not stored. Any other slot that does not exist is an error.
inline constexpr int kNowhere = -2;

struct StepPlan {
  std::vector<PlannedRow> rows;
  std::vector<int> length_after;  // [feeds]: rows that each sequence holds afterwards
  std::vector<SlotView> views;
  std::vector<int> view_of_layer;       // [layers], index into views
  std::vector<int> kv_head_of;          // [query heads]: the K/V head that serves it
  std::vector<int> write_store;         // [layers]: the layer whose store takes this layer's rows
  std::vector<int> read_store;          // [layers]: the layer whose store this layer reads
  std::vector<AttentionRule> rules;     // [layers]
  std::vector<RowPositions> positions;  // other than those of the rows, for layers that name them
  std::vector<int> positions_of_layer;  // [layers], index into positions; empty: none does
  double embedding_scale = 1;
  double logit_cap = 0;  // 0: none

  bool operator==(const StepPlan&) const = default;
};

// A feed as the plan sees it: what the sequence holds, and how many tokens come.
struct PlannedFeed {
  int held;  // rows
  int tokens;
  int ahead = 0;                        // of the next position before the number of rows
  std::span<const int> slots = {};      // [held + tokens, or more]; empty: slot = row
  std::span<const int> positions = {};  // [held]; empty: position = row
  std::span<const int> rings = {};  // [layers]: rows of a ring, slot = row modulo these; 0: none
};

// Rewrites a plan before it is executed: how a fault, or an experiment, enters.
using PlannedFeeds = std::span<const PlannedFeed>;
using PlanRewrite = std::function<void(StepPlan&, PlannedFeeds)>;

// For those who rewrite plans: what a layer shares with others becomes its own, with the same
// answers. The view's writes are then stated row by row.
SlotView& own_view(StepPlan& plan, int layer);
RowPositions& own_positions(StepPlan& plan, int layer);

// The right plan for feeding several sequences in one step. Fills `plan`, whose memory is reused.
// The feeds must fit the context. Either all of them have rings or none.
void plan_step(const Config& config, std::span<const PlannedFeed> feeds, StepPlan& plan);

}  // namespace kvcheck
