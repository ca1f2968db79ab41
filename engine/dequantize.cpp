// SPDX-License-Identifier: MIT
// Widening stored numbers. A scale of 11 bits times a number of 8 bits is a float exactly.
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

constexpr std::array kBlocks{StorageBlock{"F64", 1, 8},        StorageBlock{"F32", 1, 4},
                             StorageBlock{"F16", 1, 2},        StorageBlock{"BF16", 1, 2},
                             StorageBlock{"Q8_0", kBlock, 34}, StorageBlock{"Q4_0", kBlock, 18},
                             StorageBlock{"Q4_1", kBlock, 20}};

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
