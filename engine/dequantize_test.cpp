// SPDX-License-Identifier: MIT
// Stored numbers are widened as their formats say.
#include "engine/dequantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "engine/test_support.h"

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

// Number i of five bits: its nibble as above, and bit i of the four bytes before them.
TEST(Widen, joins_the_fifth_bits_of_q5_0_and_q5_1) {
  std::string bits(4, '\0');
  bits[0] = '\2';    // of number 1
  bits[2] = '\2';    // of number 17
  bits[3] = '\x80';  // of number 31
  std::string nibbles(16, '\0');
  nibbles[1] = '\xf3';
  const std::vector<float> centred = widened(Dtype::q5_0, "\0\x3c"s + bits + nibbles, 32);
  EXPECT_EQ(centred[0], -16.0F);
  EXPECT_EQ(centred[1], 3.0F);
  EXPECT_EQ(centred[17], 15.0F);
  EXPECT_EQ(centred[31], 0.0F);
  const std::vector<float> raised = widened(Dtype::q5_1, "\0\x38\0\xc0"s + bits + nibbles, 32);
  EXPECT_EQ(raised[0], -2.0F);
  EXPECT_EQ(raised[1], 7.5F);
  EXPECT_EQ(raised[17], 13.5F);
  EXPECT_EQ(raised[31], 6.0F);
}

// Numbers 96 to 127 have the fourth scale and minimum, 128 to 159 the fifth, whose upper two bits
// lie with the first ones.
TEST(Widen, finds_the_scales_of_q4_k_and_q5_k) {
  std::string scales(12, '\0');
  scales[3] = '\x05';                                 // scale 5 of the fourth
  scales[7] = '\x02';                                 // its minimum
  scales[0] = '\x80';                                 // 2 upper bits of the fifth's scale
  scales[4] = '\x40';                                 // 1 upper bit of its minimum
  scales[8] = '\x31';                                 // lower bits: scale 1, minimum 3
  const std::string head = "\0\x38\0\x3c"s + scales;  // 0.5 and 1
  const std::string nibbles(128, '\x9a');             // lower halves 10, upper ones 9
  const std::vector<float> four = widened(Dtype::q4_k, head + nibbles, 256);
  EXPECT_EQ(four[0], 0.0F);
  EXPECT_EQ(four[96], 0.5F * 5 * 9 - 2);
  EXPECT_EQ(four[127], 0.5F * 5 * 9 - 2);
  EXPECT_EQ(four[128], 0.5F * 33 * 10 - 19);
  std::string fifths(32, '\0');
  fifths[31] = '\x18';  // of numbers 127 and 159
  const std::vector<float> five = widened(Dtype::q5_k, head + fifths + nibbles, 256);
  EXPECT_EQ(five[126], 0.5F * 5 * 9 - 2);
  EXPECT_EQ(five[127], 0.5F * 5 * 25 - 2);
  EXPECT_EQ(five[158], 0.5F * 33 * 10 - 19);
  EXPECT_EQ(five[159], 0.5F * 33 * 26 - 19);
}

TEST(Widen, joins_the_upper_bits_of_q6_k) {
  std::string nibbles(128, '\0');
  nibbles[64] = '\x7f';  // of numbers 128 and 192
  std::string uppers(64, '\0');
  uppers[32] = '\x23';  // of number 128: 3, of 160: 0, of 192: 2, of 224: 0
  std::string scales(16, '\1');
  scales[8] = '\xfe';  // -2
  const std::vector<float> found = widened(Dtype::q6_k, nibbles + uppers + scales + "\0\x38"s, 256);
  EXPECT_EQ(found[0], -16.0F);
  EXPECT_EQ(found[128], 0.5F * -2 * (15 + 48 - 32));
  EXPECT_EQ(found[129], 0.5F * -2 * -32);
  EXPECT_EQ(found[160], -16.0F);
  EXPECT_EQ(found[192], 0.5F * (7 + 32 - 32));
}

// Random blocks, as fixtures/golden_hf.py reads them.
TEST(Widen, reads_every_quantised_format_as_the_script_does) {
  const std::string file = read_bytes(KVCHECK_FIXTURES_DIR "/hf/blocks.bin");
  std::size_t at = 0;
  for (const Dtype dtype :
       {Dtype::q8_0, Dtype::q5_0, Dtype::q5_1, Dtype::q4_k, Dtype::q5_k, Dtype::q6_k}) {
    const auto bytes = static_cast<std::size_t>(block_of(dtype).bytes);
    const auto numbers = static_cast<std::size_t>(block_of(dtype).numbers);
    ASSERT_LE(at + bytes + 4 * numbers, file.size());
    const std::vector<float> expected =
        widened(Dtype::f32, file.substr(at + bytes, 4 * numbers), numbers);
    EXPECT_EQ(widened(dtype, file.substr(at, bytes), numbers), expected) << block_of(dtype).name;
    at += bytes + 4 * numbers;
  }
  EXPECT_EQ(at, file.size());
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
  EXPECT_EQ(bytes(Dtype::q4_k, {2, 512}), 4 * 144);
  EXPECT_EQ(bytes(Dtype::q6_k, {2, 128}), std::nullopt);
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(bytes(Dtype::f16, {kMost}), std::nullopt);
  EXPECT_EQ(bytes(Dtype::f16, {kMost, kMost, 4}), std::nullopt);
}

}  // namespace
}  // namespace kvcheck
