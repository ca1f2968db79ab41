// SPDX-License-Identifier: MIT
// Encoding rows. Eigen's half and bfloat16 do the rounding.
#include "engine/row_format.h"

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace kvcheck {
namespace {

constexpr float kLargest = 127;  // of the magnitudes of a byte; -128 is not used

template <typename Stored, Scalar T>
void encode_as(std::span<const T> row, std::byte* to) {
  for (const T value : row) {
    const Stored stored(static_cast<float>(value));
    std::memcpy(to, &stored, sizeof stored);
    to += sizeof stored;
  }
}

template <typename Stored, Scalar T>
void decode_as(const std::byte* from, std::span<T> row) {
  for (T& value : row) {
    Stored stored;
    std::memcpy(&stored, from, sizeof stored);
    value = static_cast<T>(static_cast<float>(stored));
    from += sizeof stored;
  }
}

template <Scalar T>
void encode_int8(std::span<const T> row, std::byte* to) {
  float largest = 0;
  for (const T value : row) {
    const auto magnitude = static_cast<float>(std::abs(value));
    if (!(magnitude <= largest)) largest = magnitude;  // a NaN, once met, stays
    if (std::isnan(largest)) break;
  }
  const float scale =
      std::isfinite(largest) ? largest / kLargest : std::numeric_limits<float>::quiet_NaN();
  std::memcpy(to, &scale, sizeof scale);
  to += sizeof scale;
  for (const T value : row) {
    // The quotient may pass 127 by the rounding of the scale.
    const float steps = scale > 0 ? static_cast<float>(value) / scale : 0.0F;
    const auto stored =
        static_cast<std::int8_t>(std::lrint(std::clamp(steps, -kLargest, kLargest)));
    std::memcpy(to++, &stored, sizeof stored);
  }
}

template <Scalar T>
void decode_int8(const std::byte* from, std::span<T> row) {
  float scale = 0;
  std::memcpy(&scale, from, sizeof scale);
  from += sizeof scale;
  for (T& value : row) {
    std::int8_t stored = 0;
    std::memcpy(&stored, from++, sizeof stored);
    value = static_cast<T>(static_cast<float>(stored) * scale);
  }
}

}  // namespace

template <Scalar T>
std::int64_t row_bytes(RowFormat format, int scalars) {
  switch (format) {
    case RowFormat::native:
      return std::int64_t{scalars} * static_cast<std::int64_t>(sizeof(T));
    case RowFormat::bf16:
    case RowFormat::f16:
      return std::int64_t{scalars} * 2;
    case RowFormat::int8:
      return std::int64_t{scalars} + static_cast<std::int64_t>(sizeof(float));
  }
  return 0;
}

template <Scalar T>
void encode(RowFormat format, std::span<const T> row, std::byte* to) {
  switch (format) {
    case RowFormat::native:
      std::memcpy(to, row.data(), row.size_bytes());
      return;
    case RowFormat::bf16:
      return encode_as<Eigen::bfloat16>(row, to);
    case RowFormat::f16:
      return encode_as<Eigen::half>(row, to);
    case RowFormat::int8:
      return encode_int8(row, to);
  }
}

template <Scalar T>
void decode(RowFormat format, const std::byte* from, std::span<T> row) {
  switch (format) {
    case RowFormat::native:
      std::memcpy(row.data(), from, row.size_bytes());
      return;
    case RowFormat::bf16:
      return decode_as<Eigen::bfloat16>(from, row);
    case RowFormat::f16:
      return decode_as<Eigen::half>(from, row);
    case RowFormat::int8:
      return decode_int8(from, row);
  }
}

template <Scalar T>
void round_row(RowFormat format, std::span<T> row) {
  if (format == RowFormat::native) return;
  const auto bytes = static_cast<std::size_t>(row_bytes<T>(format, static_cast<int>(row.size())));
  // Noise floors round every row several times; rows of usual models need no memory for it.
  std::array<std::byte, 512> usual;
  std::vector<std::byte> long_row(bytes > usual.size() ? bytes : 0);
  std::byte* const stored = long_row.empty() ? usual.data() : long_row.data();
  encode<T>(format, row, stored);
  decode<T>(format, stored, row);
}

template std::int64_t row_bytes<float>(RowFormat, int);
template std::int64_t row_bytes<double>(RowFormat, int);
template void encode<float>(RowFormat, std::span<const float>, std::byte*);
template void encode<double>(RowFormat, std::span<const double>, std::byte*);
template void decode<float>(RowFormat, const std::byte*, std::span<float>);
template void decode<double>(RowFormat, const std::byte*, std::span<double>);
template void round_row<float>(RowFormat, std::span<float>);
template void round_row<double>(RowFormat, std::span<double>);

}  // namespace kvcheck
