// SPDX-License-Identifier: MIT
// GGUF files are read to the last byte or refused with a reason.
#include "engine/gguf.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstring>
#include <limits>
#include <ostream>

#include "engine/test_support.h"

namespace kvcheck {
namespace {

template <typename Number>
std::string number(Number value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

std::string u32(std::uint32_t value) { return number(value); }
std::string u64(std::uint64_t value) { return number(value); }
std::string text(const std::string& value) { return u64(value.size()) + value; }

// Everything before the metadata.
std::string start(std::uint64_t tensors, std::uint64_t pairs, std::uint32_t version = 3) {
  return "GGUF" + u32(version) + u64(tensors) + u64(pairs);
}

std::string pair_of(const std::string& key, GgufType type, const std::string& value) {
  return text(key) + u32(static_cast<std::uint32_t>(type)) + value;
}

std::string tensor(const std::string& name, std::initializer_list<std::uint64_t> extents,
                   std::uint32_t type, std::uint64_t offset) {
  std::string bytes = text(name) + u32(static_cast<std::uint32_t>(extents.size()));
  for (const std::uint64_t extent : extents) bytes += u64(extent);
  return bytes + u32(type) + u64(offset);
}

// Up to the next multiple of 32.
std::string padded(std::string bytes) {
  bytes.resize((bytes.size() + 31) / 32 * 32);
  return bytes;
}

// One tensor of [3, 2] floats and one of 32 numbers in Q8_0.
std::string two_tensors() {
  return padded(start(2, 0) + tensor("a", {2, 3}, 0, 0) + tensor("b", {32}, 8, 32)) +
         padded(std::string(24, '\1')) + std::string(34, '\2');
}

std::string one_tensor(const std::string& of, const std::string& data = std::string(8, '\0')) {
  return padded(start(1, 0) + of) + data;
}

std::string with_pair(const std::string& pair) { return start(0, 1) + pair; }

Gguf parsed(const std::string& bytes) { return parse_gguf(std::as_bytes(std::span(bytes)), "f"); }

std::string parse_error(const std::string& bytes) {
  return error_of([&] { (void)parsed(bytes); });
}

TEST(Gguf, tensors_are_named_and_seen_in_place) {
  const std::string bytes = two_tensors();
  const Gguf gguf = parsed(bytes);
  ASSERT_EQ(gguf.tensors.size(), 2U);
  EXPECT_EQ(gguf.tensors[0].name, "a");
  EXPECT_EQ(gguf.tensors[0].shape, (std::vector<std::int64_t>{3, 2}));
  EXPECT_EQ(gguf.tensors[0].dtype, Dtype::f32);
  EXPECT_EQ(gguf.tensors[0].bytes.size(), 24U);
  EXPECT_EQ(gguf.tensors[0].bytes.front(), std::byte{1});
  EXPECT_EQ(gguf.tensors[1].dtype, Dtype::q8_0);
  EXPECT_EQ(gguf.tensors[1].bytes.size(), 34U);
  EXPECT_EQ(gguf.tensors[1].bytes.back(), std::byte{2});
}

TEST(Gguf, version_2_is_read_too) { EXPECT_EQ(parse_error(start(0, 0, 2)), "no error"); }

TEST(Gguf, metadata_have_their_values) {
  using Type = GgufType;
  const std::string words = u32(8) + u64(2) + text("x") + text("");
  const std::string bytes =
      start(0, 9) + pair_of("u8", Type::u8, "\x80") + pair_of("i8", Type::i8, "\x80") +
      pair_of("i32", Type::i32, number(std::int32_t{-5})) + pair_of("u64", Type::u64, u64(7)) +
      pair_of("f32", Type::f32, number(1e-5F)) + pair_of("f64", Type::f64, number(0.1)) +
      pair_of("yes", Type::boolean, "\1") + pair_of("text", Type::text, text("ab")) +
      pair_of("words", Type::array, words);
  const Gguf gguf = parsed(bytes);
  EXPECT_EQ(std::get<std::uint64_t>(*gguf.find("u8")), 128U);
  EXPECT_EQ(std::get<std::int64_t>(*gguf.find("i8")), -128);
  EXPECT_EQ(std::get<std::int64_t>(*gguf.find("i32")), -5);
  EXPECT_EQ(std::get<std::uint64_t>(*gguf.find("u64")), 7U);
  EXPECT_EQ(std::get<double>(*gguf.find("f32")), 1e-5) << "the decimal that was written";
  EXPECT_EQ(std::get<double>(*gguf.find("f64")), 0.1);
  EXPECT_TRUE(std::get<bool>(*gguf.find("yes")));
  EXPECT_EQ(std::get<std::string_view>(*gguf.find("text")), "ab");
  EXPECT_EQ(std::get<GgufArray>(*gguf.find("words")).texts,
            (std::vector<std::string_view>{"x", ""}));
  EXPECT_EQ(gguf.find("none"), nullptr);
}

TEST(Gguf, the_alignment_may_be_another) {
  std::string bytes =
      start(1, 1) + pair_of("general.alignment", GgufType::u32, u32(8)) + tensor("a", {1}, 0, 0);
  bytes.resize((bytes.size() + 7) / 8 * 8);
  EXPECT_EQ(parse_error(bytes + "abcd"), "no error");
}

struct Malformed {
  const char* name;
  std::string bytes;
  std::string message;
};

void PrintTo(const Malformed& malformed, std::ostream* out) { *out << malformed.name; }

constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
constexpr auto kF32 = "one of F32, F16, BF16, F64, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K";

const Malformed kMalformed[] = {
    {"an_empty_file", "", "f: magic at byte 0, expected 4 bytes, got 0 to the end"},
    {"other_first_bytes", "GGML" + u32(3) + u64(0) + u64(0),
     "f: first bytes, expected \"GGUF\", got \"GGML\""},
    {"no_version", "GGUF", "f: version at byte 4, expected 4 bytes, got 0 to the end"},
    {"version_1", start(0, 0, 1), "f: version, expected 2 or 3, got 1"},
    {"numbers_the_other_way_round", start(0, 0, 0x03000000),
     "f: version, expected 2 or 3, got 50331648"},
    {"no_counts", "GGUF" + u32(3),
     "f: count of tensors at byte 8, expected 8 bytes, got 0 to the end"},
    {"more_tensors_than_bytes", start(kMost, 0),
     "f: count of tensors, expected at most 0 in 8 bytes, got 18446744073709551615"},
    {"more_metadata_than_bytes", start(0, kMost) + std::string(26, '\0'),
     "f: count of metadata, expected at most 2 in 26 bytes, got 18446744073709551615"},
    {"a_key_longer_than_the_file", with_pair(u64(100) + std::string(8, 'a')),
     "f: key at byte 32, expected 100 bytes, got 8 to the end"},
    {"a_key_of_all_memory", with_pair(u64(kMost) + std::string(8, 'a')),
     "f: key at byte 32, expected at most 65535 bytes, got 18446744073709551615"},
    {"an_unknown_type", with_pair(text("a") + u32(13) + "x"),
     "f: key \"a\" type, expected a number below 13, got 13"},
    {"a_value_that_is_cut", with_pair(pair_of("a", GgufType::u32, "abc")),
     "f: key \"a\" at byte 37, expected 4 bytes, got 3 to the end"},
    {"a_text_longer_than_the_file", with_pair(pair_of("a", GgufType::text, u64(kMost))),
     "f: key \"a\" at byte 45, expected 18446744073709551615 bytes, got 0 to the end"},
    {"a_truth_of_2", with_pair(pair_of("a", GgufType::boolean, "\2")),
     "f: key \"a\", expected 0 or 1 for a truth, got 2"},
    {"an_array_in_an_array", with_pair(pair_of("a", GgufType::array, u32(9) + u64(1))),
     "f: key \"a\", expected no array in an array, got one"},
    {"an_array_longer_than_the_file",
     with_pair(pair_of("a", GgufType::array, u32(4) + u64(kMost / 2) + "abcdefgh")),
     "f: key \"a\" length, expected at most 2 in 8 bytes, got 9223372036854775807"},
    {"an_array_of_texts_longer_than_the_file",
     with_pair(pair_of("a", GgufType::array, u32(8) + u64(2) + u64(0))),
     "f: key \"a\" length, expected at most 1 in 8 bytes, got 2"},
    {"a_key_twice", start(0, 2) + pair_of("a", GgufType::u8, "x") + pair_of("a", GgufType::u8, "x"),
     "f: key \"a\", expected it once, got it again"},
    {"an_alignment_that_is_none",
     with_pair(pair_of("general.alignment", GgufType::u32, u32(0))) + std::string(32, '\0'),
     "f: key \"general.alignment\", expected a power of two up to 1048576, got 0"},
    {"an_alignment_of_12",
     with_pair(pair_of("general.alignment", GgufType::u32, u32(12))) + std::string(32, '\0'),
     "f: key \"general.alignment\", expected a power of two up to 1048576, got 12"},
    {"an_alignment_in_words",
     with_pair(pair_of("general.alignment", GgufType::text, text("32"))) + std::string(32, '\0'),
     "f: key \"general.alignment\", expected a power of two up to 1048576, got \"32\""},
    {"a_long_name", one_tensor(tensor(std::string(64, 'a'), {1}, 0, 0)),
     "f: tensor name at byte 32, expected at most 63 bytes, got 64"},
    {"no_extents", one_tensor(tensor("a", {}, 0, 0)),
     "f: tensor \"a\" extents, expected 1 to 4, got 0"},
    {"five_extents", one_tensor(tensor("a", {1, 1, 1, 1, 1}, 0, 0)),
     "f: tensor \"a\" extents, expected 1 to 4, got 5"},
    {"an_extent_of_0", one_tensor(tensor("a", {0}, 0, 0)),
     "f: tensor \"a\" extent, expected from 1 to 2^63 - 1, got 0"},
    {"an_extent_beyond_63_bits", one_tensor(tensor("a", {kMost}, 0, 0)),
     "f: tensor \"a\" extent, expected from 1 to 2^63 - 1, got 18446744073709551615"},
    {"a_shape_whose_product_wraps_round", one_tensor(tensor("a", {1ULL << 32, 1ULL << 31}, 0, 0)),
     "f: tensor \"a\" shape, expected fewer than 2^63 bytes, rows of whole blocks of 1 numbers, "
     "got [2147483648, 4294967296]"},
    {"half_a_block", one_tensor(tensor("a", {16}, 8, 0)),
     "f: tensor \"a\" shape, expected fewer than 2^63 bytes, rows of whole blocks of 32 numbers, "
     "got [16]"},
    {"half_a_block_of_256", one_tensor(tensor("a", {128}, 12, 0)),
     "f: tensor \"a\" shape, expected fewer than 2^63 bytes, rows of whole blocks of 256 numbers, "
     "got [128]"},
    {"a_type_that_is_not_read", one_tensor(tensor("a", {1}, 10, 0)),
     std::string("f: tensor \"a\" type, expected ") + kF32 + ", got Q2_K"},
    {"an_unknown_tensor_type", one_tensor(tensor("a", {1}, 99, 0)),
     std::string("f: tensor \"a\" type, expected ") + kF32 + ", got type 99"},
    {"a_tensor_that_begins_late", one_tensor(tensor("a", {1}, 0, 32), std::string(64, '\0')),
     "f: tensor \"a\" offset, expected 0, behind the tensor before it, got 32"},
    {"tensors_that_overlap",
     [] {
       std::string bytes = two_tensors();
       bytes[24 + 9 + 4 + 16 + 4 + 8 + 9 + 4 + 8 + 4] = 0;
       return bytes;
     }(),
     "f: tensor \"b\" offset, expected 32, behind the tensor before it, got 0"},
    {"a_tensor_beyond_the_file", one_tensor(tensor("a", {3}, 0, 0)),
     "f: tensor \"a\", expected 12 bytes from offset 0 on, got data of 8"},
    {"a_tensor_of_all_memory", one_tensor(tensor("a", {1ULL << 60}, 0, 0)),
     "f: tensor \"a\", expected 4611686018427387904 bytes from offset 0 on, got data of 8"},
    {"no_data", start(1, 0) + tensor("a", {1}, 0, 0),
     "f: padding at byte 57, expected 7 bytes, got 0 to the end"},
    {"trailing_bytes", two_tensors() + std::string(32, '\0'),
     "f: data, expected 66 bytes, where the last tensor ends, got 98"},
};

class MalformedGguf : public testing::TestWithParam<Malformed> {};

TEST_P(MalformedGguf, is_an_error_with_this_message) {
  EXPECT_EQ(parse_error(GetParam().bytes), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(Gguf, MalformedGguf, testing::ValuesIn(kMalformed),
                         [](const auto& param) { return std::string(param.param.name); });

RC_GTEST_PROP(Gguf, every_shortened_file_is_an_error, ()) {
  static const std::string kGood = two_tensors();
  const auto size =
      *rc::gen::resize(100, rc::gen::inRange<std::size_t>(0, kGood.size())).as("size");
  RC_ASSERT(parse_error(kGood.substr(0, size)) != "no error");
}

// Anything but an Error, a crash among them, ends the test.
RC_GTEST_PROP(Gguf, any_changed_byte_gives_a_file_or_an_error, (std::uint8_t byte)) {
  std::string bytes = two_tensors();
  const auto at = *rc::gen::resize(100, rc::gen::inRange<std::size_t>(0, bytes.size())).as("at");
  bytes[at] = static_cast<char>(byte);
  (void)parse_error(bytes);
}

}  // namespace
}  // namespace kvcheck
