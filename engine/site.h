// SPDX-License-Identifier: MIT
// The named intermediate tensors of a decoder, in the order in which they depend on each other, and
// the one mechanism that looks at them (or changes them): an observer called at every site.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

#include "engine/scalar.h"

namespace kvcheck {

enum class Site {
  embedding,           // [rows, width], positions not yet added
  input,               // [rows, width], what the first layer reads
  attention_norm,      // [rows, width]
  query,               // [rows, query_heads * head_size], rotated
  key,                 // [rows, kv_heads * head_size], rotated: the rows that a cache stores
  value,               // [rows, kv_heads * head_size]
  scores,              // one query row: [query_heads, visible keys], scaled
  probabilities,       // one query row: [query_heads, visible keys]
  attention,           // [rows, query_heads * head_size], before the output projection
  attention_output,    // [rows, width]
  attention_residual,  // [rows, width]
  mlp_norm,            // [rows, width]
  mlp_hidden,          // [rows, mlp_width], after the activation
  mlp_output,          // [rows, width]
  residual,            // [rows, width], what the next layer reads
  final_norm,          // [rows, width]
  logits,              // [rows, vocabulary]
};

[[nodiscard]] std::string_view name(Site site);

// A tensor at a site, in place. An observer may change it; what follows then works with the changed
// values.
template <Scalar T>
struct SiteTensor {
  Site site;
  int layer;  // -1 outside the layers
  int row;    // first row: a query row at scores and probabilities, else 0
  T* data;
  int rows;  // query heads at scores and probabilities
  int columns;
  std::ptrdiff_t row_stride;
  std::ptrdiff_t column_stride;

  [[nodiscard]] T& at(int r, int c) const { return data[r * row_stride + c * column_stride]; }
};

template <Scalar T>
using Observer = std::function<void(const SiteTensor<T>&)>;

}  // namespace kvcheck
