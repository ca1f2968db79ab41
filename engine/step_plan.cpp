// SPDX-License-Identifier: MIT
// The right answers to the questions of a cached step, for flat caches: slot = position.
#include "engine/step_plan.h"

#include <algorithm>
#include <numeric>

namespace kvcheck {
namespace {

void plan_rows(std::span<const PlannedFeed> feeds, StepPlan& plan) {
  plan.rows.clear();
  plan.length_after.clear();
  for (int s = 0; s < static_cast<int>(feeds.size()); ++s) {
    const PlannedFeed& feed = feeds[static_cast<std::size_t>(s)];
    for (int i = 0; i < feed.tokens; ++i) {
      const int position = feed.held + i;
      plan.rows.push_back({.sequence = s, .position = position, .slot = position});
    }
    plan.length_after.push_back(feed.held + feed.tokens);
  }
}

// The slots that the rows see in `layer`: itself and everything before it, or as far back as the
// window goes.
void fill_view(const Config& config, int layer, const StepPlan& plan, SlotView& view) {
  view.first.assign(1, 0);
  view.slots.clear();
  for (const PlannedRow& row : plan.rows) {
    for (int slot = config.first_visible(layer, row.position); slot <= row.position; ++slot) {
      view.slots.push_back(slot);
    }
    view.first.push_back(static_cast<int>(view.slots.size()));
  }
}

// Layers of equal window share a view.
void plan_views(const Config& config, StepPlan& plan) {
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
    fill_view(config, static_cast<int>(layer), plan, plan.views[used]);
    plan.view_of_layer[layer] = static_cast<int>(used++);
  }
  plan.views.resize(used);
}

}  // namespace

void plan_step(const Config& config, std::span<const PlannedFeed> feeds, StepPlan& plan) {
  plan_rows(feeds, plan);
  plan_views(config, plan);
  plan.kv_head_of.resize(static_cast<std::size_t>(config.query_heads));
  for (int h = 0; h < config.query_heads; ++h) {
    plan.kv_head_of[static_cast<std::size_t>(h)] = h / config.group();
  }
  plan.write_store.resize(static_cast<std::size_t>(config.layers));
  std::iota(plan.write_store.begin(), plan.write_store.end(), 0);
  plan.read_store = plan.write_store;
}

}  // namespace kvcheck
