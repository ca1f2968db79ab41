// SPDX-License-Identifier: MIT
// What is said of invariants that hold, that do not, and that nobody looked at.
#include "reports/invariants_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>

namespace kvcheck {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

InvariantCounts all_hold() {
  InvariantCounts counts;
  for (std::size_t i = 0; i < invariants().size(); ++i) counts.add(i, true, 1234567);
  return counts;
}

TEST(InvariantsText, names_all_that_hold_on_lines_of_a_readable_length) {
  const std::string text = invariants_text(all_hold());
  EXPECT_THAT(text, StartsWith("invariants: 28 hold, checked so often: rows-answered 1,234,567,"));
  EXPECT_EQ(text.find("not looked at"), text.npos);
  for (const InvariantRow& row : invariants()) EXPECT_THAT(text, HasSubstr(std::string(row.id)));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 120U) << line;
}

TEST(InvariantsText, says_what_is_violated_first_and_what_nobody_looked_at_last) {
  InvariantCounts counts;
  counts.add(index_of(Invariant::length), true, 7);
  counts.add(index_of(Invariant::slots), true, 3);
  counts.add(index_of(Invariant::slots), false);
  EXPECT_THAT(
      invariants_text(counts),
      StartsWith("invariant slots-distinct violated 1 of 4 times: no two rows of a sequence "
                 "lie in one slot\n"
                 "invariants: 1 hold, checked so often: length-is-consumed 7\n"
                 "not looked at: rows-answered, next-position-is-length, "));
  EXPECT_EQ(invariants_text({}), "invariants: none is looked at by these checks\n");
}

TEST(InvariantsText, lists_each_with_its_claim_and_its_checks) {
  const std::string text = invariants_list();
  EXPECT_EQ(std::ranges::count(text, '\n'), 2 * static_cast<int>(invariants().size()));
  EXPECT_THAT(text, StartsWith("rows-answered            a feed answers one row of logits for each "
                               "token\n"
                               "                           accounting\n"));
}

}  // namespace
}  // namespace kvcheck
