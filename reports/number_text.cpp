// SPDX-License-Identifier: MIT
// Spells counts, measured values and durations.
#include "reports/number_text.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>

#include "engine/cost.h"

namespace kvcheck {

namespace {

// `first`: of the digits.
std::string grouped(std::string text, std::size_t first) {
  for (std::size_t at = text.size(); at > first + 3;) text.insert(at -= 3, ",");
  return text;
}

}  // namespace

std::string grouped(std::int64_t number) {
  return grouped(fmt::format("{}", number), number < 0 ? 1 : 0);
}

std::string grouped(const Count& count) { return grouped(count.digits(), 0); }

std::string three_digits(double number) {
  return std::isnan(number) ? "nan" : fmt::format("{:.3g}", number);
}

std::string ulps_text(std::uint64_t ulps) {
  constexpr std::uint64_t kOfNan = std::numeric_limits<std::uint64_t>::max();
  return ulps == kOfNan ? "nan" : fmt::format("{}", ulps);
}

std::string duration_text(double seconds) {
  if (seconds < 0.00995) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (seconds < 0.9995) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 99.95) return fmt::format("{:.1f} s", seconds);
  return fmt::format("{:.0f} s", seconds);
}

}  // namespace kvcheck
