// SPDX-License-Identifier: MIT
// The table as it is printed.
#include "reports/check_table.h"

#include <gtest/gtest.h>

#include <limits>
#include <sstream>

#include "reports/test_records.h"

namespace kvcheck {
namespace {

const std::vector<std::string> kWords{"<bos>", "<eos>", "the", "a", "cat", "dog", "sat", "ran"};

TEST(CheckTable, is_aligned) {
  CheckSummary agreeing = agreeing_check();
  agreeing.worst_difference = diverging_record();
  agreeing.worst_difference->result.row->max_abs_difference = 0;
  const std::vector<TableRow> rows{table_row(diverging_check(), kWords),
                                   table_row(agreeing, kWords)};
  EXPECT_EQ(
      check_table(rows),
      "check            model     arithmetic  prefixes  logits   worst  in prefix      pos  token  "
      "         ratio  kappa         float64    time  verdict\n"
      "all-prefixes     chapter8  matrix            11   1,234  0.0312  <bos> the cat    2      5  "
      "1.25e+04 of 30    3.5  0.0312 diverge  250 ms  diverge, 2 gated\n"
      "corpus-prefixes  chapter8  row               11     240       0  -                -      -  "
      "             -      -               -   16 ms  agree\n");
}

TEST(CheckTable, without_rows_is_its_header) {
  EXPECT_EQ(check_table({}),
            "check  model  arithmetic  prefixes  logits  worst  in prefix  pos  token  ratio  "
            "kappa  float64  time  verdict\n");
}

TEST(CheckTable, usual_lines_fit_150_columns) {
  TableRow row = table_row(diverging_check(), kWords);
  row.check = "corpus-prefixes";
  row.model = "20 generated";
  row.prefixes = 4680;
  row.logits = 149760;
  row.worst_difference = 2.8611e-6;
  row.worst_ratio = 0.42;
  row.prefix = "<bos> the cat sat";
  row.float64 = InFloat64{Verdict::agree, 4.44e-15};
  row.gated = 0;
  std::istringstream table(check_table({&row, 1}));
  for (std::string line; std::getline(table, line);) EXPECT_LE(line.size(), 150U) << line;
}

TEST(CheckTable, alignment_counts_characters_and_controls_are_shown) {
  TableRow row;
  row.check = "é\x1b";
  row.model = "m";
  EXPECT_EQ(check_table({&row, 1}),
            "check  model  arithmetic  prefixes  logits  worst  in prefix  pos  token  ratio  "
            "kappa  float64    time  verdict\n"
            "é\\x1b  m      -                  0       0      -  -            -      -      -  "
            "    -        -  0.0 ms  gave-up\n");
}

TEST(TableRow, leaves_out_what_was_not_compared) {
  CheckSummary summary = agreeing_check();
  EXPECT_EQ(table_row(summary, kWords).worst_difference, std::nullopt);
  summary.worst_difference = broken_record();
  EXPECT_EQ(table_row(summary, kWords).worst_difference, std::nullopt);
  EXPECT_EQ(table_row(summary, kWords).ratio_limit, std::nullopt);
}

TEST(TableRow, an_infinite_difference_has_a_place) {
  CheckSummary summary = diverging_check();
  summary.worst_difference->result.row->max_abs_difference =
      std::numeric_limits<double>::infinity();
  EXPECT_EQ(table_row(summary, kWords).position, 2);
}

TEST(TableRow, names_a_scalar_that_is_not_the_usual_one) {
  CheckSummary summary = diverging_check();
  summary.scalar = ScalarKind::f64;
  EXPECT_EQ(table_row(summary, kWords).arithmetic, "matrix f64");
}

TEST(TableRow, tells_of_the_worst_difference_how_ill_conditioned_it_is_and_what_float64_says) {
  CheckSummary summary = diverging_check();
  EXPECT_EQ(table_row(summary, kWords).kappa, 3.5);
  ASSERT_TRUE(table_row(summary, kWords).float64);
  EXPECT_EQ(table_row(summary, kWords).float64->difference, 0.03125);
  summary.worst_difference->result.row->max_abs_difference = 0;
  EXPECT_EQ(table_row(summary, kWords).kappa, std::nullopt);
  EXPECT_FALSE(table_row(summary, kWords).float64);
}

TEST(CheckTable, shows_a_number_alone_where_float64_agrees) {
  TableRow row;
  row.float64 = InFloat64{Verdict::agree, 4.44e-15};
  EXPECT_NE(check_table({&row, 1}).find("  4.44e-15  0.0 ms  gave-up\n"), std::string::npos);
  row.float64->verdict = Verdict::diverge;
  EXPECT_NE(check_table({&row, 1}).find("  4.44e-15 diverge  0.0 ms"), std::string::npos);
}

TEST(TableRow, of_operations_names_the_kind_of_cache_and_their_end) {
  CheckSummary summary = operations_check();
  summary.worst_difference = operations_record();
  summary.worst_difference->subject.operations =
      parse_operations("open.feed:0x3.fork:0.truncate:1x2.feed:1x4", "test");
  const TableRow row = table_row(summary, kWords);
  EXPECT_EQ(row.check, "operations paged:2");
  EXPECT_EQ(row.prefixes, 2);
  EXPECT_EQ(row.prefix, "...cate:1x2.feed:1x4");
  EXPECT_EQ(row.position, 2);
  summary.worst_difference->result.row->max_abs_difference = 0;
  EXPECT_EQ(table_row(summary, kWords).prefix, "");
}

TEST(OperationsText, keeps_the_end_of_a_long_sequence) {
  EXPECT_EQ(operations_text(parse_operations("open.feed:0x3", "test")), "open.feed:0x3");
  const std::string text = operations_text(Operations(100, Operation{Verb::open, {}, {}}));
  EXPECT_EQ(text, "...en.open.open.open");
  EXPECT_EQ(text.size(), kPrefixTextMax);
}

TEST(PrefixText, is_words_or_ids) {
  const std::vector<int> tokens{0, 2, 4};
  EXPECT_EQ(prefix_text(tokens, kWords), "<bos> the cat");
  EXPECT_EQ(prefix_text(tokens, {}), "0 2 4");
  EXPECT_EQ(prefix_text(std::vector<int>{-1, 8, 7}, kWords), "-1 8 ran");
  EXPECT_EQ(prefix_text({}, kWords), "");
}

TEST(PrefixText, keeps_the_end_of_a_long_prefix) {
  const std::vector<int> long_prefix(100, 12345);
  EXPECT_EQ(prefix_text(long_prefix, {}), "... 12345 12345");
  EXPECT_EQ(prefix_text(std::vector<int>(10, 7), {}), "... 7 7 7 7 7 7 7 7");
  EXPECT_EQ(prefix_text(std::vector<int>(9, 7), {}), "7 7 7 7 7 7 7 7 7");
}

TEST(PrefixText, shows_the_last_token_however_long_it_is) {
  const std::vector<std::string> words{"a", std::string(30, 'b')};
  EXPECT_EQ(prefix_text(std::vector<int>{0, 1}, words), "... " + std::string(30, 'b'));
  EXPECT_EQ(prefix_text(std::vector<int>{1}, words), std::string(30, 'b'));
}

}  // namespace
}  // namespace kvcheck
