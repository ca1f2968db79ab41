// SPDX-License-Identifier: MIT
// The oracle: logits by recomputing everything from the tokens, with no cache in sight. It shares
// nothing with the cached decoder but the pure operations of ops.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/block.h"
#include "engine/model.h"
#include "engine/ops.h"
#include "engine/rotary_tables.h"
#include "engine/site.h"
#include "engine/tokens.h"
#include "engine/weights.h"

namespace kvcheck {

template <Scalar T>
class Uncached {
 public:
  Uncached(Weights<T> weights, const Ops<T>& ops);

  // Logits of every row (row t * sequences + b), or of the last row of every sequence (row b).
  // Throws Error for tokens that the model cannot take. The observer, if any, sees every site; for
  // Rows::last the last layer computes queries and what follows from them for those rows only.
  // The result stays valid until the next call.
  View<const T> logits(const TokenBlock& block, Rows rows, const Observer<T>* observer = nullptr);

 private:
  void embed(const TokenBlock& block);
  void attention(int layer, BlockShape shape);
  void place_heads(int layer, View<T> query, View<T> key);
  void attend(int layer, BlockShape shape);
  void bias_and_cap(BlockShape shape, VisibleTokens visible);
  void mlp(int layer, BlockShape shape);
  // The rows of a block that the layer at hand is asked for.
  [[nodiscard]] View<T> wanted(View<T> all, BlockShape shape) const;
  void observe(Site site, int layer, View<T> view) const;
  void observe_rows(int layer, BlockShape shape, VisibleTokens visible);
  void observe_attention(Site site, int layer, BlockShape shape, VisibleTokens visible);

  Weights<T> weights_;
  const Ops<T>& ops_;
  const RotaryTables<T> rotary_;
  const T epsilon_;
  const T scale_;
  std::vector<T> slopes_;  // [query heads], ALiBi only
  const Vector<T> no_bias_;
  const Observer<T>* observer_ = nullptr;
  int first_ = 0;  // token from which on the layer at hand computes queries

  // Work space, kept between calls.
  Block<T> x_, normed_, query_, key_, value_, attended_, projected_, gate_, up_, logits_;
  AlignedVector<T> scores_;  // [query head][visible key][sequence]
  std::vector<int> positions_;
  std::vector<std::int64_t> distances_;  // [visible keys]
};

}  // namespace kvcheck
