// SPDX-License-Identifier: MIT
// Stored numbers are widened as their formats say.
#include "engine/dequantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace kvcheck {
namespace {

std::vector<float> widened(Dtype dtype, const std::string& bytes, std::size_t numbers) {
  std::vector<float> to(numbers);
  widen(dtype, std::as_bytes(std::span(bytes)), to);
  return to;
}

using namespace std::string_literals;

TEST(Widen, takes_numbers_as_they_are) {
  EXPECT_EQ(widened(Dtype::f64, "\x9a\x99\x99\x99\x99\x99\xb9\x3f"s, 1)[0], 0.1F);
  EXPECT_EQ(widened(Dtype::f32, "\0\0\xc0\xbf\0\0\0\x80"s, 2)[0], -1.5F);
  EXPECT_TRUE(std::signbit(widened(Dtype::f32, "\0\0\0\x80"s, 1)[0]));
  EXPECT_EQ(widened(Dtype::f16, "\0\xc2\1\0"s, 2), (std::vector<float>{-3.0F, 0x1p-24F}));
  EXPECT_EQ(widened(Dtype::bf16, "\xc0\xbf\x80\x3f"s, 2), (std::vector<float>{-1.5F, 1.0F}));
  EXPECT_TRUE(std::isinf(widened(Dtype::f16, "\0\x7c"s, 1)[0]));
  EXPECT_TRUE(std::isnan(widened(Dtype::bf16, "\xc1\x7f"s, 1)[0]));
}

TEST(Widen, multiplies_the_signed_bytes_of_q8_0) {
  std::string block = "\0\x38"s + std::string(32, '\1');  // 0.5
  block[2] = '\x80';
  block[33] = '\x7f';
  const std::vector<float> found = widened(Dtype::q8_0, block + "\0\xc0"s + block.substr(2), 64);
  EXPECT_EQ(found[0], -64.0F);
  EXPECT_EQ(found[1], 0.5F);
  EXPECT_EQ(found[31], 63.5F);
  EXPECT_EQ(found[32], 256.0F) << "a scale of -2 in the second block";
}

// Byte i holds number i in its lower half, number i + 16 in the upper one.
TEST(Widen, splits_the_nibbles_of_q4_0_and_q4_1) {
  std::string nibbles(16, '\x88');
  nibbles[1] = '\xf0';
  const std::vector<float> centred = widened(Dtype::q4_0, "\0\x3c"s + nibbles, 32);
  EXPECT_EQ(centred[0], 0.0F);
  EXPECT_EQ(centred[1], -8.0F);
  EXPECT_EQ(centred[17], 7.0F);
  const std::vector<float> raised = widened(Dtype::q4_1, "\0\x3c\0\xb8"s + nibbles, 32);
  EXPECT_EQ(raised[0], 7.5F);
  EXPECT_EQ(raised[1], -0.5F);
  EXPECT_EQ(raised[17], 14.5F);
}

TEST(BytesOf, count_whole_blocks_and_do_not_wrap_round) {
  const auto bytes = [](Dtype dtype, std::vector<std::int64_t> shape) {
    return bytes_of(dtype, shape);
  };
  EXPECT_EQ(bytes(Dtype::f32, {2, 3}), 24);
  EXPECT_EQ(bytes(Dtype::q4_0, {2, 64}), 72);
  EXPECT_EQ(bytes(Dtype::q4_1, {64}), 40);
  EXPECT_EQ(bytes(Dtype::bf16, {}), 2);
  EXPECT_EQ(bytes(Dtype::q8_0, {64, 2}), std::nullopt);
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(bytes(Dtype::f16, {kMost}), std::nullopt);
  EXPECT_EQ(bytes(Dtype::f16, {kMost, kMost, 4}), std::nullopt);
}

}  // namespace
}  // namespace kvcheck
