// SPDX-License-Identifier: MIT
// The number types that a decoder computes in.
#pragma once

#include <concepts>
#include <string_view>

namespace kvcheck {

// Whatever adds, multiplies, divides and compares like a real number: float, double and long
// double, but also the differentiating and counting numbers of programs that only include the
// templates.
template <typename T>
concept Scalar = std::copyable<T> && requires(T a, T b) {
  { a + b } -> std::convertible_to<T>;
  { a* b } -> std::convertible_to<T>;
  { a / b } -> std::convertible_to<T>;
  { a < b } -> std::convertible_to<bool>;
};

// The scalars that a user can choose.
enum class ScalarKind { f32, f64 };

[[nodiscard]] constexpr std::string_view name(ScalarKind kind) {
  return kind == ScalarKind::f32 ? "f32" : "f64";
}

// The next wider scalar, in which the noise floor's reference is computed.
template <typename T>
struct WiderOf;
template <>
struct WiderOf<float> {
  using Type = double;
};
template <>
struct WiderOf<double> {
  using Type = long double;  // 80 bits on x86-64
};
template <typename T>
using Wider = typename WiderOf<T>::Type;

// In which order the engine adds up.
//   row:    every output row by the same operations in one stated order, whatever the number of
//   rows,
//           so that a cached and an uncached row must agree to the last bit;
//   matrix: whole-matrix products, as shipped engines compute: rows differ by rounding.
enum class Arithmetic { row, matrix };

[[nodiscard]] constexpr std::string_view name(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::row ? "row" : "matrix";
}

}  // namespace kvcheck
