// SPDX-License-Identifier: MIT
// Rewriting what the rows of a step see.
#include "verify/fault_rows.h"

namespace kvcheck {
namespace {

const SlotView& view_of(const StepPlan& plan, int layer) {
  const int view = plan.view_of_layer[static_cast<std::size_t>(layer)];
  return plan.views[static_cast<std::size_t>(view)];
}

struct LayerEdit {
  std::vector<int> first{0};
  std::vector<int> slots;
  std::vector<int> positions;
  std::vector<std::vector<int>> sources;  // [rows][seen]
  bool all_stored = true;
};

void append(const ViewRows& seen, LayerEdit& edit) {
  std::vector<int>& sources = edit.sources.emplace_back();
  for (const ViewRow& one : seen) {
    edit.slots.push_back(one.slot);
    edit.positions.push_back(one.position);
    sources.push_back(one.source);
    edit.all_stored = edit.all_stored && one.source == kStored;
  }
  edit.first.push_back(static_cast<int>(edit.slots.size()));
}

LayerEdit edited(const StepPlan& plan, const FaultStep& step, int layer,
                 const ViewRewrite& rewrite) {
  const SlotView& view = view_of(plan, layer);
  LayerEdit edit;
  for (int row = 0; row < static_cast<int>(plan.rows.size()); ++row) {
    ViewRows seen;
    int index = index_of(step, row) - static_cast<int>(view.of(row).size());
    for (const int slot : view.of(row)) {
      seen.push_back({slot, row_at(step, layer, row, std::max(0, ++index)).position});
    }
    const ViewRow itself = seen.back();
    rewrite(seen, layer, row, step);
    if (seen.empty()) seen.push_back(itself);
    append(seen, edit);
  }
  return edit;
}

}  // namespace

int index_of(const FaultStep& step, int row) { return step.held(row) + step.place(row); }

int slot_of(const FaultStep& step, int layer, int row, int index) {
  const PlannedFeed& feed = step.feed_of(row);
  const int ring = feed.rings.empty() ? 0 : feed.rings[static_cast<std::size_t>(layer)];
  if (ring > 0) return index % ring;
  return feed.slots.empty() ? index : feed.slots[static_cast<std::size_t>(index)];
}

ViewRow row_at(const FaultStep& step, int layer, int row, int index) {
  const PlannedFeed& feed = step.feed_of(row);
  const int position = index >= feed.held       ? index + feed.ahead
                       : feed.positions.empty() ? index
                                                : feed.positions[static_cast<std::size_t>(index)];
  return {slot_of(step, layer, row, index), position};
}

ViewRows rows_from(const FaultStep& step, int layer, int row, int first) {
  const int last = index_of(step, row);
  ViewRows seen;
  for (int index = std::clamp(first, 0, last); index <= last; ++index) {
    seen.push_back(row_at(step, layer, row, index));
  }
  return seen;
}

void rewrite_seen(StepPlan& plan, const FaultStep& step, const ViewRewrite& rewrite,
                  ViewSources& sources) {
  for (int layer = 0; layer < step.config.layers; ++layer) {
    if (!step.in_layer(layer)) continue;
    LayerEdit edit = edited(plan, step, layer, rewrite);
    const SlotView& view = view_of(plan, layer);
    if (edit.first != view.first || edit.slots != view.slots) {
      SlotView& own = own_view(plan, layer);
      own.first = std::move(edit.first);
      own.slots = std::move(edit.slots);
      if (!own.positions.empty()) own.positions = std::move(edit.positions);
    }
    if (edit.all_stored) continue;
    sources.resize(static_cast<std::size_t>(step.config.layers));
    sources[static_cast<std::size_t>(layer)] = std::move(edit.sources);
  }
}

std::shared_ptr<SequenceMemory<SequenceTokens>> remember_tokens(Hooks& hooks) {
  auto memory = SequenceMemory<SequenceTokens>::attach(hooks);
  const auto forget = [memory](SequenceId sequence, int first, int count) {
    SequenceTokens& tokens = memory->of(sequence);
    const auto held = static_cast<std::ptrdiff_t>(tokens.size());
    const auto begin = tokens.begin() + std::min<std::ptrdiff_t>(first, held);
    const auto end = tokens.begin() + std::min<std::ptrdiff_t>(first + count, held);
    tokens.erase(begin, end);
  };
  hooks.shift = [forget](Engine& inner, SequenceId sequence, int from, int to) {
    inner.shift(sequence, from, to);
    forget(sequence, from, to - from);
  };
  hooks.evict = [forget](Engine& inner, SequenceId sequence, int keep, int drop) {
    inner.evict(sequence, keep, drop);
    forget(sequence, keep, drop);
  };
  return memory;
}

}  // namespace kvcheck
