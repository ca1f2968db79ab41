// SPDX-License-Identifier: MIT
// Counted plans, views of their own, and counters that go along with their rows.
#include "verify/fault_caches.h"

namespace kvcheck {

PlanRewrite counted(PlanRewrite rewrite, std::shared_ptr<FaultTrace> trace) {
  return
      [rewrite = std::move(rewrite), trace = std::move(trace)](StepPlan& plan, PlannedFeeds feeds) {
        const StepPlan before = plan;
        rewrite(plan, feeds);
        if (plan != before) trace->changed();
      };
}

void change_view(StepPlan& plan, int layer, const std::function<void(SlotView&)>& change) {
  StepPlan right = plan;
  (void)own_view(right, layer);
  StepPlan wrong = right;
  change(own_view(wrong, layer));
  if (wrong != right) plan = std::move(wrong);
}

void show(SlotView& view, const SlotView& right, int row, std::size_t key) {
  view.slots.push_back(right.of(row)[key]);
  if (!right.positions.empty()) view.positions.push_back(right.positions_of(row)[key]);
}

std::shared_ptr<Drift> attach_drift(Hooks& hooks) {
  auto drift = Drift::attach(hooks);
  auto saved = std::make_shared<std::vector<std::pair<State, int>>>();
  hooks.save = [drift, saved](Engine& inner, SequenceId sequence) {
    State state = inner.save(sequence);
    saved->emplace_back(state, drift->of(sequence));
    return state;
  };
  hooks.load = [drift, saved](Engine& inner, std::span<const std::byte> state) {
    const SequenceId sequence = inner.load(state);
    const auto same = [&](const auto& known) { return std::ranges::equal(known.first, state); };
    const auto known = std::ranges::find_if(*saved, same);
    drift->of(sequence) = known == saved->end() ? 0 : known->second;
    return sequence;
  };
  return drift;
}

}  // namespace kvcheck
