// SPDX-License-Identifier: MIT
// What is written is read back to the last bit; what is malformed is an Error that names its place.
#include "reports/csv_reader.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "engine/test_support.h"
#include "reports/csv_writer.h"

namespace kvcheck {
namespace {

struct Line {
  std::string text{};  // braces: g++ misses an initialiser otherwise
  std::optional<double> number{};
  std::int64_t count = 0;
  Verdict verdict = Verdict::agree;
  std::optional<std::uint64_t> large{};
};
constexpr auto kColumns = std::to_array<Column<Line>>({{"text", &Line::text},
                                                       {"number", &Line::number},
                                                       {"count", &Line::count},
                                                       {"verdict", &Line::verdict},
                                                       {"large", &Line::large}});

std::vector<Line> read_all(const std::filesystem::path& path) {
  CsvReader reader(path, kColumns);
  std::vector<Line> lines;
  while (std::optional<Line> line = reader.next()) lines.push_back(std::move(*line));
  return lines;
}

Line through_a_file(const Line& line) {
  const TemporaryFolder folder;
  write_bytes(folder / "f.csv", csv_header(kColumns) + csv_line(kColumns, line));
  const std::vector<Line> lines = read_all(folder / "f.csv");
  if (lines.size() != 1) throw std::logic_error("not one line");
  return lines.front();
}

std::vector<Line> read_text_as_csv(const std::string& text) {
  const TemporaryFolder folder;
  write_bytes(folder / "f.csv", text);
  return read_all(folder / "f.csv");
}

std::string error_on(const std::string& text) {
  const TemporaryFolder folder;
  write_bytes(folder / "f.csv", text);
  return error_in(folder, [&] { (void)read_all(folder / "f.csv"); });
}

// Any bits at all, and the values at the edges, which random bits do not meet.
rc::Gen<double> any_double() {
  using Limits = std::numeric_limits<double>;
  const auto bits = rc::gen::noShrink(rc::gen::resize(100, rc::gen::arbitrary<std::uint64_t>()));
  const auto any = rc::gen::map(bits, [](std::uint64_t b) { return std::bit_cast<double>(b); });
  const auto subnormal = rc::gen::map(
      bits, [](std::uint64_t b) { return std::bit_cast<double>(b & 0x800fffffffffffffU); });
  const auto special = rc::gen::element(
      0.0, -0.0, Limits::denorm_min(), -Limits::denorm_min(), Limits::min(),
      std::nextafter(Limits::min(), 0.0), Limits::max(), Limits::lowest(), Limits::infinity(),
      -Limits::infinity(), Limits::quiet_NaN(), -Limits::quiet_NaN(), Limits::signaling_NaN(),
      Limits::epsilon(), 0.1, 1.0 / 3, 9007199254740993.0);
  return rc::gen::oneOf(any, subnormal, special);
}

rc::Gen<std::string> any_text() {
  return rc::gen::map(rc::gen::container<std::vector<std::string>>(rc::gen::element<std::string>(
                          "a", "\"", ",", " ", "\t", "é", "漢", "\xF0\x9F\x90\x88", "nan", "'", ";",
                          "#", "\xEF\xBB\xBF", "\"\"", "\\n")),
                      [](const std::vector<std::string>& pieces) {
                        std::string text;
                        for (const std::string& piece : pieces) text += piece;
                        return text;
                      });
}

RC_GTEST_PROP(CsvReader, reads_the_bits_of_every_number_back, ()) {
  const double number = *any_double().as("number");
  const std::optional<double> back = through_a_file({.text = "x", .number = number}).number;
  RC_ASSERT(back.has_value());
  if (std::isnan(number)) {
    RC_ASSERT(std::isnan(*back));
  } else {
    RC_ASSERT(std::bit_cast<std::uint64_t>(*back) == std::bit_cast<std::uint64_t>(number));
  }
}

RC_GTEST_PROP(CsvReader, reads_every_text_back, ()) {
  const std::string text = *any_text().as("text");
  RC_ASSERT(through_a_file({.text = text}).text == text);
}

TEST(CsvReader, reads_whole_numbers_and_empty_cells_back) {
  const Line line{.count = std::numeric_limits<std::int64_t>::min(),
                  .verdict = Verdict::gave_up,
                  .large = std::numeric_limits<std::uint64_t>::max()};
  const Line back = through_a_file(line);
  EXPECT_EQ(back.text, "");
  EXPECT_EQ(back.number, std::nullopt);
  EXPECT_EQ(back.count, line.count);
  EXPECT_EQ(back.verdict, Verdict::gave_up);
  EXPECT_EQ(back.large, line.large);
}

TEST(CsvReader, finds_columns_by_name_and_ignores_others) {
  const auto lines = read_text_as_csv(
      "\xEF\xBB\xBFlarge,new,verdict,count,text,number\r\n"
      "1,z,agree,2,t,3\r\n"
      ",\"a,b\",broken,-4,,\r\n");
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].large, 1U);
  EXPECT_EQ(lines[0].text, "t");
  EXPECT_EQ(lines[0].number, 3.0);
  EXPECT_EQ(lines[1].count, -4);
  EXPECT_EQ(lines[1].verdict, Verdict::broken);
  EXPECT_EQ(lines[1].number, std::nullopt) << "a value of the row before";
}

