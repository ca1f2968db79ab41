// SPDX-License-Identifier: MIT
// The decoder under test: feeds tokens to sequences that keep their keys and values in caches. It
// plans a step, then executes the plan. It shares with the oracle only the pure operations of
// ops.h.
#pragma once

#include <span>
#include <vector>

#include "engine/block.h"
#include "engine/kv_cache.h"
#include "engine/model.h"
#include "engine/ops.h"
#include "engine/site.h"
#include "engine/step_plan.h"

namespace kvcheck {

// Tokens for one sequence. Feeding several at once is a batch: the products run over all rows
// together, the attention of each row sees its own cache only.
template <Scalar T>
struct CacheFeed {
  KvCache<T>* cache;
  std::span<const int> tokens;
};

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

  // Every plan passes through `rewrite` before it is executed; empty for none.
  void rewrite_plans(PlanRewrite rewrite) { rewrite_ = std::move(rewrite); }
  // The plan of the last step.
  [[nodiscard]] const StepPlan& plan() const { return plan_; }

 private:
  void make_plan(std::span<const CacheFeed<T>> feeds);
  void check_plan() const;
  void embed(std::span<const CacheFeed<T>> feeds);
  void attention(int layer, std::span<const CacheFeed<T>> feeds);
  void store(int layer, std::span<const CacheFeed<T>> feeds);
  void attend(int layer, std::span<const CacheFeed<T>> feeds);
  void attend_row(int layer, int row, const KvCache<T>& cache);
  void mlp(int layer);
  View<T> answered(Rows rows);
  void observe(Site site, int layer, View<T> view) const;

  const Model<T>& model_;
  const Ops<T>& ops_;
  const RotaryTable<T> rotary_;
  const T epsilon_;
  const T scale_;
  const Vector<T> no_bias_;
  const Observer<T>* observer_ = nullptr;
  PlanRewrite rewrite_;
  StepPlan plan_;

  // Work space, kept between calls.
  std::vector<PlannedFeed> planned_;
  std::vector<int> positions_;
  Block<T> x_, normed_, query_, key_, value_, attended_, projected_, gate_, up_, last_, logits_;
  AlignedVector<T> query_row_, attended_row_;  // [query_heads, head_size]
  AlignedVector<T> scores_;                    // [query head][visible key]
};

}  // namespace kvcheck
