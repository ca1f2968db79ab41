// SPDX-License-Identifier: MIT
// Widening stored numbers. A scale of 11 bits times a number of 8 bits is a float exactly; so is
// one times a scale of 6 bits and a number of 5. What is added to such a product, and the product
// of three of Q6_K, is rounded once.
#include "engine/dequantize.h"

#include <Eigen/Core>
#include <array>
#include <bit>
#include <cstring>

#include "engine/error.h"

namespace kvcheck {
namespace {

static_assert(std::endian::native == std::endian::little, "stored numbers are read as they lie");

constexpr int kBlock = 32;
constexpr int kSuperBlock = 256;

constexpr std::array kBlocks{StorageBlock{"F64", 1, 8},
                             StorageBlock{"F32", 1, 4},
                             StorageBlock{"F16", 1, 2},
                             StorageBlock{"BF16", 1, 2},
                             StorageBlock{"Q8_0", kBlock, 34},
                             StorageBlock{"Q4_0", kBlock, 18},
                             StorageBlock{"Q4_1", kBlock, 20},
                             StorageBlock{"Q5_0", kBlock, 22},
                             StorageBlock{"Q5_1", kBlock, 24},
                             StorageBlock{"Q4_K", kSuperBlock, 144},
                             StorageBlock{"Q5_K", kSuperBlock, 176},
                             StorageBlock{"Q6_K", kSuperBlock, 210}};

template <typename Number>
Number number_at(const std::byte* at) {
  Number number;
  std::memcpy(&number, at, sizeof number);
  return number;
}

float half_at(const std::byte* at) {
  return Eigen::half_impl::half_to_float(
      Eigen::half_impl::raw_uint16_to_half(number_at<std::uint16_t>(at)));
}

float bfloat_at(const std::byte* at) {
  return std::bit_cast<float>(std::uint32_t{number_at<std::uint16_t>(at)} << 16);
}

void q8_0(const std::byte* block, float* to) {
  const float scale = half_at(block);
  for (int i = 0; i < kBlock; ++i) {
    to[i] = scale * static_cast<float>(number_at<std::int8_t>(block + 2 + i));
  }
}

// Nibble i of a block whose nibbles begin at `from`.
int nibble(const std::byte* from, int i) {
  const auto both = static_cast<unsigned>(from[i % (kBlock / 2)]);
  return static_cast<int>(i < kBlock / 2 ? both & 15U : both >> 4);
}

void q4_0(const std::byte* block, float* to) {
  const float scale = half_at(block);
  for (int i = 0; i < kBlock; ++i) to[i] = scale * static_cast<float>(nibble(block + 2, i) - 8);
}

void q4_1(const std::byte* block, float* to) {
  const float scale = half_at(block);
  const float least = half_at(block + 2);
  for (int i = 0; i < kBlock; ++i) {
    to[i] = scale * static_cast<float>(nibble(block + 4, i)) + least;
  }
}

// Bit `bit` of the byte.
int bit_of(std::byte byte, int bit) {
  return static_cast<int>(static_cast<unsigned>(byte) >> bit & 1U);
}

// Number i of a block of 32 whose fifth bits begin at `from`, and behind them its nibbles.
int five_bits(const std::byte* from, int i) {
  constexpr int kFifths = kBlock / 8;
  return nibble(from + kFifths, i) + 16 * bit_of(from[i / 8], i % 8);
}

void q5_0(const std::byte* block, float* to) {
  const float scale = half_at(block);
  for (int i = 0; i < kBlock; ++i) to[i] = scale * static_cast<float>(five_bits(block + 2, i) - 16);
}

void q5_1(const std::byte* block, float* to) {
  const float scale = half_at(block);
  const float least = half_at(block + 2);
  for (int i = 0; i < kBlock; ++i) {
    to[i] = scale * static_cast<float>(five_bits(block + 4, i)) + least;
  }
}

struct ScaleAndMinimum {
  float scale;
  float minimum;
};

// Of 32 numbers, the j-th such of a block of Q4_K or Q5_K. Of 12 bytes the first four hold the
// lower four pairs' scales and the next four their minima, in 6 bits; the last four hold the lower
// halves of the upper four pairs, whose upper bits are the two that are left in the others.
ScaleAndMinimum pair_of(const std::byte* block, int j) {
  const std::byte* const packed = block + 4;
  const auto at = [&](int i) { return static_cast<unsigned>(packed[i]); };
  const bool lower = j < 4;
  const unsigned scale = lower ? at(j) & 63U : (at(j + 4) & 15U) | at(j - 4) >> 6 << 4;
  const unsigned minimum = lower ? at(j + 4) & 63U : at(j + 4) >> 4 | at(j) >> 6 << 4;
  return {half_at(block) * static_cast<float>(scale),
          half_at(block + 2) * static_cast<float>(minimum)};
}

// Nibbles of 64 numbers are 32 bytes: the lower halves of all, then the upper ones. `fifths`: 32
// bytes, bit j of each belongs to the j-th 32 numbers; null: there are none.
void q4_or_q5_k(const std::byte* block, const std::byte* fifths, const std::byte* nibbles,
                float* to) {
  for (int i = 0; i < kSuperBlock; ++i) {
    const int j = i / kBlock;
    const int l = i % kBlock;
    const auto both = static_cast<unsigned>(nibbles[j / 2 * kBlock + l]);
    int q = static_cast<int>(j % 2 == 0 ? both & 15U : both >> 4);
    if (fifths != nullptr) q += 16 * bit_of(fifths[l], j);
    const auto [scale, minimum] = pair_of(block, j);
    to[i] = scale * static_cast<float>(q) - minimum;
  }
}

void q4_k(const std::byte* block, float* to) { q4_or_q5_k(block, nullptr, block + 16, to); }
void q5_k(const std::byte* block, float* to) { q4_or_q5_k(block, block + 16, block + 48, to); }

// Each 128 numbers take 64 bytes of nibbles, the lower halves of all, then the upper ones, and 32
// bytes of upper bits, two of each for each 32 numbers.
void q6_k(const std::byte* block, float* to) {
  constexpr int kHalf = kSuperBlock / 2;
  const std::byte* const uppers = block + kHalf;
  const std::byte* const scales = uppers + kHalf / 2;
  const float scale = half_at(scales + kSuperBlock / 16);
  for (int i = 0; i < kSuperBlock; ++i) {
    const int half = i / kHalf;
    const int place = i % kHalf;
    const auto both = static_cast<unsigned>(block[half * 64 + place % 64]);
    const auto upper = static_cast<unsigned>(uppers[half * kBlock + place % kBlock]);
    const unsigned low = place < 64 ? both & 15U : both >> 4;
    const int q = static_cast<int>(low | (upper >> place / kBlock * 2 & 3U) << 4) - 32;
    const auto own = static_cast<float>(number_at<std::int8_t>(scales + i / 16));
    to[i] = scale * own * static_cast<float>(q);
  }
}

void widen_block(Dtype dtype, const std::byte* from, float* to) {
  switch (dtype) {
    case Dtype::f64:
      *to = static_cast<float>(number_at<double>(from));
      return;
    case Dtype::f32:
      *to = number_at<float>(from);
      return;
    case Dtype::f16:
      *to = half_at(from);
      return;
    case Dtype::bf16:
      *to = bfloat_at(from);
      return;
    case Dtype::q8_0:
      return q8_0(from, to);
    case Dtype::q4_0:
      return q4_0(from, to);
    case Dtype::q4_1:
      return q4_1(from, to);
    case Dtype::q5_0:
      return q5_0(from, to);
    case Dtype::q5_1:
      return q5_1(from, to);
    case Dtype::q4_k:
      return q4_k(from, to);
    case Dtype::q5_k:
      return q5_k(from, to);
    case Dtype::q6_k:
      return q6_k(from, to);
  }
}

}  // namespace

const StorageBlock& block_of(Dtype dtype) { return kBlocks.at(static_cast<std::size_t>(dtype)); }

std::optional<std::int64_t> bytes_of(Dtype dtype, std::span<const std::int64_t> shape) {
  const StorageBlock& block = block_of(dtype);
  const std::int64_t row = shape.empty() ? 1 : shape.back();
  if (row % block.numbers != 0) return std::nullopt;
  std::int64_t bytes = block.bytes;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::int64_t extent = i + 1 == shape.size() ? row / block.numbers : shape[i];
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return std::nullopt;
  }
  return bytes;
}

void widen(Dtype dtype, std::span<const std::byte> from, std::span<float> to) {
  const StorageBlock& block = block_of(dtype);
  const auto numbers = static_cast<std::size_t>(block.numbers);
  const auto bytes = static_cast<std::size_t>(block.bytes);
  require(to.size() % numbers == 0 && from.size() == to.size() / numbers * bytes,
          "as many bytes as the numbers take");
  for (std::size_t i = 0; i < to.size() / numbers; ++i) {
    widen_block(dtype, from.data() + i * bytes, to.data() + i * numbers);
  }
}

}  // namespace kvcheck
