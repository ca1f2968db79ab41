// SPDX-License-Identifier: MIT
// The comparison of two rows of logits.
#include "verify/compare.h"

#include <bit>
#include <cmath>
#include <limits>

#include "engine/error.h"

namespace kvcheck {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Infinite unless both are finite (then their distance) or the same infinity (then 0).
double difference(double a, double b) {
  if (a == b) return 0;
  const double distance = std::abs(a - b);
  return std::isfinite(distance) ? distance : kInfinity;
}

// Maps the bit pattern of a finite or infinite number to an integer that grows with the number.
template <typename Bits, typename T>
std::int64_t ordered(T value) {
  using Signed = std::make_signed_t<Bits>;
  const auto bits = std::bit_cast<Signed>(value);
  return bits < 0 ? std::int64_t{std::numeric_limits<Signed>::min()} - bits : std::int64_t{bits};
}

template <typename Bits, typename T>
std::uint64_t ulps(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) {
    return std::isnan(a) && std::isnan(b) ? 0 : std::numeric_limits<std::uint64_t>::max();
  }
  const std::int64_t from = ordered<Bits>(a);
  const std::int64_t to = ordered<Bits>(b);
  const auto high = static_cast<std::uint64_t>(from > to ? from : to);
  return high - static_cast<std::uint64_t>(from > to ? to : from);  // wraps to the distance
}

}  // namespace

std::uint64_t ulps_between(double a, double b, ScalarKind scalar) {
  if (scalar == ScalarKind::f64) return ulps<std::uint64_t>(a, b);
  return ulps<std::uint32_t>(static_cast<float>(a), static_cast<float>(b));
}

RowComparison compare_rows(std::span<const double> uncached, std::span<const double> cached,
                           ScalarKind scalar) {
  require(!uncached.empty() && uncached.size() == cached.size(),
          "rows of one length, at least 1, are compared");
  RowComparison found;
  double top_uncached = -kInfinity;
  double top_cached = -kInfinity;
  for (std::size_t i = 0; i < uncached.size(); ++i) {
    const double u = uncached[i];
    const double c = cached[i];
    found.uncached_finite &= std::isfinite(u);
    found.cached_finite &= std::isfinite(c);
    found.same_bits &= u == c;
    // Seldom, and never missed for a NaN.
    if (!(std::abs(u - c) <= found.max_abs_difference)) {
      const double apart = difference(u, c);
      if (apart > found.max_abs_difference) {
        found.max_abs_difference = apart;
        found.token_at_max = static_cast<int>(i);
      }
    }
    // Chosen rather than branched to, which nobody could predict. A NaN is larger than nothing.
    const double size = std::abs(u);
    found.largest = size > found.largest ? size : found.largest;
    found.argmax_uncached = u > top_uncached ? static_cast<int>(i) : found.argmax_uncached;
    top_uncached = u > top_uncached ? u : top_uncached;
    found.argmax_cached = c > top_cached ? static_cast<int>(i) : found.argmax_cached;
    top_cached = c > top_cached ? c : top_cached;
  }
  const auto at = static_cast<std::size_t>(found.token_at_max);
  found.uncached = uncached[at];
  found.cached = cached[at];
  found.ulps = ulps_between(found.uncached, found.cached, scalar);
  return found;
}

}  // namespace kvcheck