TEST(CsvReader, keeps_the_blanks_around_a_text) {
  const auto lines = read_text_as_csv(csv_header(kColumns) + " t ,1,2,agree,3\n");
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].text, " t ");
}

TEST(CsvReader, an_empty_cell_overwrites_what_was_there) {
  std::optional<double> number = 1.5;
  parse_cell("", {"f.csv:2", "number"}, number);
  EXPECT_EQ(number, std::nullopt);
}

TEST(CsvBytes, go_on_where_they_stopped) {
  const TemporaryFolder folder;
  write_bytes(folder / "f.csv", "abcde");
  CsvBytes bytes(folder / "f.csv");
  std::string text(9, '.');
  EXPECT_EQ(bytes.read(text.data(), 2), 2);
  EXPECT_EQ(bytes.read(text.data() + 2, 7), 3);
  EXPECT_EQ(text, "abcde....");
  EXPECT_EQ(bytes.read(text.data(), 7), 0);
}

TEST(CsvReader, the_last_line_may_lack_its_end) {
  const auto lines = read_text_as_csv(csv_header(kColumns) + "t,1,2,agree,3");
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].large, 3U);
}

TEST(CsvReader, a_header_alone_has_no_rows) {
  EXPECT_TRUE(read_text_as_csv(csv_header(kColumns)).empty());
}

TEST(CsvReader, numbers_that_are_none_are_errors) {
  const std::string header = csv_header(kColumns);
  for (const char* number : {"x", "1e", "-", "1.5 ", " 1", "1e400", "0x1p3", "+1", "1,5x"}) {
    const std::string cell = fmt::format("\"{}\"", number);
    EXPECT_EQ(error_on(fmt::format("{}t,{},2,agree,3\n", header, cell)),
              "f.csv:2: column number, expected a number, got " + cell);
  }
  EXPECT_EQ(error_on(header + "t,1,2,agree,3\nt,1,2.5,agree,3\n"),
            "f.csv:3: column count, expected a whole number, got \"2.5\"");
  EXPECT_EQ(error_on(header + "t,1,,agree,3\n"),
            "f.csv:2: column count, expected a whole number, got none");
  EXPECT_EQ(error_on(header + "t,1,2,agree,-3\n"),
            "f.csv:2: column large, expected a whole number of at least 0, got \"-3\"");
  EXPECT_EQ(error_on(header + "t,1,9223372036854775808,agree,3\n"),
            "f.csv:2: column count, expected a whole number, got \"9223372036854775808\"");
}

TEST(CsvReader, unknown_words_are_errors) {
  EXPECT_EQ(error_on(csv_header(kColumns) + "t,1,2,fine,3\n"),
            "f.csv:2: column verdict, expected one of agree, gave-up, broken, diverge, got "
            "\"fine\"");
}

TEST(CsvReader, malformed_rows_are_errors) {
  const std::string header = csv_header(kColumns);
  EXPECT_EQ(error_on(header + "t,1,2,agree\n"),
            "f.csv:2: row, expected as many cells as the header has, got fewer");
  EXPECT_EQ(error_on(header + "t,1,2,agree,3\n\n"),
            "f.csv:3: row, expected as many cells as the header has, got fewer");
  EXPECT_EQ(error_on(header + "t,1,2,agree,3,4\n"),
            "f.csv:2: row, expected as many cells as the header has, got more");
  EXPECT_EQ(error_on(header + "\"t,1,2,agree,3\n"),
            "f.csv:2: quoted cell, expected a closing quote on the same line, got none");
  EXPECT_EQ(error_on(header + std::string("t,1\0,2,agree,3\n", 15)),
            "f.csv:2: row, expected as many cells as the header has, got fewer");
}

TEST(CsvReader, an_endless_line_is_an_error) {
  const std::string cell(std::size_t{1} << 24U, 'x');
  EXPECT_TRUE(error_on(csv_header(kColumns) + cell + ",1,2,agree,3\n")
                  .starts_with("f.csv:2: row, expected a line that can be read, got "));
}

TEST(CsvReader, malformed_headers_are_errors) {
  EXPECT_EQ(error_on(""), "f.csv: header, expected the names of the columns, got an empty file");
  EXPECT_EQ(error_on("text,number,count,large\n"),
            "f.csv:1: header, expected a column verdict, got none");
  EXPECT_EQ(error_on("text,number,count,large,text,verdict\n"),
            "f.csv:1: header, expected one column text, got several");
  EXPECT_EQ(error_on("\"text,number\n"),
            "f.csv:1: quoted cell, expected a closing quote on the same line, got none");
}

TEST(CsvReader, a_missing_file_is_an_error) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_in(folder, [&] { (void)read_all(folder / "none.csv"); }),
            "none.csv: file, expected a readable regular file, got none");
  EXPECT_EQ(error_in(folder, [&] { (void)read_all(folder.path()); }),
            folder.path().string() + ": file, expected a readable regular file, got a folder");
}

}  // namespace
}  // namespace kvcheck
