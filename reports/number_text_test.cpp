// SPDX-License-Identifier: MIT
// Numbers as people read them.
#include "reports/number_text.h"

#include <gtest/gtest.h>

#include <limits>

namespace kvcheck {
namespace {

TEST(NumberText, counts_have_thousands_separators) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(-999), "-999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(149760), "149,760");
  EXPECT_EQ(grouped(-1234567), "-1,234,567");
  EXPECT_EQ(grouped(std::numeric_limits<std::int64_t>::min()), "-9,223,372,036,854,775,808");
}

TEST(NumberText, measured_values_have_three_digits) {
  EXPECT_EQ(three_digits(2.8611e-6), "2.86e-06");
  EXPECT_EQ(three_digits(0.4249), "0.425");
  EXPECT_EQ(three_digits(12500), "1.25e+04");
  EXPECT_EQ(three_digits(0), "0");
  EXPECT_EQ(three_digits(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(three_digits(-std::numeric_limits<double>::quiet_NaN()), "nan");
}

TEST(NumberText, durations_have_a_unit_that_fits) {
  EXPECT_EQ(duration_text(0), "0.0 ms");
  EXPECT_EQ(duration_text(0.00994), "9.9 ms");
  EXPECT_EQ(duration_text(0.00996), "10 ms");
  EXPECT_EQ(duration_text(0.9994), "999 ms");
  EXPECT_EQ(duration_text(0.9996), "1.0 s");
  EXPECT_EQ(duration_text(99.94), "99.9 s");
  EXPECT_EQ(duration_text(99.96), "100 s");
  EXPECT_EQ(duration_text(3600), "3600 s");
}

}  // namespace
}  // namespace kvcheck
