// SPDX-License-Identifier: MIT
// The lines below the table.
#include "reports/operations_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/test_records.h"

namespace kvcheck {
namespace {

using testing::HasSubstr;

TEST(CoverageText, is_empty_where_no_operations_were_run) {
  const CheckSummary checks[] = {diverging_check(), agreeing_check()};
  EXPECT_EQ(coverage_text(checks), "");
  EXPECT_EQ(coverage_text({}), "");
}

// What one kind of cache did not reach, another one may have.
TEST(CoverageText, adds_up_and_names_what_no_check_reached) {
  CheckSummary one = operations_check();
  one.coverage->verbs[static_cast<std::size_t>(Verb::open)] = 2;
  one.not_covered = {"fork", "feed", "open.feed", "at-window"};
  CheckSummary other = one;
  other.coverage->verbs[static_cast<std::size_t>(Verb::feed)] = 1;
  other.not_covered = {"fork", "at-window"};
  const CheckSummary checks[] = {one, diverging_check(), other};
  const std::string text = coverage_text(checks);
  EXPECT_THAT(text, HasSubstr("operations paged:2: 12 of them in 4 sequences; 2 of 3 verbs, 0 of 1 "
                              "pairs, 0 of 1 edges, not fork, "));
  EXPECT_THAT(text, HasSubstr("at-window"));
  EXPECT_EQ(text.back(), '\n');
}

TEST(CoverageText, has_a_line_for_each_kind_and_says_what_was_refused_or_reused) {
  CheckSummary flat = operations_check();
  flat.cache_kind = {};
  CheckSummary ring = flat;
  ring.cache_kind = {.layout = CacheLayout::ring};
  ring.counts.refused = 3;
  CheckSummary paged = flat;
  paged.cache_kind = {.layout = CacheLayout::paged, .block = 2};
  paged.counts.reused = 1234;
  CheckSummary idle = paged;
  idle.cache_kind.block = 4;
  idle.counts.reused = 0;
  const CheckSummary checks[] = {flat, ring, paged, idle};
  const std::string text = coverage_text(checks);
  EXPECT_THAT(text, HasSubstr("operations flat: "));
  EXPECT_THAT(text, HasSubstr("; 3 roll backs refused\noperations paged:2: "));
  EXPECT_THAT(text, HasSubstr("; 1,234 rows reused by prompts\noperations paged:4: "));
  EXPECT_THAT(text, HasSubstr("; no prompt reused a row, so reuse was not put to the test\n"));
}

TEST(LossText, has_a_line_for_each_kind_that_rounds) {
  CheckSummary first = operations_check();
  first.cache_kind = {.format = RowFormat::int8};
  first.loss = Loss{.rows = 3, .same_choice = 3, .max_abs_difference = 0.5, .max_divergence = 1e-3};
  CheckSummary second = first;
  second.loss = Loss{.rows = 1, .same_choice = 0, .max_abs_difference = 0.25, .max_divergence = 2};
  const CheckSummary checks[] = {first, operations_check(), second};
  EXPECT_EQ(loss_text(checks),
            "int8 rows: logits differ from unrounded ones by at most 0.5, divergence at most 2 "
            "nats, the same token is largest in 75.00 % of 4 rows\n");
  EXPECT_EQ(loss_text({}), "");
}

}  // namespace
}  // namespace kvcheck
