// SPDX-License-Identifier: MIT
// How the numbers of a K or V row are stored: as they are, or in fewer bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "engine/scalar.h"

namespace kvcheck {

enum class RowFormat {
  native,  // the scalar of the engine: nothing is lost
  bf16,    // the upper half of a float, rounded to nearest even
  f16,     // IEEE 754 binary16, rounded to nearest even
  int8,    // a float scale = largest magnitude of the row / 127, and a byte a number
};

[[nodiscard]] constexpr std::string_view name(RowFormat format) {
  constexpr std::string_view kNames[] = {"native", "bf16", "f16", "int8"};
  return kNames[static_cast<int>(format)];
}

// Bytes of a row of `scalars` numbers.
template <Scalar T>
[[nodiscard]] std::int64_t row_bytes(RowFormat format, int scalars);

// To and from row_bytes() bytes. What is not finite, or too large for the format, is stored as NaN
// or infinity and never as a number. Bytes that are all ones are NaN in every format.
template <Scalar T>
void encode(RowFormat format, std::span<const T> row, std::byte* to);
template <Scalar T>
void decode(RowFormat format, const std::byte* from, std::span<T> row);

// What is left of a row after it was stored.
template <Scalar T>
void round_row(RowFormat format, std::span<T> row);

}  // namespace kvcheck
