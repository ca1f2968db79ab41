// SPDX-License-Identifier: MIT
// Counted plans, views of their own, and counters that go along with their rows.
#include "verify/fault_caches.h"

#include <map>

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
  StepPlan wrong = plan;
  SlotView& view = own_view(wrong, layer);
  const SlotView right = view;
  change(view);
  if (view != right) plan = std::move(wrong);
}

void show(SlotView& view, const SlotView& right, int row, std::size_t key) {
  view.slots.push_back(right.of(row)[key]);
  if (!right.positions.empty()) view.positions.push_back(right.positions_of(row)[key]);
}

std::shared_ptr<Drift> attach_drift(Hooks& hooks) {
  auto drift = Drift::attach(hooks);
  auto saved = std::make_shared<std::map<State, int>>();
  hooks.save = [drift, saved](Engine& inner, SequenceId sequence) {
    State state = inner.save(sequence);
    (*saved)[state] = drift->of(sequence);
    return state;
  };
  hooks.load = [drift, saved](Engine& inner, std::span<const std::byte> state) {
    const SequenceId sequence = inner.load(state);
    drift->of(sequence) = (*saved)[State(state.begin(), state.end())];
    return sequence;
  };
  return drift;
}

}  // namespace kvcheck
