// SPDX-License-Identifier: MIT
// Spells counts, measured values and durations.
#include "reports/number_text.h"

#include <fmt/format.h>

#include <cmath>

namespace kvcheck {

std::string grouped(std::int64_t number) {
  std::string text = fmt::format("{}", number);
  const std::size_t first = number < 0 ? 1 : 0;
  for (std::size_t at = text.size(); at > first + 3;) text.insert(at -= 3, ",");
  return text;
}

std::string three_digits(double number) {
  return std::isnan(number) ? "nan" : fmt::format("{:.3g}", number);
}

std::string duration_text(double seconds) {
  if (seconds < 0.00995) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (seconds < 0.9995) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 99.95) return fmt::format("{:.1f} s", seconds);
  return fmt::format("{:.0f} s", seconds);
}

}  // namespace kvcheck
