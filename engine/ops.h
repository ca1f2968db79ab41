// SPDX-License-Identifier: MIT
// The pure operations of a decoder, once for each arithmetic. They know nothing of caches,
// positions or layers; the two decoders share them and nothing else.
//
// Stated order of row arithmetic, for every output element whatever the number of rows, their
// address or stride: sums start at 0 and run over the inner index (input feature, head dimension,
// or key in position order) from low to high, one rounding a multiplication and one an addition; a
// bias is added last; a softmax subtracts the largest visible score, and masked keys are not there
// at all rather than multiplied by 0.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/block.h"
#include "engine/config.h"
#include "engine/model.h"

namespace kvcheck {

// Heads of an attention, as both decoders see them.
struct Heads {
  int query_heads;
  int kv_heads;
  int head_size;
};

// The rows of several equally long sequences: row (t, b) of token t of sequence b is t * sequences
// + b.
struct BlockShape {
  int sequences;
  int length;
};

// The keys (or values) that one query of each sequence sees: tokens first .. last of the same
// sequence.
struct VisibleTokens {
  int first;
  int last;

  [[nodiscard]] int count() const { return last - first + 1; }
};

// Cached rows in position order: slot i lies at base + i * stride, [kv_heads, head_size].
template <typename T>
struct CachedRows {
  const T* base;
  std::ptrdiff_t stride;
  std::span<const int> slots;       // in position order
  std::span<const int> kv_head_of;  // [query_heads]
};

template <Scalar T>
struct Ops {
  Arithmetic arithmetic;

  // out = x weight + bias
  void (*product)(View<const T> x, const Matrix<T>& weight, const Vector<T>& bias, View<T> out);
  void (*normalize)(View<const T> x, const NormWeights<T>& weights, T epsilon, View<T> out);
  void (*gelu_tanh)(View<T> x);                    // in place
  void (*swiglu)(View<const T> gate, View<T> up);  // up = silu(gate) * up
  void (*geglu)(View<const T> gate, View<T> up);   // up = gelu_tanh(gate) * up
  void (*add)(View<const T> x, View<T> sum);       // sum += x
  void (*soft_cap)(View<T> x, T cap);              // in place: cap tanh(x / cap)

  // Attention of token `last` of every sequence of a block, no cache: scores and probabilities lie
  // as [query head][visible key][sequence].
  void (*scores)(Heads heads, BlockShape shape, View<const T> query, View<const T> key,
                 VisibleTokens visible, T scale, T* scores);
  // In place: the score of query head h and key k falls by slopes[h] x distances[k].
  void (*lower)(std::span<const T> slopes, std::span<const std::int64_t> distances, int lanes,
                T* scores);
  void (*softmax)(int heads, int keys, int lanes, T* scores);  // in place, over the keys
  void (*mix)(Heads heads, BlockShape shape, const T* probabilities, View<const T> value,
              VisibleTokens visible, View<T> out);

  // Attention of one query row over cached rows: query and out [query_heads, head_size] contiguous,
  // scores and probabilities [query head][visible key].
  void (*cached_scores)(Heads heads, const T* query, const CachedRows<T>& keys, T scale, T* scores);
  void (*cached_mix)(Heads heads, const T* probabilities, const CachedRows<T>& values, T* out);
};

template <Scalar T>
[[nodiscard]] const Ops<T>& row_ops();
template <Scalar T>
[[nodiscard]] const Ops<T>& matrix_ops();
template <Scalar T>
[[nodiscard]] const Ops<T>& ops_for(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::row ? row_ops<T>() : matrix_ops<T>();
}

// RMSNorm of every head of the rows, in place; the size of a head is that of the norm's scale.
template <Scalar T>
void normalize_heads(const Ops<T>& ops, const NormWeights<T>& weights, T epsilon, View<T> x) {
  const int size = static_cast<int>(weights.scale.size());
  for (int first = 0; first < x.features; first += size) {
    const View<T> head{x.feature(first), x.rows, size, x.stride};
    ops.normalize(head, weights, epsilon, head);
  }
}

// Press et al. (arXiv 2108.12409): [heads] 2^(-8 (h + 1) / heads) for a power of two. Otherwise
// those of the next lower power of two, then every other one of twice as many heads.
[[nodiscard]] std::vector<long double> alibi_slopes(int heads);

// Positions of a table; beyond, the very same numbers are computed when they are needed. A context
// of millions would otherwise take longer to set up than what it is set up for.
inline constexpr int kRotaryPositionsMax = 8192;

// Cosine and sine of every (position, pair), [positions, rotated / 2]: angles position * base^(-2 i
// / rotated) with `rotated` dimensions of a head, each over the divisor that the configuration may
// give its pair, computed in long double and rounded once.
// RoFormer (arXiv 2104.09864), section 3.2.2.
template <Scalar T>
struct RotaryTable {
  int pairs = 0;
  int positions = 0;                     // the context, but no more than kRotaryPositionsMax
  std::vector<long double> frequencies;  // [pairs] base^(-2 i / rotated) / divisor
  std::vector<T> cosine;
  std::vector<T> sine;
};
template <Scalar T>
[[nodiscard]] RotaryTable<T> rotary_table(const Config& config, double base);

// Rotates the first dimensions of every head of x in place, as many as the table has, row r by
// positions[r]: elementwise, the same in both arithmetics.
template <Scalar T>
void rotate(const RotaryTable<T>& table, RotaryPairs pairs, std::span<const int> positions,
            int head_size, View<T> x);

}  // namespace kvcheck
