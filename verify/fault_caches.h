// SPDX-License-Identifier: MIT
// What faults of the verbs do to caches: taking rows as they are stored and putting them elsewhere,
// turning keys, and giving the further rows of a sequence other positions.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/ops.h"
#include "engine/rotary_tables.h"
#include "verify/fault_memory.h"

namespace kvcheck {

// ---- Rows

// The key and the value of a row, as the store holds them.
template <Scalar T>
struct StoredRow {
  int layer;
  std::vector<T> key;
  std::vector<T> value;
};

template <Scalar T>
[[nodiscard]] StoredRow<T> row_of(const KvCache<T>& cache, int layer, int row) {
  const int slot = cache.slot(layer, row);
  const T* const key = cache.key(layer, slot);
  const T* const value = cache.value(layer, slot);
  return {layer, {key, key + cache.slot_stride()}, {value, value + cache.slot_stride()}};
}

// Rows [first, end).
template <Scalar T>
[[nodiscard]] std::vector<StoredRow<T>> rows_of(const KvCache<T>& cache, int layer, int first,
                                                int end) {
  std::vector<StoredRow<T>> rows;
  for (int row = first; row < end; ++row) rows.push_back(row_of(cache, layer, row));
  return rows;
}

// Whether this changed a bit of the cache; so do the others here.
template <Scalar T>
bool put_row(KvCache<T>& cache, int layer, int row, const StoredRow<T>& stored) {
  const int slot = cache.slot(layer, row);
  const auto put = [](T* to, const std::vector<T>& from) {
    const bool same = std::memcmp(to, from.data(), from.size() * sizeof(T)) == 0;
    std::ranges::copy(from, to);
    return !same;
  };
  const bool key = put(cache.key(layer, slot), stored.key);
  return put(cache.value(layer, slot), stored.value) || key;
}

template <Scalar T>
bool put_rows(KvCache<T>& cache, int layer, int first, std::span<const StoredRow<T>> rows) {
  bool changed = false;
  for (const StoredRow<T>& stored : rows)
    changed = put_row(cache, layer, first++, stored) || changed;
  return changed;
}

// change(StoredRow&) of each row [first, end) of the planting's layers; says so to its trace.
template <Scalar T, typename Change>
void change_rows(const Planting<T>& planting, KvCache<T>& cache, int first, int end,
                 Change change) {
  bool changed = false;
  for (int l = 0; l < planting.config.layers; ++l) {
    if (!planting.in_layer(l)) continue;
    for (int row = std::max(first, 0); row < end; ++row) {
      StoredRow<T> stored = row_of(cache, l, row);
      change(stored);
      changed = put_row(cache, l, row, stored) || changed;
    }
  }
  if (changed) planting.trace->changed();
}

// A row that was never written, in memory that was cleared.
template <Scalar T>
void clear(StoredRow<T>& row) {
  std::ranges::fill(row.key, T{0});
  std::ranges::fill(row.value, T{0});
}

// Turns a stored key of a layer, or whatever else is taken for one, `by` positions further.
template <Scalar T>
void turn(std::vector<T>& key, int layer, const Config& config, int by) {
  const RotaryTables<T> tables = rotary_tables<T>(config, by < 0 ? Turning::back : Turning::forth);
  const int steps = by < 0 ? -by : by;
  rotate(*tables[static_cast<std::size_t>(config.rotary_base_of(layer))], config.rotary_pairs,
         std::span(&steps, 1), config.head_size, View<T>{key.data(), 1, config.kv_width(), 1});
}

// ---- Plans

// The same, and it says to the trace when it has changed a plan.
[[nodiscard]] PlanRewrite counted(PlanRewrite rewrite, std::shared_ptr<FaultTrace> trace);

template <Scalar T>
void rewrite_plans(const Planting<T>& planting, PlanRewrite rewrite) {
  planting.engine.rewrite_plans(counted(std::move(rewrite), planting.trace));
}

// change(view) of one layer, which then has a view of its own; where nothing changes, nothing is
// touched.
void change_view(StepPlan& plan, int layer, const std::function<void(SlotView&)>& change);

// Shows a row one more key: that which the right view shows it as its `key`-th.
void show(SlotView& view, const SlotView& right, int row, std::size_t key);

// What there is to know of the sequence of each feed of the step at hand.
template <typename Value>
using OfFeeds = std::shared_ptr<std::vector<Value>>;

// Notes, before every step, of(sequence, tokens) of each feed.
template <Scalar T, typename Of>
auto note_feeds(const Planting<T>& planting, Of of) {
  using Value = decltype(of(SequenceId{}, 0));
  auto noted = std::make_shared<std::vector<Value>>();
  planting.hooks.feed = [noted, of](Engine& inner, std::span<const Feed> feeds, Rows rows,
                                    Logits& out) {
    noted->clear();
    for (const Feed& feed : feeds) {
      noted->push_back(of(feed.sequence, static_cast<int>(feed.tokens.size())));
    }
    inner.batch(feeds, rows, out);
  };
  return noted;
}

// How far the further rows of each sequence stand from where they should.
using Drift = SequenceMemory<int>;

// A counter of positions is a part of what is saved.
[[nodiscard]] std::shared_ptr<Drift> attach_drift(Hooks& hooks);

// Positions drift as the memory says; inside the context, outside of which no engine goes.
template <Scalar T>
std::shared_ptr<Drift> plant_drift(const Planting<T>& planting) {
  auto drift = attach_drift(planting.hooks);
  const auto of_feeds =
      note_feeds(planting, [drift](SequenceId sequence, int) { return drift->of(sequence); });
  rewrite_plans(planting,
                [of_feeds, last = planting.config.context - 1](StepPlan& plan, PlannedFeeds) {
                  for (PlannedRow& row : plan.rows) {
                    const int by = (*of_feeds)[static_cast<std::size_t>(row.sequence)];
                    row.position = std::clamp(row.position + by, 0, last);
                  }
                });
  return drift;
}

// Those of queries and keys only, which rotation takes wherever they are.
template <Scalar T>
std::shared_ptr<Drift> plant_rotary_drift(const Planting<T>& planting) {
  auto drift = attach_drift(planting.hooks);
  const auto of_feeds =
      note_feeds(planting, [drift](SequenceId sequence, int) { return drift->of(sequence); });
  rewrite_plans(planting,
                [of_feeds, layers = planting.config.layers](StepPlan& plan, PlannedFeeds) {
                  for (int l = 0; l < layers; ++l) {
                    RowPositions& own = own_positions(plan, l);
                    for (std::size_t r = 0; r < plan.rows.size(); ++r) {
                      const int by = (*of_feeds)[static_cast<std::size_t>(plan.rows[r].sequence)];
                      own.query[r] += by;
                      own.key[r] += by;
                    }
                  }
                });
  return drift;
}

// The positions that rows which are gone have left free.
inline constexpr auto kGapLost = [](const auto& cache) {
  return cache.length() - cache.next_position();
};

}  // namespace kvcheck
