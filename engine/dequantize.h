// SPDX-License-Identifier: MIT
// Formats in which files store weights, widened to the floats that the engine takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace kvcheck {

enum class Dtype : std::uint8_t {
  f64,   // rounded to the nearest float
  f32,   //
  f16,   // IEEE 754 binary16
  bf16,  // the upper half of a float
  q8_0,  // blocks of 32: an f16 scale d, then 32 signed bytes q; d q
  q4_0,  // blocks of 32: an f16 scale d, then 32 nibbles q; d (q - 8)
  q4_1,  // blocks of 32: an f16 scale d, an f16 minimum m, then 32 nibbles q; d q + m
  q5_0,  // blocks of 32: an f16 scale d, 32 fifth bits, then 32 nibbles; d (q - 16)
  q5_1,  // blocks of 32: an f16 scale d, an f16 minimum m, 32 fifth bits, then 32 nibbles; d q + m
  // Blocks of 256 numbers, each 32 of which (Q6_K: 16) have a scale s of their own.
  q4_k,  // f16 d and e, 8 pairs (s, t) of 6 bits each, then nibbles q; d s q - e t
  q5_k,  // likewise, with fifth bits before the nibbles
  q6_k,  // nibbles, then the two upper bits of each q, 16 signed bytes s and f16 d; d s (q - 32)
};

// Numbers that are stored together, and the bytes that they take. Number i of a block of 32 nibbles
// is the lower half of byte i for i < 16, the upper half of byte i - 16 beyond.
struct StorageBlock {
  std::string_view name;  // as files call the format
  int numbers;
  int bytes;
};
[[nodiscard]] const StorageBlock& block_of(Dtype dtype);

// Bytes of a tensor of that shape. Nothing where they pass 2^63, or where a row (the last extent)
// is not made of whole blocks.
[[nodiscard]] std::optional<std::int64_t> bytes_of(Dtype dtype,
                                                   std::span<const std::int64_t> shape);

// from: as many bytes as to.size() numbers take, whole blocks; at any address.
void widen(Dtype dtype, std::span<const std::byte> from, std::span<float> to);

}  // namespace kvcheck
