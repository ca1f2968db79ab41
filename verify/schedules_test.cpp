// SPDX-License-Identifier: MIT
// All ways to cut a prefix, each once, and their text.
#include "verify/schedules.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "engine/test_support.h"

namespace kvcheck {
namespace {

int sum(const Schedule& schedule) { return std::accumulate(schedule.begin(), schedule.end(), 0); }

TEST(Schedules, all_cuts_of_three) {
  const std::vector<Schedule> found = all_schedules(3);
  EXPECT_EQ(std::set<Schedule>(found.begin(), found.end()),
            (std::set<Schedule>{{3}, {1, 2}, {2, 1}, {1, 1, 1}}));
}

TEST(Schedules, a_prefix_of_n_has_two_to_the_n_minus_one_and_all_feed_all_of_it) {
  for (int length = 1; length <= 12; ++length) {
    const std::vector<Schedule> found = all_schedules(length);
    EXPECT_EQ(found.size(), std::size_t{1} << static_cast<unsigned>(length - 1));
    EXPECT_EQ(std::set<Schedule>(found.begin(), found.end()).size(), found.size());
    for (const Schedule& schedule : found) {
      EXPECT_EQ(sum(schedule), length);
      EXPECT_GE(*std::ranges::min_element(schedule), 1);
    }
  }
}

TEST(Schedules, decode_and_single_are_the_ends) {
  EXPECT_EQ(decode_schedule(3), (Schedule{1, 1, 1}));
  EXPECT_EQ(single_schedule(3), (Schedule{3}));
  EXPECT_EQ(decode_schedule(1), single_schedule(1));
}

TEST(Schedules, standard_is_all_up_to_six_tokens_then_single_and_decode) {
  EXPECT_EQ(schedules_of(ScheduleChoice::standard, 1).size(), 1U);
  EXPECT_EQ(schedules_of(ScheduleChoice::standard, 6).size(), 32U);
  EXPECT_EQ(schedules_of(ScheduleChoice::standard, 7),
            (std::vector<Schedule>{{7}, {1, 1, 1, 1, 1, 1, 1}}));
  EXPECT_EQ(schedules_of(ScheduleChoice::standard, 64).size(), 2U);
}

TEST(Schedules, a_choice_of_one_gives_one) {
  EXPECT_EQ(schedules_of(ScheduleChoice::decode, 2), (std::vector<Schedule>{{1, 1}}));
  EXPECT_EQ(schedules_of(ScheduleChoice::single, 9), (std::vector<Schedule>{{9}}));
}

TEST(Schedules, all_has_an_end) {
  EXPECT_EQ(schedules_of(ScheduleChoice::all, 7).size(), 64U);
  EXPECT_EQ(schedules_of(ScheduleChoice::all, kAllLengthMax).size(), 32768U);
  EXPECT_EQ(error_of([] { (void)schedules_of(ScheduleChoice::all, kAllLengthMax + 1); }),
            "--schedules all: prefix too long, expected at most 16 tokens, got 17");
}

TEST(Schedules, are_written_with_plus_signs) {
  EXPECT_EQ(to_text(Schedule{2, 1, 10}), "2+1+10");
  EXPECT_EQ(parse_schedule("2+1+10", "x"), (Schedule{2, 1, 10}));
  EXPECT_EQ(parse_schedule("7", "x"), Schedule{7});
}

TEST(Schedules, anything_else_is_an_error) {
  for (const char* text : {"", "+", "2+", "+2", "2++1", "0", "2+0", "-1", "2-1", "2 + 1", " 2",
                           "2 ", "2,1", "x", "2+x", "1.5", "99999999999", "2+1\n"}) {
    const std::string expected =
        std::string("x: schedule, expected feed lengths joined by +, as 2+1, got ");
    const std::string error = error_of([&] { (void)parse_schedule(text, "x"); });
    EXPECT_TRUE(error.starts_with(expected)) << text << ": " << error;
  }
  EXPECT_EQ(error_of([] { (void)parse_schedule("2+0", "token"); }),
            "token: schedule, expected feed lengths joined by +, as 2+1, got 2+0");
}

RC_GTEST_PROP(Schedules, are_read_as_they_were_written, ()) {
  const auto schedule = *rc::gen::nonEmpty(rc::gen::container<Schedule>(
      rc::gen::element(1, 2, 9, 10, 1024, std::numeric_limits<int>::max())));
  RC_ASSERT(parse_schedule(to_text(schedule), "x") == schedule);
}

}  // namespace
}  // namespace kvcheck
