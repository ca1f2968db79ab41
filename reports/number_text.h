// SPDX-License-Identifier: MIT
// Numbers for people.
#pragma once

#include <cstdint>
#include <string>

namespace kvcheck {

class Count;

[[nodiscard]] std::string grouped(std::int64_t number);  // 4,680
[[nodiscard]] std::string grouped(const Count& count);
[[nodiscard]] std::string three_digits(double number);    // 2.86e-06
[[nodiscard]] std::string ulps_text(std::uint64_t ulps);  // nan, as between a number and none
[[nodiscard]] std::string duration_text(double seconds);  // 12 ms

}  // namespace kvcheck
