// SPDX-License-Identifier: MIT
// Cutting prefixes into feeds, and writing the cuts down.
#include "verify/schedules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>

#include "engine/error.h"

namespace kvcheck {

std::string to_text(const Schedule& schedule) {
  return fmt::format("{}", fmt::join(schedule, "+"));
}

Schedule parse_schedule(std::string_view text, std::string_view where) {
  Schedule schedule;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    int length = 0;
    const auto [next, error] = std::from_chars(at, end, length);
    if (error != std::errc() || length < 1 || (next != end && *next != '+')) {
      throw bad_input({where, "schedule", "feed lengths joined by +, as 2+1", text});
    }
    schedule.push_back(length);
    if (next == end) return schedule;
    at = next + 1;
  }
}

Schedule decode_schedule(int length) { return Schedule(static_cast<std::size_t>(length), 1); }

Schedule single_schedule(int length) { return {length}; }

std::vector<Schedule> all_schedules(int length) {
  std::vector<Schedule> found;
  // Bit i of `cuts`: a new feed begins after token i.
  for (unsigned cuts = 0; cuts < 1U << (length - 1); ++cuts) {
    Schedule schedule{1};
    for (int i = 0; i + 1 < length; ++i) {
      if ((cuts >> i & 1U) != 0) {
        schedule.push_back(1);
      } else {
        ++schedule.back();
      }
    }
    found.push_back(std::move(schedule));
  }
  return found;
}

void require_schedulable(ScheduleChoice choice, int length) {
  if (choice != ScheduleChoice::all || length <= kAllLengthMax) return;
  throw bad_input({"--schedules all", "prefix too long",
                   fmt::format("at most {} tokens", kAllLengthMax), fmt::format("{}", length)});
}

std::vector<Schedule> schedules_of(ScheduleChoice choice, int length) {
  if (choice == ScheduleChoice::decode) return {decode_schedule(length)};
  if (choice == ScheduleChoice::single) return {single_schedule(length)};
  require_schedulable(choice, length);
  if (choice == ScheduleChoice::all || length <= kAllCutsLengthMax) return all_schedules(length);
  return {single_schedule(length), decode_schedule(length)};
}

}  // namespace kvcheck
