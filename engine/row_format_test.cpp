// SPDX-License-Identifier: MIT
// What each row format makes of a number, as worked out by hand.
#include "engine/row_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "engine/random.h"

namespace kvcheck {
namespace {

using testing::ElementsAre;

constexpr RowFormat kFormats[] = {RowFormat::native, RowFormat::bf16, RowFormat::f16,
                                  RowFormat::int8};
constexpr RowFormat kHalves[] = {RowFormat::bf16, RowFormat::f16};
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

template <Scalar T>
std::vector<std::byte> encoded(RowFormat format, const std::vector<T>& row) {
  std::vector<std::byte> bytes(
      static_cast<std::size_t>(row_bytes<T>(format, static_cast<int>(row.size()))));
  encode<T>(format, row, bytes.data());
  return bytes;
}

template <Scalar T>
std::vector<T> rounded(RowFormat format, std::vector<T> row) {
  round_row<T>(format, row);
  return row;
}

float rounded_one(RowFormat format, float value) { return rounded<float>(format, {value})[0]; }

template <typename T>
class RowFormatOf : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(RowFormatOf, Scalars);

TYPED_TEST(RowFormatOf, a_row_takes_the_bytes_of_its_format) {
  EXPECT_EQ(row_bytes<TypeParam>(RowFormat::native, 6), 6 * std::ptrdiff_t{sizeof(TypeParam)});
  EXPECT_EQ(row_bytes<TypeParam>(RowFormat::bf16, 6), 12);
  EXPECT_EQ(row_bytes<TypeParam>(RowFormat::f16, 6), 12);
  EXPECT_EQ(row_bytes<TypeParam>(RowFormat::int8, 6), 10);  // the scale takes four
  EXPECT_EQ(row_bytes<TypeParam>(RowFormat::f16, 0), 0);
}

TYPED_TEST(RowFormatOf, a_row_is_written_up_to_its_bytes_and_not_past_them) {
  const std::vector<TypeParam> row{1, -2, 3};
  for (const RowFormat format : kFormats) {
    const auto bytes = static_cast<std::size_t>(row_bytes<TypeParam>(format, 3));
    std::vector<std::byte> memory(bytes + 8, std::byte{0x5A});
    encode<TypeParam>(format, row, memory.data());
    for (std::size_t i = bytes; i < memory.size(); ++i) {
      EXPECT_EQ(memory[i], std::byte{0x5A}) << name(format);
    }
    EXPECT_NE(memory[bytes - 1], std::byte{0x5A}) << name(format);
  }
}

TYPED_TEST(RowFormatOf, bytes_of_ones_are_nan_in_every_format) {
  for (const RowFormat format : kFormats) {
    const std::vector<std::byte> ones(static_cast<std::size_t>(row_bytes<TypeParam>(format, 5)),
                                      std::byte{0xFF});
    std::vector<TypeParam> row(5, TypeParam(1));
    decode<TypeParam>(format, ones.data(), row);
    for (const TypeParam value : row) EXPECT_TRUE(std::isnan(value)) << name(format);
  }
}

TYPED_TEST(RowFormatOf, native_rows_keep_every_bit) {
  std::vector<TypeParam> row{
      TypeParam(0.1), TypeParam(-0.0), std::numeric_limits<TypeParam>::denorm_min(),
      std::numeric_limits<TypeParam>::max(), -std::numeric_limits<TypeParam>::infinity()};
  const auto bytes = encoded(RowFormat::native, row);
  EXPECT_EQ(std::memcmp(bytes.data(), row.data(), bytes.size()), 0);
  std::vector<TypeParam> found(row.size());
  decode<TypeParam>(RowFormat::native, bytes.data(), found);
  EXPECT_EQ(std::memcmp(found.data(), row.data(), bytes.size()), 0);
}

// bf16 has 8 significant bits: from 1 to 2 its numbers lie 2^-7 apart.
TYPED_TEST(RowFormatOf, bf16_rounds_to_nearest_and_ties_to_even) {
  const auto one_and = [](double steps) { return TypeParam(1 + steps / 128); };
  const std::vector<TypeParam> row{one_and(1),    one_and(0.5),   one_and(1.5),  one_and(2.5),
                                   one_and(0.75), one_and(0.375), -one_and(1.5), TypeParam(-0.0)};
  const auto found = rounded(RowFormat::bf16, row);
  EXPECT_THAT(found, ElementsAre(one_and(1), one_and(0), one_and(2), one_and(2), one_and(1),
                                 one_and(0), -one_and(2), 0));
  EXPECT_TRUE(std::signbit(found[7]));
}

// f16 has 11: from 1 to 2 its numbers lie 2^-10 apart, and below 2^-14 always 2^-24.
TYPED_TEST(RowFormatOf, f16_rounds_to_nearest_and_ties_to_even) {
  const auto one_and = [](double steps) { return TypeParam(1 + steps / 1024); };
  const auto small = [](double steps) { return TypeParam(std::ldexp(steps, -24)); };
  const std::vector<TypeParam> row{one_and(1),    one_and(0.5), one_and(1.5), one_and(2.5),
                                   -one_and(.75), small(1),     small(0.5),   small(1.5)};
  EXPECT_THAT(rounded(RowFormat::f16, row),
              ElementsAre(one_and(1), one_and(0), one_and(2), one_and(2), -one_and(1), small(1), 0,
                          small(2)));
}

TEST(RowFormat, bytes_are_those_of_the_standard) {
  const auto bytes = encoded<float>(RowFormat::bf16, {1, -2});  // 3F80, C000, low byte first
  EXPECT_THAT(bytes, ElementsAre(std::byte{0x80}, std::byte{0x3F}, std::byte{0}, std::byte{0xC0}));
  const auto halves = encoded<float>(RowFormat::f16, {1, -2});  // 3C00, C000
  EXPECT_THAT(halves, ElementsAre(std::byte{0}, std::byte{0x3C}, std::byte{0}, std::byte{0xC0}));
}

TEST(RowFormat, what_is_too_large_becomes_infinity) {
  // Half a step above the largest number ties to the even side, which is infinity.
  EXPECT_EQ(rounded_one(RowFormat::f16, 65504), 65504);
  EXPECT_EQ(rounded_one(RowFormat::f16, 65519), 65504);
  EXPECT_EQ(rounded_one(RowFormat::f16, 65520), kInfinity);
  EXPECT_EQ(rounded_one(RowFormat::f16, -1e30F), -kInfinity);
  EXPECT_EQ(rounded_one(RowFormat::bf16, 0x1.FEp127F), 0x1.FEp127F);
  EXPECT_EQ(rounded_one(RowFormat::bf16, 0x1.FEFFFEp127F), 0x1.FEp127F);
  EXPECT_EQ(rounded_one(RowFormat::bf16, 0x1.FFp127F), kInfinity);
  EXPECT_EQ(rounded_one(RowFormat::bf16, -std::numeric_limits<float>::max()), -kInfinity);
}

TEST(RowFormat, what_is_not_finite_stays_so_in_16_bits) {
  // A NaN whose upper half looks like infinity must not become infinity.
  const auto low_nan = std::bit_cast<float>(0x7F800001U);
  for (const RowFormat format : kHalves) {
    EXPECT_EQ(rounded_one(format, kInfinity), kInfinity);
    EXPECT_EQ(rounded_one(format, -kInfinity), -kInfinity);
    EXPECT_TRUE(std::isnan(rounded_one(format, kNaN))) << name(format);
    EXPECT_TRUE(std::isnan(rounded_one(format, -kNaN))) << name(format);
    EXPECT_TRUE(std::isnan(rounded_one(format, low_nan))) << name(format);
  }
}

TEST(RowFormat, what_is_not_finite_makes_an_int8_row_nan) {
  for (const float value : {kInfinity, -kInfinity, kNaN}) {
    for (std::size_t place = 0; place < 3; ++place) {
      std::vector<float> row{1, -200, 3};
      row[place] = value;
      for (const float found : rounded(RowFormat::int8, row)) EXPECT_TRUE(std::isnan(found));
    }
  }
}

TEST(RowFormat, a_double_too_large_for_a_float_is_never_a_number) {
  for (const RowFormat format : {RowFormat::bf16, RowFormat::f16, RowFormat::int8}) {
    EXPECT_FALSE(std::isfinite(rounded<double>(format, {1e300})[0])) << name(format);
  }
}

// The largest magnitude, 254, takes 127 steps of 2.
TYPED_TEST(RowFormatOf, int8_stores_a_scale_and_steps_of_it) {
  const std::vector<TypeParam> row{-254, 2, 0, 2.5, 3, 5, -5, TypeParam(0.875)};
  const auto bytes = encoded(RowFormat::int8, row);
  float scale = 0;
  std::memcpy(&scale, bytes.data(), sizeof scale);
  EXPECT_EQ(scale, 2);
  std::vector<int> steps;
  for (std::size_t i = sizeof scale; i < bytes.size(); ++i) {
    steps.push_back(static_cast<std::int8_t>(bytes[i]));
  }
  EXPECT_THAT(steps, ElementsAre(-127, 1, 0, 1, 2, 2, -2, 0));  // 1.5, 2.5 and -2.5 tie to even
  EXPECT_THAT(rounded(RowFormat::int8, row), ElementsAre(-254, 2, 0, 2, 4, 4, -4, 0));
}

TYPED_TEST(RowFormatOf, a_row_of_zeros_stays_zero) {
  for (const RowFormat format : kFormats) {
    const std::vector<TypeParam> zeros(4, TypeParam(0));
    EXPECT_EQ(rounded(format, zeros), zeros) << name(format);
    EXPECT_EQ(rounded(format, std::vector<TypeParam>{}), std::vector<TypeParam>{});
  }
}

TYPED_TEST(RowFormatOf, an_int8_row_is_off_by_at_most_half_a_step) {
  Draw draw{.seed = 5, .stream = stream_of("int8 rows")};
  for (int i = 0; i < 500; ++i) {
    std::vector<TypeParam> row;
    for (int j = 0; j < 9; ++j) row.push_back(static_cast<TypeParam>(draw.next_normal()));
    TypeParam largest = 0;
    for (const TypeParam value : row) largest = std::max(largest, std::abs(value));
    const auto found = rounded(RowFormat::int8, row);
    // Half a step of the 127, and what rounding the scale adds to it.
    const double bound = static_cast<double>(largest) * (0.5 / 127 + 1e-6);
    for (std::size_t j = 0; j < row.size(); ++j) {
      ASSERT_LE(std::abs(static_cast<double>(found[j] - row[j])), bound);
    }
  }
}

TEST(RowFormat, a_16_bit_row_that_was_stored_once_is_stored_again_without_change) {
  for (const RowFormat format : kHalves) {
    for (unsigned bits = 0; bits < 1U << 16; ++bits) {
      const std::array stored{static_cast<std::byte>(bits), static_cast<std::byte>(bits >> 8)};
      std::vector<float> once(1);
      decode<float>(format, stored.data(), once);
      const auto again = encoded(format, once);
      if (std::isnan(once[0])) {
        ASSERT_TRUE(std::isnan(rounded(format, once)[0])) << bits;
      } else {
        ASSERT_EQ(std::memcmp(again.data(), stored.data(), 2), 0) << name(format) << " " << bits;
      }
    }
  }
}

}  // namespace
}  // namespace kvcheck
