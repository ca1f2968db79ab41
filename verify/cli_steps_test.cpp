// SPDX-License-Identifier: MIT
// Steps as they are laid out.
#include "verify/cli_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace kvcheck {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr CacheKind kFlat{};
constexpr CacheKind kPaged{.layout = CacheLayout::paged, .block = 2};
constexpr CacheKind kLeft{.layout = CacheLayout::padded_left};

Operations operations_of(std::string_view text) { return parse_operations(text, "test"); }

SeenStep::Sequence sequence(int handle, std::vector<int> positions, std::vector<int> slots,
                            std::vector<int> blocks = {}) {
  const int rows = static_cast<int>(positions.size());
  const int next = positions.empty() ? 0 : positions.back() + 1;
  return {handle, {rows, next, 0}, {std::move(positions), std::move(slots), std::move(blocks)}};
}

MeasuredRow row_apart(int position, double difference) {
  MeasuredRow row;
  row.position = position;
  row.comparison.max_abs_difference = difference;
  row.comparison.same_bits = difference == 0;
  return row;
}

TEST(StepsText, has_a_line_for_each_step_and_each_further_sequence) {
  const Operations operations = operations_of("open.feed:0x3.batch:0x1-1x2.close:1.feed:0x1");
  const std::vector<ShownStep> steps{
      {0, {sequence(0, {}, {})}, 0, 0, {}, ""},
      {1, {sequence(0, {0, 1, 2}, {0, 1, 2})}, 3, 0, {}, ""},
      {2, {sequence(0, {0, 1, 5}, {0, 1, 4}), sequence(1, {0}, {0})}, 3, 0.25, 5, ""},
      {3, {}, 0, 0, {}, "rows of sequence 0 after close: expected 3, got 2"}};
  const CaseResult result{.verdict = Verdict::diverge, .step = 3};
  EXPECT_EQ(steps_text(operations, steps, kFlat, result),
            "step  operation      sequence  rows  next\n"
            "   1  open                  0     0     0\n"
            "   2  feed:0x3              0     3     3  3 rows compared, same bits\n"
            "   3  batch:0x1-1x2         0     3     6  positions 0-1,5; slots 0-1,4; 3 rows "
            "compared, largest difference 0.25 at position 5\n"
            "                            1     1     1\n"
            "   4  close:1\n"
            "      rows of sequence 0 after close: expected 3, got 2\n"
            "      1 further operation not run\n");
}

TEST(StepsText, names_blocks_of_pages_and_lanes_of_a_batch) {
  const Operations operations = operations_of("open");
  const std::vector<ShownStep> paged{
      {0, {sequence(0, {0, 1, 2}, {6, 7, 2}, {3, 1})}, 0, 0, {}, ""}};
  EXPECT_THAT(steps_text(operations, paged, kPaged, {}), HasSubstr("     3     3  blocks 3,1\n"));
  const std::vector<ShownStep> lanes{{0, {sequence(0, {0, 1}, {2, 3}, {1})}, 0, 0, {}, ""}};
  EXPECT_THAT(steps_text(operations, lanes, kLeft, {}),
              HasSubstr("     2     2  lane 1; slots 2-3\n"));
}

TEST(StepsText, tells_what_nothing_was_seen_of) {
  const Operations operations = operations_of("open.truncate:0x0.feed:0x1.feed:0x1");
  const std::vector<ShownStep> steps{{0, {sequence(0, {}, {})}, 0, 0, {}, ""},
                                     {2, {sequence(0, {0}, {0})}, 1, 0, {}, ""}};
  CaseResult result{.verdict = Verdict::broken, .step = 3, .note = "gone"};
  const std::string text = steps_text(operations, steps, kFlat, result);
  EXPECT_THAT(text, HasSubstr("   2  truncate:0x0                        left out: not valid "
                              "after the refusal\n"));
  EXPECT_THAT(text, HasSubstr("   4  feed:0x1                            engine failed\n"));
  result.verdict = Verdict::diverge;
  EXPECT_THAT(steps_text(operations, steps, kFlat, result), HasSubstr("  refused\n"));
}

TEST(StepsText, of_a_long_sequence_shows_both_ends) {
  Operations operations(1000, Operation{Verb::reset, {0}, {}});
  std::vector<ShownStep> steps;
  for (int i = 0; i < 1000; ++i) steps.push_back({i, {sequence(0, {}, {})}, 0, 0, {}, ""});
  const std::string text = steps_text(operations, steps, kFlat, {});
  EXPECT_EQ(std::ranges::count(text, '\n'), 52);  // a header, 10, what is left out, 40
  EXPECT_THAT(text, HasSubstr("      ... 950 steps ...\n"));
  EXPECT_THAT(text, HasSubstr("\n  10  reset:0"));
  EXPECT_THAT(text, HasSubstr("\n 961  reset:0"));
  EXPECT_THAT(text, HasSubstr("\n1000  reset:0"));
  EXPECT_THAT(text, Not(HasSubstr("\n 500  ")));
}

TEST(Steps, keep_the_largest_difference_and_where_it_lies) {
  const Operation feed{Verb::feed, {0}, {3}};
  const std::vector<MeasuredRow> rows{row_apart(0, 0), row_apart(1, 0.5), row_apart(2, 0.25)};
  Steps steps;
  steps.add({0, feed, {}, rows, ""});
  ASSERT_EQ(steps.shown().size(), 1U);
  EXPECT_EQ(steps.shown()[0].rows, 3U);
  EXPECT_EQ(steps.shown()[0].largest, 0.5);
  EXPECT_EQ(steps.shown()[0].position, 1);
}

TEST(Steps, a_nan_is_larger_than_everything) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Operation feed{Verb::feed, {0}, {3}};
  const std::vector<MeasuredRow> rows{row_apart(0, 1), row_apart(1, nan), row_apart(2, 2)};
  Steps steps;
  steps.add({0, feed, {}, rows, ""});
  EXPECT_EQ(steps.shown().at(0).position, 1);
}

// A case that float32 cannot decide is run again in float64.
TEST(Steps, a_second_run_replaces_the_first) {
  const Operation open{Verb::open, {}, {}};
  Steps steps;
  steps.add({0, open, {}, {}, ""});
  steps.add({1, open, {}, {}, ""});
  steps.add({0, open, {}, {}, "again"});
  ASSERT_EQ(steps.shown().size(), 1U);
  EXPECT_EQ(steps.shown()[0].note, "again");
}

}  // namespace
}  // namespace kvcheck
