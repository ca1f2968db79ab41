// SPDX-License-Identifier: MIT
// How a prefix is cut into feeds.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvcheck {

using Schedule = std::vector<int>;  // feed lengths, each at least 1; their sum is the prefix length

// "2+1+1"
[[nodiscard]] std::string to_text(const Schedule& schedule);
// Throws Error naming `where` for anything that to_text() does not write.
[[nodiscard]] Schedule parse_schedule(std::string_view text, std::string_view where);

[[nodiscard]] Schedule decode_schedule(int length);  // one token at a time
[[nodiscard]] Schedule single_schedule(int length);  // everything at once

// Which schedules of a prefix are run.
enum class ScheduleChoice {
  standard,  // all cuts up to kAllCutsLengthMax tokens, beyond that decode and single
  decode,
  single,
  all,
};
inline constexpr int kAllCutsLengthMax = 6;  // 2^5 = 32 schedules
// Longest prefix whose 2^(n-1) schedules `all` may ask for.
inline constexpr int kAllLengthMax = 16;

// Throws Error when `all` is asked of prefixes beyond kAllLengthMax.
void require_schedulable(ScheduleChoice choice, int length);
[[nodiscard]] std::vector<Schedule> all_schedules(int length);
// Of a prefix that require_schedulable() takes.
[[nodiscard]] std::vector<Schedule> schedules_of(ScheduleChoice choice, int length);

}  // namespace kvcheck
