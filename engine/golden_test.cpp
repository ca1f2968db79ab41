// SPDX-License-Identifier: MIT
// Stored logits stand by length, then by token ids, and a file of another size is refused.
#include "engine/golden.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "engine/error.h"
#include "engine/test_support.h"

namespace kvcheck {
namespace {

// Of a vocabulary of 2 and a context of 2: six rows, row r is [10 r, 10 r + 1].
std::vector<double> numbered_rows() {
  std::vector<double> values;
  for (int r = 0; r < 6; ++r) {
    values.push_back(10 * r);
    values.push_back(10 * r + 1);
  }
  return values;
}

std::string bytes_of(const std::vector<double>& values) {
  std::string bytes(values.size() * sizeof(double), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

Config shape() {
  Config config = tiny_config();
  config.context = 2;
  return config;
}

TEST(GoldenLogits, finds_the_row_of_every_prefix) {
  const GoldenLogits golden(2, 2, numbered_rows());
  const std::vector<std::vector<int>> prefixes{{0}, {1}, {0, 0}, {0, 1}, {1, 0}, {1, 1}};
  for (std::size_t i = 0; i < prefixes.size(); ++i) {
    const auto row = golden.row(prefixes[i]);
    ASSERT_EQ(row.size(), 2U);
    EXPECT_EQ(row[0], 10 * static_cast<double>(i));
    EXPECT_EQ(row[1], 10 * static_cast<double>(i) + 1);
  }
}

TEST(GoldenLogits, must_cover_every_prefix) {
  std::vector<double> values = numbered_rows();
  values.pop_back();
  EXPECT_THROW(GoldenLogits(2, 2, values), InternalError);
  EXPECT_THROW(GoldenLogits(2, 3, numbered_rows()), InternalError);
  EXPECT_THROW(GoldenLogits(2, 1, numbered_rows()), InternalError);
}

TEST(ReadGolden, reads_float64) {
  const TemporaryFolder folder;
  write_bytes(folder / "golden.f64", bytes_of(numbered_rows()));
  const GoldenLogits golden = read_golden(folder / "golden.f64", shape());
  EXPECT_EQ(golden.row(std::vector<int>{1, 0})[1], 41);
}

TEST(ReadGolden, refuses_a_file_of_another_size) {
  const TemporaryFolder folder;
  const std::string bytes = bytes_of(numbered_rows());
  for (const std::string& wrong : {bytes.substr(1), bytes + "x", std::string()}) {
    write_bytes(folder / "golden.f64", wrong);
    EXPECT_EQ(error_in(folder, [&] { (void)read_golden(folder / "golden.f64", shape()); }),
              "golden.f64: size, expected 6 rows of 2 float64, got " +
                  std::to_string(wrong.size()) + " bytes");
  }
}

TEST(ReadGolden, names_a_file_that_is_missing) {
  const TemporaryFolder folder;
  const std::string error =
      error_in(folder, [&] { (void)read_golden(folder / "golden.f64", shape()); });
  EXPECT_TRUE(error.starts_with("golden.f64: ")) << error;
}

TEST(ReadGolden, refuses_a_file_for_more_prefixes_than_any_can_hold) {
  const TemporaryFolder folder;
  write_bytes(folder / "golden.f64", "");
  Config config = shape();
  config.context = 1000;
  EXPECT_EQ(error_in(folder, [&] { (void)read_golden(folder / "golden.f64", config); }),
            "golden.f64: size, expected 9223372036854775807 rows of 2 float64, got 0 bytes");
}

TEST(ReadGolden, refuses_what_is_not_a_number) {
  const TemporaryFolder folder;
  std::vector<double> rows = numbered_rows();
  rows[3] = std::numeric_limits<double>::quiet_NaN();
  write_bytes(folder / "golden.f64", bytes_of(rows));
  EXPECT_EQ(error_in(folder, [&] { (void)read_golden(folder / "golden.f64", shape()); }),
            "golden.f64: number 3, expected a finite number, got nan");
}

}  // namespace
}  // namespace kvcheck
