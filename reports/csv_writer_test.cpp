// SPDX-License-Identifier: MIT
// The spelling of cells and lines.
#include "reports/csv_writer.h"

#include <gtest/gtest.h>

#include <limits>

namespace kvcheck {
namespace {

using Limits = std::numeric_limits<double>;

template <typename T>
std::string cell(const T& value) {
  std::string line;
  append_cell(line, value);
  return line;
}

std::string text_cell(std::string_view text) { return cell(text); }

TEST(CsvWriter, numbers_are_in_shortest_form) {
  EXPECT_EQ(cell(0.1), "0.1");
  EXPECT_EQ(cell(1.0), "1");
  EXPECT_EQ(cell(-0.0), "-0");
  EXPECT_EQ(cell(1e-5), "1e-05");
  EXPECT_EQ(cell(double{0.1F}), "0.10000000149011612");
  EXPECT_EQ(cell(Limits::denorm_min()), "5e-324");
  EXPECT_EQ(cell(-Limits::max()), "-1.7976931348623157e+308");
  EXPECT_EQ(cell(-Limits::min()), "-2.2250738585072014e-308");
  EXPECT_EQ(cell(std::numeric_limits<std::int64_t>::min()), "-9223372036854775808");
  EXPECT_EQ(cell(std::numeric_limits<std::uint64_t>::max()), "18446744073709551615");
}

TEST(CsvWriter, what_is_not_finite_is_spelled_out) {
  EXPECT_EQ(cell(Limits::quiet_NaN()), "nan");
  EXPECT_EQ(cell(-Limits::quiet_NaN()), "nan");
  EXPECT_EQ(cell(Limits::infinity()), "inf");
  EXPECT_EQ(cell(-Limits::infinity()), "-inf");
}

TEST(CsvWriter, what_does_not_apply_is_empty) {
  EXPECT_EQ(cell(std::optional<double>()), "");
  EXPECT_EQ(cell(std::optional(2.5)), "2.5");
  EXPECT_EQ(cell(Mark::none), "");
  EXPECT_EQ(cell(Mark::gated), "gated");
}

TEST(CsvWriter, text_is_quoted_only_where_it_must_be) {
  EXPECT_EQ(text_cell(""), "");
  EXPECT_EQ(text_cell("0 2 4"), "0 2 4");
  EXPECT_EQ(text_cell("é;'#"), "é;'#");
  EXPECT_EQ(text_cell("a,b"), "\"a,b\"");
  EXPECT_EQ(text_cell("\""), "\"\"\"\"");
  EXPECT_EQ(text_cell("say \"so\""), "\"say \"\"so\"\"\"");
  EXPECT_EQ(text_cell(" a"), "\" a\"");
  EXPECT_EQ(text_cell("a\t"), "\"a\t\"");
}

TEST(CsvWriter, line_breaks_and_nul_become_blanks) {
  EXPECT_EQ(text_cell(std::string_view("a\nb\rc\0d", 7)), "a b c d");
  EXPECT_EQ(text_cell("a\r\n"), "\"a  \"");
}

struct Pet {
  std::string name;
  std::int64_t legs = 4;
  std::optional<double> weight;
  Verdict verdict = Verdict::agree;
};
constexpr auto kPetColumns = std::to_array<Column<Pet>>({{"name", &Pet::name},
                                                         {"legs", &Pet::legs},
                                                         {"weight, kg", &Pet::weight},
                                                         {"verdict", &Pet::verdict}});

TEST(CsvWriter, lines_follow_the_table_of_columns) {
  EXPECT_EQ(csv_header(kPetColumns), "name,legs,\"weight, kg\",verdict\n");
  EXPECT_EQ(csv_line(kPetColumns, Pet{"cat, fat", 4, 7.5, Verdict::gave_up}),
            "\"cat, fat\",4,7.5,gave-up\n");
  EXPECT_EQ(csv_line(kPetColumns, Pet{}), ",4,,agree\n");
}

}  // namespace
}  // namespace kvcheck
