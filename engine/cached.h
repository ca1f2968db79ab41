// SPDX-License-Identifier: MIT
// The decoder under test: feeds tokens to sequences that keep their keys and values in caches. It
// plans a step, then executes the plan. It shares with the oracle only the pure operations of
// ops.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/block.h"
#include "engine/kv_cache.h"
#include "engine/model.h"
#include "engine/ops.h"
#include "engine/rotary_tables.h"
#include "engine/site.h"
#include "engine/step_plan.h"

namespace kvcheck {

template <Scalar T>
class Cached {
 public:
  // Keeps a reference to the model.
  Cached(const Model<T>& model, const Ops<T>& ops);

  // Appends the tokens and gives the logits of the fed rows, feed after feed, or of the last row of
  // each feed. Throws Error, with every cache as it was, for an empty feed, an id outside the
  // vocabulary or a feed past the context.
  // The result stays valid until the next call.
  View<const T> feed(std::span<const CacheFeed<T>> feeds, Rows rows,
                     const Observer<T>* observer = nullptr);

  // What feed() throws Error for, and nothing else.
  void validate(std::span<const CacheFeed<T>> feeds) const;

  // Every plan passes through `rewrite` before it is executed; empty for none.
  void rewrite_plans(PlanRewrite rewrite) { rewrite_ = std::move(rewrite); }
  [[nodiscard]] const PlanRewrite& plan_rewrite() const { return rewrite_; }
  // The plan of the last step.
  [[nodiscard]] const StepPlan& plan() const { return plan_; }

 private:
  void make_plan(std::span<const CacheFeed<T>> feeds);
  void check_plan(std::span<const CacheFeed<T>> feeds) const;
  void check_positions() const;
  void check_rules() const;
  void check_lengths(std::span<const CacheFeed<T>> feeds) const;
  void check_view(int view, std::span<const CacheFeed<T>> feeds) const;
  [[nodiscard]] int slots_of(int view, const KvStore<T>& store) const;
  void embed(std::span<const CacheFeed<T>> feeds);
  void attention(int layer, std::span<const CacheFeed<T>> feeds);
  void place_heads(int layer, View<T> query, View<T> key);
  void attend(int layer, std::span<const CacheFeed<T>> feeds);
  void store_row(int layer, int row, KvStore<T>& store);
  [[nodiscard]] int rows_together(int layer, int first, std::span<const CacheFeed<T>> feeds) const;
  void attend_together(int layer, int first, int count, std::span<const CacheFeed<T>> feeds);
  void score_row(int layer, int row, const KvStore<T>& store, View<T> scores);
  void mix_row(int row, const T* probabilities, const CachedRows<T>& values);
  void observe_scores(Site site, int layer, int row, View<T> scores) const;
  void bias_and_cap(int layer, int row, View<T> scores);
  // The rows of the slots that a row sees, decoded if they are not stored as numbers.
  struct SeenRows {
    CachedRows<T> keys;
    CachedRows<T> values;
  };
  [[nodiscard]] SeenRows seen_rows(const KvStore<T>& store, int layer, std::span<const int> slots);
  [[nodiscard]] SeenRows copied_rows(const KvStore<T>& store, int layer,
                                     std::span<const int> slots);
  void observe_rows(int layer, int row, int keys, int width);
  [[nodiscard]] const SlotView& view_of(int layer) const {
    const auto view = plan_.view_of_layer[static_cast<std::size_t>(layer)];
    return plan_.views[static_cast<std::size_t>(view)];
  }
  // Of a layer that takes its rows at other positions than the plan's rows; null: it does not.
  [[nodiscard]] const RowPositions* own_positions_of(int layer) const {
    if (plan_.positions_of_layer.empty()) return nullptr;
    const auto own = plan_.positions_of_layer[static_cast<std::size_t>(layer)];
    return &plan_.positions[static_cast<std::size_t>(own)];
  }
  void mlp(int layer);
  View<T> answered(Rows rows);
  void observe(Site site, int layer, View<T> view) const;

  const Model<T>& model_;
  const Ops<T>& ops_;
  const RotaryTables<T> rotary_;
  const T epsilon_;
  const Vector<T> no_bias_;
  const Observer<T>* observer_ = nullptr;
  PlanRewrite rewrite_;
  StepPlan plan_;

  // Work space, kept between calls.
  std::vector<PlannedFeed> planned_;
  std::vector<int> positions_;
  Block<T> x_, normed_, query_, key_, value_, attended_, projected_, gate_, up_, last_, logits_;
  AlignedVector<T> query_row_, attended_row_;     // [query_heads, head_size]
  AlignedVector<T> key_row_, value_row_;          // [kv_heads, head_size]
  AlignedVector<T> copied_keys_, copied_values_;  // [visible key][kv_heads, head_size]
  std::vector<int> copied_slots_;                 // 0, 1, 2 ...
  AlignedVector<T> scores_;                       // [row][query head][visible key]
  std::vector<SeenRows> seen_;                    // [rows that attend together]
  std::vector<T> slopes_;                         // [query heads]
  std::vector<std::int64_t> distances_;           // [visible keys]
};

}  // namespace kvcheck
