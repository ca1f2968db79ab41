// SPDX-License-Identifier: MIT
// The right answers to the questions of a cached step.
#include "engine/step_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/ops.h"

namespace kvcheck {
namespace {

int slot_of(const PlannedFeed& feed, int row) {
  return feed.slots.empty() ? row : feed.slots[static_cast<std::size_t>(row)];
}

int position_of(const PlannedFeed& feed, int row) {
  if (row >= feed.held) return row + feed.ahead;
  return feed.positions.empty() ? row : feed.positions[static_cast<std::size_t>(row)];
}

void plan_rows(std::span<const PlannedFeed> feeds, StepPlan& plan) {
  plan.rows.clear();
  plan.length_after.clear();
  for (int s = 0; s < static_cast<int>(feeds.size()); ++s) {
    const PlannedFeed& feed = feeds[static_cast<std::size_t>(s)];
    for (int row = feed.held; row < feed.held + feed.tokens; ++row) {
      plan.rows.push_back(
          {.sequence = s, .position = row + feed.ahead, .slot = slot_of(feed, row)});
    }
    plan.length_after.push_back(feed.held + feed.tokens);
  }
}

// The oldest row that a query at `position` sees in `layer`.
int first_row(const Config& config, int layer, const PlannedFeed& feed, int position) {
  const int first = config.first_visible(layer, position);
  if (feed.positions.empty() && feed.ahead == 0) return first;
  int row = 0;
  while (position_of(feed, row) < first) ++row;
  return row;
}

// The slots that the rows see in `layer`: itself and everything before it, or as far back as the
// window goes; for ALiBi with the positions of the keys.
void fill_view(const Config& config, int layer, std::span<const PlannedFeed> feeds,
               SlotView& view) {
  view.first.assign(1, 0);
  view.slots.clear();
  view.positions.clear();
  view.write.clear();
  const bool alibi = config.positions == Positions::alibi;
  for (const PlannedFeed& feed : feeds) {
    const int ring = feed.rings.empty() ? 0 : feed.rings[static_cast<std::size_t>(layer)];
    const auto slot = [&](int row) { return ring > 0 ? row % ring : slot_of(feed, row); };
    for (int query = feed.held; query < feed.held + feed.tokens; ++query) {
      const int first = first_row(config, layer, feed, position_of(feed, query));
      for (int row = first; row <= query; ++row) view.slots.push_back(slot(row));
      for (int row = first; alibi && row <= query; ++row) {
        view.positions.push_back(position_of(feed, row));
      }
      view.first.push_back(static_cast<int>(view.slots.size()));
      if (ring > 0) view.write.push_back(slot(query));
    }
  }
}

// Layers of equal window share a view.
void plan_views(const Config& config, std::span<const PlannedFeed> feeds, StepPlan& plan) {
  plan.view_of_layer.assign(static_cast<std::size_t>(config.layers), 0);
  std::size_t used = 0;
  for (std::size_t layer = 0; layer < config.windows.size(); ++layer) {
    const auto begin = config.windows.begin();
    const auto same =
        std::find(begin, begin + static_cast<std::ptrdiff_t>(layer), config.windows[layer]) - begin;
    if (same < static_cast<std::ptrdiff_t>(layer)) {
      plan.view_of_layer[layer] = plan.view_of_layer[static_cast<std::size_t>(same)];
      continue;
    }
    if (plan.views.size() == used) plan.views.emplace_back();
    fill_view(config, static_cast<int>(layer), feeds, plan.views[used]);
    plan.view_of_layer[layer] = static_cast<int>(used++);
  }
  plan.views.resize(used);
}

void plan_rules(const Config& config, StepPlan& plan) {
  AttentionRule rule{.score_scale = config.score_scale(),
                     .score_cap = config.attention_cap,
                     .head_norm = config.head_norm};
  if (config.positions == Positions::alibi) rule.slopes = alibi_slopes(config.query_heads);
  plan.rules.assign(static_cast<std::size_t>(config.layers), rule);
  if (config.positions != Positions::rotary) return;
  for (int l = 0; l < config.layers; ++l) {
    plan.rules[static_cast<std::size_t>(l)].rotary_base = config.rotary_base_of(l);
  }
}

}  // namespace

void plan_step(const Config& config, std::span<const PlannedFeed> feeds, StepPlan& plan) {
  plan_rows(feeds, plan);
  plan_views(config, feeds, plan);
  plan.kv_head_of.resize(static_cast<std::size_t>(config.query_heads));
  for (int h = 0; h < config.query_heads; ++h) {
    plan.kv_head_of[static_cast<std::size_t>(h)] = h / config.group();
  }
  plan.write_store.resize(static_cast<std::size_t>(config.layers));
  std::iota(plan.write_store.begin(), plan.write_store.end(), 0);
  plan.read_store = plan.write_store;
  plan_rules(config, plan);
  plan.positions.clear();
  plan.positions_of_layer.clear();
  plan.embedding_scale = config.embedding_scale;
  plan.logit_cap = config.logit_cap;
}

SlotView& own_view(StepPlan& plan, int layer) {
  int& of_layer = plan.view_of_layer[static_cast<std::size_t>(layer)];
  if (std::ranges::count(plan.view_of_layer, of_layer) > 1) {
    plan.views.push_back(SlotView(plan.views[static_cast<std::size_t>(of_layer)]));
    of_layer = static_cast<int>(plan.views.size()) - 1;
  }
  SlotView& view = plan.views[static_cast<std::size_t>(of_layer)];
  if (view.write.empty()) {
    for (const PlannedRow& row : plan.rows) view.write.push_back(row.slot);
  }
  return view;
}

RowPositions& own_positions(StepPlan& plan, int layer) {
  if (plan.positions_of_layer.empty()) {
    RowPositions own;
    for (const PlannedRow& row : plan.rows) own.query.push_back(row.position);
    own.key = own.query;
    plan.positions.assign(plan.view_of_layer.size(), own);
    plan.positions_of_layer.resize(plan.view_of_layer.size());
    std::iota(plan.positions_of_layer.begin(), plan.positions_of_layer.end(), 0);
  }
  const int of_layer = plan.positions_of_layer[static_cast<std::size_t>(layer)];
  return plan.positions[static_cast<std::size_t>(of_layer)];
}

}  // namespace kvcheck
