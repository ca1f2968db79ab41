// SPDX-License-Identifier: MIT
// The kinds of cache that the built-in engine has: how rows are laid out, and how they are stored.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/row_format.h"

namespace kvcheck {

enum class CacheLayout {
  flat,          // room for the whole context, slot = row
  growing,       // begins with one row; capacity doubles
  ring,          // a layer with a window holds that many rows, slot = row modulo window
  paged,         // blocks of some rows from a common store; copies share them until one writes
  padded_left,   // one store for a batch: a step takes the same columns in every sequence, and
  padded_right,  // shorter feeds leave them empty before, or after, their own rows
};

struct CacheKind {
  CacheLayout layout = CacheLayout::flat;
  RowFormat format = RowFormat::native;  // others: in the flat layout
  int block = 0;                         // rows of a block, paged only

  bool operator==(const CacheKind&) const = default;
  [[nodiscard]] bool lossy() const { return format != RowFormat::native; }
};

// Small, so that short contexts have several blocks, full and partly filled ones.
inline constexpr int kBlockRows = 2;
inline constexpr int kBlockRowsMax = 1 << 16;

// flat, growing, ring, paged:B, padded-left, padded-right, bf16, f16 or int8.
[[nodiscard]] std::string name(const CacheKind& kind);
// The kind of a name; "paged" alone has blocks of kBlockRows. Throws Error for any other text.
[[nodiscard]] CacheKind cache_kind(std::string_view text, std::string_view where);
// One of each, blocks of kBlockRows.
[[nodiscard]] std::vector<CacheKind> cache_kinds();

}  // namespace kvcheck
