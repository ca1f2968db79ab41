// SPDX-License-Identifier: MIT
// Rounding the keys and values that an oracle computes just as a cache of fewer bits rounds those
// that it stores.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/row_format.h"
#include "engine/site.h"

namespace kvcheck {

// Rows of keys or values in place, by way of `Stored`, the scalar whose cache is meant; other sites
// are left alone. Before, each entry is moved by `nudge(row, column)` times the largest of its row.
template <Scalar Stored, Scalar T, typename Nudge>
void round_site(const SiteTensor<T>& tensor, RowFormat format, Nudge nudge) {
  if (tensor.site != Site::key && tensor.site != Site::value) return;
  std::vector<Stored> row(static_cast<std::size_t>(tensor.columns));
  for (int r = 0; r < tensor.rows; ++r) {
    Stored largest = 0;
    for (int c = 0; c < tensor.columns; ++c) {
      row[static_cast<std::size_t>(c)] = static_cast<Stored>(tensor.at(r, c));
      largest = std::max(largest, std::abs(row[static_cast<std::size_t>(c)]));
    }
    for (int c = 0; c < tensor.columns; ++c) {
      row[static_cast<std::size_t>(c)] += largest * static_cast<Stored>(nudge(r, c));
    }
    round_row<Stored>(format, row);
    for (int c = 0; c < tensor.columns; ++c) tensor.at(r, c) = T(row[static_cast<std::size_t>(c)]);
  }
}

template <Scalar Stored, Scalar T>
void round_site(const SiteTensor<T>& tensor, RowFormat format) {
  round_site<Stored>(tensor, format, [](int, int) { return Stored(0); });
}

}  // namespace kvcheck
