// SPDX-License-Identifier: MIT
// The order of badness, and the listing as it is printed.
#include "reports/worst.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "reports/test_records.h"

namespace kvcheck {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

PrefixRow row_of(std::int64_t index, Verdict verdict, std::optional<double> ratio,
                 std::optional<double> difference) {
  PrefixRow row = prefix_row(diverging_record(), "kvcheck repro kv1:x");
  row.index = index;
  row.verdict = verdict;
  row.ratio = ratio;
  row.max_abs_difference = difference;
  return row;
}

std::vector<std::int64_t> order_of(const std::vector<PrefixRow>& rows) {
  WorstRows<PrefixRow> worst;
  for (const PrefixRow& row : rows) worst.add(row);
  std::vector<std::int64_t> order;
  for (const PrefixRow& row : worst.checks().at(0).rows) order.push_back(row.index);
  return order;
}

using Order = std::vector<std::int64_t>;

TEST(WorstRows, the_verdict_comes_first) {
  EXPECT_EQ(order_of({row_of(1, Verdict::agree, 20, 1), row_of(2, Verdict::gave_up, 9, 1),
                      row_of(3, Verdict::diverge, {}, 1e-9), row_of(4, Verdict::broken, {}, {})}),
            (Order{3, 4, 2, 1}));
}

TEST(WorstRows, then_the_ratio_or_else_the_difference) {
  EXPECT_EQ(order_of({row_of(1, Verdict::agree, 2, 100), row_of(2, Verdict::agree, 3, 0.1),
                      row_of(3, Verdict::agree, {}, 2.5), row_of(4, Verdict::agree, {}, {})}),
            (Order{2, 3, 1, 4}));
}

TEST(WorstRows, what_is_not_finite_is_worse_than_every_number) {
  EXPECT_EQ(
      order_of({row_of(1, Verdict::diverge, 1e308, 1), row_of(2, Verdict::diverge, kNan, 1),
                row_of(3, Verdict::diverge, kInfinity, 1), row_of(4, Verdict::diverge, 1, kNan),
                row_of(5, Verdict::diverge, {}, kInfinity)}),
      (Order{2, 3, 4, 5, 1}));
}

TEST(WorstRows, equal_ones_stand_by_case_whatever_the_order_of_the_file) {
  std::vector<PrefixRow> rows;
  for (std::int64_t index : {3, 1, 2}) rows.push_back(row_of(index, Verdict::agree, kNan, 1));
  EXPECT_EQ(order_of(rows), (Order{1, 2, 3}));
  PrefixRow other = row_of(1, Verdict::agree, 1, 1);
  other.model = "a model";
  const PrefixRow one = row_of(1, Verdict::agree, 1, 1);
  EXPECT_TRUE(is_worse(other, one));
  EXPECT_FALSE(is_worse(one, other));
  EXPECT_FALSE(is_worse(one, one));
  other.index = 2;
  EXPECT_TRUE(is_worse(one, other)) << "the case comes before the model";
}

TEST(WorstRows, only_the_worst_are_kept_and_all_are_counted) {
  WorstRows<PrefixRow> worst(2);
  for (int i = 0; i < 5; ++i) worst.add(row_of(i, Verdict::agree, i, 1));
  ASSERT_EQ(worst.checks().size(), 1U);
  EXPECT_EQ(worst.checks()[0].cases, 5);
  ASSERT_EQ(worst.checks()[0].rows.size(), 2U);
  EXPECT_EQ(worst.checks()[0].rows[0].index, 4);
  EXPECT_EQ(worst.checks()[0].rows[1].index, 3);
}

TEST(WorstRows, ten_are_shown) {
  WorstRows<PrefixRow> worst;
  for (int i = 0; i < 20; ++i) worst.add(row_of(i, Verdict::agree, i, 1));
  EXPECT_EQ(worst.checks()[0].rows.size(), 10U);
}

TEST(WorstListing, gives_every_case_with_its_command) {
  WorstRows<PrefixRow> worst;
  worst.add(row_of(3, Verdict::agree, 0.42, 1e-6));
  worst.add(prefix_row(broken_record(), "kvcheck repro kv1:y"));
  worst.add(row_of(7, Verdict::diverge, 12500, 0.03125));
  PrefixRow exact = row_of(9, Verdict::diverge, {}, kNan);
  exact.arithmetic = Arithmetic::row;
  exact.reproduce = "";
  worst.add(exact);
  EXPECT_EQ(worst_listing(worst.checks()),
            "all-prefixes: worst 3 of 3 cases\n"
            "  diverge  case 9 of chapter8 (row f32), tokens 0 2 4 fed 2+1: nan at position 2, "
            "token 5\n"
            "  diverge  case 7 of chapter8 (matrix f32), tokens 0 2 4 fed 2+1: 0.0312 at position "
            "2, token 5, ratio 1.25e+04\n"
            "    kvcheck repro kv1:x\n"
            "  agree  case 3 of chapter8 (matrix f32), tokens 0 2 4 fed 2+1: 1e-06 at position 2, "
            "token 5, ratio 0.42\n"
            "    kvcheck repro kv1:x\n"
            "causality: worst 1 of 1 cases\n"
            "  broken  case 8 of chapter8 (matrix f32), tokens 0 [crash]\n"
            "    kvcheck repro kv1:y\n");
  EXPECT_EQ(worst_listing(WorstRows<PrefixRow>().checks()), "");
}

TEST(WorstListing, of_operations_says_where_they_failed) {
  WorstRows<OperationRow> worst;
  OperationRow agreeing = operation_row(operations_record(), "");
  agreeing.verdict = Verdict::agree;
  agreeing.number = 1;
  worst.add(agreeing);
  worst.add(operation_row(operations_record(), "kvcheck repro kv1:o"));
  CaseRecord broken = operations_record();
  broken.result = {.verdict = Verdict::broken, .mark = Mark::crash, .step = 0};
  worst.add(operation_row(broken, ""));
  EXPECT_EQ(worst_listing(worst.checks()),
            "operations: worst 3 of 3 cases\n"
            "  diverge  case 3 of gen:plain:1 (paged:2, matrix f32), open.feed:0x3: 0.0312 at "
            "operation 2, position 2, ratio 1.25e+04\n"
            "    kvcheck repro kv1:o\n"
            "  broken  case 3 of gen:plain:1 (paged:2, matrix f32), open.feed:0x3 [crash]: "
            "operation 1\n"
            "  agree  case 1 of gen:plain:1 (paged:2, matrix f32), open.feed:0x3: 0.0312 at "
            "operation 2, position 2, ratio 1.25e+04\n");
}

TEST(WorstRows, of_equal_operations_stand_by_case_then_by_kind_of_cache) {
  OperationRow first = operation_row(operations_record(), "");
  OperationRow second = first;
  second.cache_kind = "ring";
  EXPECT_TRUE(is_worse(first, second));
  EXPECT_FALSE(is_worse(second, first));
  first.number = 9;
  EXPECT_TRUE(is_worse(second, first));
}

TEST(WorstListing, control_characters_from_a_file_do_not_reach_the_terminal) {
  PrefixRow row = row_of(1, Verdict::agree, 1, 1);
  row.model = "\x1b[2J";
  row.reproduce = "\x1b[2J";
  const std::string text = worst_listing({WorstOfCheck<PrefixRow>{"\x1b", 1, {row}}});
  EXPECT_EQ(text.find('\x1b'), text.npos);
}

}  // namespace
}  // namespace kvcheck
