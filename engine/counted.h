// SPDX-License-Identifier: MIT
// A number that counts: in the engine, a template over its scalar, it computes as a double does and
// notes every operation. Row arithmetic only.
#pragma once

#include <Eigen/Core>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <span>

#include "engine/row_format.h"

namespace kvcheck {

// Operations on numbers. Comparisons, changes of sign and conversions are none.
struct OperationCounts {
  std::uint64_t multiplications = 0;
  std::uint64_t additions = 0;  // and subtractions
  std::uint64_t others = 0;     // divisions, square roots, exponentials, hyperbolic tangents

  bool operator==(const OperationCounts&) const = default;
  [[nodiscard]] std::uint64_t all() const { return multiplications + additions + others; }
  friend OperationCounts operator-(const OperationCounts& a, const OperationCounts& b) {
    return {a.multiplications - b.multiplications, a.additions - b.additions, a.others - b.others};
  }
};

class Counted {
 public:
  constexpr Counted() = default;
  template <typename N>
  requires std::integral<N> || std::floating_point<N>
  constexpr Counted(N value)
      : value_(static_cast<double>(value)) {}  // NOLINT: a constant, as double(1) is

  // Those of this thread so far.
  static OperationCounts& operations() {
    thread_local OperationCounts so_far;
    return so_far;
  }

  [[nodiscard]] constexpr double value() const { return value_; }

  friend Counted operator+(Counted a, Counted b) { return sum(a.value_ + b.value_); }
  friend Counted operator-(Counted a, Counted b) { return sum(a.value_ - b.value_); }
  friend Counted operator*(Counted a, Counted b) {
    ++operations().multiplications;
    return {a.value_ * b.value_};
  }
  friend Counted operator/(Counted a, Counted b) { return other(a.value_ / b.value_); }
  friend Counted operator-(Counted a) { return {-a.value_}; }
  Counted& operator+=(Counted b) { return *this = *this + b; }
  Counted& operator-=(Counted b) { return *this = *this - b; }
  Counted& operator*=(Counted b) { return *this = *this * b; }
  Counted& operator/=(Counted b) { return *this = *this / b; }

  friend bool operator<(Counted a, Counted b) { return a.value_ < b.value_; }
  friend bool operator==(Counted a, Counted b) { return a.value_ == b.value_; }

  friend Counted sqrt(Counted a) { return other(std::sqrt(a.value_)); }
  // Those of row arithmetic, so that a counting engine gives the bits of a float64 one.
  friend Counted exp(Counted a);
  friend Counted tanh(Counted a);

 private:
  static Counted sum(double value) {
    ++operations().additions;
    return {value};
  }
  static Counted other(double value) {
    ++operations().others;
    return {value};
  }

  double value_ = 0.0;
};

Counted exp(Counted a);
Counted tanh(Counted a);

// Rows of counting numbers are stored as they are; any other format is a mistake.
template <>
std::int64_t row_bytes<Counted>(RowFormat format, int scalars);
template <>
void encode<Counted>(RowFormat format, std::span<const Counted> row, std::byte* to);
template <>
void decode<Counted>(RowFormat format, const std::byte* from, std::span<Counted> row);

}  // namespace kvcheck

template <>
struct Eigen::NumTraits<kvcheck::Counted> : Eigen::GenericNumTraits<kvcheck::Counted> {
  // NOLINTNEXTLINE(readability-identifier-naming): Eigen's names
  enum { IsComplex = 0, IsInteger = 0, IsSigned = 1, RequireInitialization = 1 };
};
