// SPDX-License-Identifier: MIT
// Weights survive a file to the last bit, and no hostile file gets through or breaks anything.
#include "engine/safetensors.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstring>
#include <limits>
#include <ostream>

#include "engine/error.h"
#include "engine/test_support.h"

namespace kvcheck {
namespace {

namespace fs = std::filesystem;

// What write_safetensors makes of tiny_config(), without the padding: 11 numbers, 44 bytes.
const std::string kHeader =
    R"({"embedding":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
    R"("layers.0.attention_norm.scale":{"dtype":"F32","shape":[1],"data_offsets":[8,12]},)"
    R"("layers.0.query.weight":{"dtype":"F32","shape":[1,1],"data_offsets":[12,16]},)"
    R"("layers.0.key.weight":{"dtype":"F32","shape":[1,1],"data_offsets":[16,20]},)"
    R"("layers.0.value.weight":{"dtype":"F32","shape":[1,1],"data_offsets":[20,24]},)"
    R"("layers.0.attention_output.weight":{"dtype":"F32","shape":[1,1],"data_offsets":[24,28]},)"
    R"("layers.0.mlp_norm.scale":{"dtype":"F32","shape":[1],"data_offsets":[28,32]},)"
    R"("layers.0.mlp_up.weight":{"dtype":"F32","shape":[1,1],"data_offsets":[32,36]},)"
    R"("layers.0.mlp_down.weight":{"dtype":"F32","shape":[1,1],"data_offsets":[36,40]},)"
    R"("final_norm.scale":{"dtype":"F32","shape":[1],"data_offsets":[40,44]}})";
const std::string kData(44, '\0');

std::string length_bytes(std::uint64_t length) {
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes;
}

std::string whole(const std::string& header, const std::string& data) {
  return length_bytes(header.size()) + header + data;
}

std::string with_header(const std::string& from, const std::string& to) {
  return whole(replaced(kHeader, {from, to}), kData);
}

std::string with_number(std::size_t index, float value) {
  std::string data = kData;
  std::memcpy(&data[4 * index], &value, sizeof value);
  return whole(kHeader, data);
}

std::string read_error(const std::string& bytes) {
  const TemporaryFolder folder;
  write_bytes(folder / "f", bytes);
  return error_in(folder, [&] { (void)read_safetensors(folder / "f", tiny_config()); });
}

void write_model(const fs::path& path, const Model<float>& model) {
  OutputFile file(path);
  write_safetensors(file, model);
  file.finish();
  file.commit();
}

struct Malformed {
  const char* name;
  std::string bytes;
  std::string message;
};

void PrintTo(const Malformed& malformed, std::ostream* out) { *out << malformed.name; }

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();

// Mostly one change to the first entry, or to the one that a message names.
const Malformed kMalformed[] = {
    {"an_empty_file", "", "f: header length, expected 8 bytes, got a file of 0"},
    {"a_file_of_7_bytes", "1234567", "f: header length, expected 8 bytes, got a file of 7"},
    {"no_header", length_bytes(0),
     "f: malformed JSON at byte 1 (line 1, column 1), expected JSON, got the end of the text"},
    {"a_header_longer_than_the_file", length_bytes(3) + "{}",
     "f: header length, expected at most 2 bytes, got 3"},
    {"a_header_of_all_memory", length_bytes(kMost) + "{}",
     "f: header length, expected at most 2 bytes, got 18446744073709551615"},
    {"a_header_length_that_wraps_round", length_bytes(kMost - 7) + "{}",
     "f: header length, expected at most 2 bytes, got 18446744073709551608"},
    {"a_header_that_is_cut", whole("{\"embedding\":", kData),
     "f: malformed JSON at byte 14 (line 1, column 14), expected JSON, got the end of the text"},
    {"zeros_for_a_header", whole(std::string(8, '\0'), kData),
     "f: malformed JSON at byte 1, expected JSON, got a byte of zero"},
    {"an_array_for_a_header", whole("[]", kData), "f: header, expected an object, got []"},
    {"deep_nesting", whole("{\"embedding\":" + std::string(100'000, '['), kData),
     "f: JSON, expected at most 32 levels, got more"},
    {"no_tensors", whole("{}", ""), "f: tensor \"embedding\", expected F32 [2, 1], got none"},
    {"a_number_for_an_entry",
     with_header(R"({"dtype":"F32","shape":[2,1],"data_offsets":[0,8]})", "1"),
     "f: tensor \"embedding\", expected an object, got 1"},
    {"an_entry_with_an_unknown_key", with_header("\"dtype\"", "\"x\":0,\"dtype\""),
     "f: unknown key in tensor \"embedding\", expected one of dtype, shape, data_offsets, got "
     "\"x\""},
    {"no_dtype", with_header("\"dtype\":\"F32\",", ""),
     "f: tensor \"embedding\" dtype, expected \"F32\", got none"},
    {"another_dtype", with_header("F32", "BF16"),
     "f: tensor \"embedding\" dtype, expected \"F32\", got \"BF16\""},
    {"a_number_for_a_dtype", with_header("\"F32\"", "32"),
     "f: tensor \"embedding\" dtype, expected \"F32\", got 32"},
    {"no_shape", with_header("\"shape\":[2,1],", ""),
     "f: tensor \"embedding\" shape, expected an array of whole numbers, got none"},
    {"a_number_for_a_shape", with_header("[2,1]", "2"),
     "f: tensor \"embedding\" shape, expected an array of whole numbers, got 2"},
    {"a_text_in_a_shape", with_header("[2,1]", "[2,\"1\"]"),
     "f: tensor \"embedding\" shape, expected an array of whole numbers, got [2,\"1\"]"},
    {"a_negative_extent", with_header("[2,1]", "[-2,-1]"),
     "f: tensor \"embedding\" shape, expected an array of whole numbers, got [-2,-1]"},
    {"a_fractional_extent", with_header("[2,1]", "[2.0,1]"),
     "f: tensor \"embedding\" shape, expected an array of whole numbers, got [2.0,1]"},
    {"an_extent_beyond_63_bits", with_header("[2,1]", "[9223372036854775808]"),
     "f: tensor \"embedding\" shape, expected an array of whole numbers, got "
     "[9223372036854775808]"},
    {"a_shape_whose_product_overflows", with_header("[2,1]", "[4294967296,4294967296]"),
     "f: tensor \"embedding\" shape, expected fewer than 2^63 bytes, got [4294967296, "
     "4294967296]"},
    {"a_shape_whose_product_wraps_round_to_the_right_size",
     with_header("[2,1]", "[9223372036854775807,2,4611686018427387905]"),
     "f: tensor \"embedding\" shape, expected fewer than 2^63 bytes, got [9223372036854775807, 2, "
     "4611686018427387905]"},
    {"another_shape", with_header("[2,1]", "[1,2]"),
     "f: tensor \"embedding\" shape, expected [2, 1], got [1, 2]"},
    {"another_rank", with_header("[2,1]", "[2]"),
     "f: tensor \"embedding\" shape, expected [2, 1], got [2]"},
    {"no_offsets", with_header(",\"data_offsets\":[0,8]", ""),
     "f: tensor \"embedding\" data_offsets, expected two whole numbers, got none"},
    {"one_offset", with_header("[0,8]", "[0]"),
     "f: tensor \"embedding\" data_offsets, expected two whole numbers, got [0]"},
    {"three_offsets", with_header("[0,8]", "[0,8,8]"),
     "f: tensor \"embedding\" data_offsets, expected two whole numbers, got [0,8,8]"},
    {"a_negative_offset", with_header("[0,8]", "[-8,0]"),
     "f: tensor \"embedding\" data_offsets, expected two whole numbers, got [-8,0]"},
    {"reversed_offsets", with_header("[0,8]", "[8,0]"),
     "f: tensor \"embedding\" data_offsets, expected begin before end, got [8, 0]"},
    {"offsets_beyond_the_file", with_header("[0,8]", "[40,48]"),
     "f: tensor \"embedding\" data_offsets, expected at most 44, got [40, 48]"},
    {"offsets_of_another_size", with_header("[0,8]", "[0,4]"),
     "f: tensor \"embedding\" data_offsets, expected 8 bytes for shape [2, 1], got [0, 4]"},
    {"a_tensor_missing", with_header("\"embedding\"", "\"embeddings\""),
     "f: tensor \"embedding\", expected F32 [2, 1], got none"},
    {"a_tensor_unknown",
     with_header("{\"emb", R"({"a\nb":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"emb)"),
     "f: unknown tensor, expected only those that the configuration implies, got \"a\\nb\""},
    {"a_tensor_twice", with_header("final_norm.scale", "embedding"),
     "f: key \"embedding\", expected it once, got it again"},
    {"tensors_that_overlap", with_header("[12,16]", "[8,12]"),
     "f: tensor \"layers.0.query.weight\" data_offsets, expected begin 12, where the tensor before "
     "it ends, got 8"},
    {"a_hole_between_tensors",
     whole(replaced(kHeader, {"[40,44]", "[44,48]"}), std::string(48, '\0')),
     "f: tensor \"final_norm.scale\" data_offsets, expected begin 40, where the tensor before it "
     "ends, got 44"},
    {"a_hole_before_the_first_tensor",
     whole(replaced(kHeader, {"[0,8]", "[44,52]"}), std::string(52, '\0')),
     "f: tensor \"layers.0.attention_norm.scale\" data_offsets, expected begin 0, where the tensor "
     "before it ends, got 8"},
    {"trailing_bytes", whole(kHeader, kData + "x"),
     "f: data, expected 44 bytes, where the last tensor ends, got 45"},
    {"missing_bytes", whole(kHeader, kData.substr(1)),
     "f: tensor \"final_norm.scale\" data_offsets, expected at most 43, got [40, 44]"},
    {"metadata_that_is_no_object", with_header("{\"emb", "{\"__metadata__\":1,\"emb"),
     "f: __metadata__, expected an object, got 1"},
    {"metadata_that_is_no_text", with_header("{\"emb", "{\"__metadata__\":{\"a\":1},\"emb"),
     "f: __metadata__, expected texts, got 1"},
    {"nan", with_number(1, kNan),
     "f: tensor \"embedding\" number 1, expected a finite number, got nan"},
    {"infinity", with_number(2, kInfinity),
     "f: tensor \"layers.0.attention_norm.scale\" number 0, expected a finite number, got inf"},
    {"minus_infinity_at_the_end", with_number(10, -kInfinity),
     "f: tensor \"final_norm.scale\" number 0, expected a finite number, got -inf"},
};

class MalformedSafetensors : public testing::TestWithParam<Malformed> {};

TEST_P(MalformedSafetensors, is_an_error_with_this_message) {
  EXPECT_EQ(read_error(GetParam().bytes), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(Safetensors, MalformedSafetensors, testing::ValuesIn(kMalformed),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(Safetensors, the_untouched_example_is_fine) {
  EXPECT_EQ(read_error(whole(kHeader, kData)), "no error");
  EXPECT_EQ(read_error(whole(kHeader + "    ", kData)), "no error");
}

TEST(Safetensors, is_written_like_the_example) {
  const TemporaryFolder folder;
  write_model(folder / "f", make_model<float>(tiny_config()));
  const std::string padding((8 - kHeader.size() % 8) % 8, ' ');
  EXPECT_EQ(read_bytes(folder / "f"), whole(kHeader + padding, kData));
}

TEST(Safetensors, metadata_is_allowed) {
  EXPECT_EQ(read_error(with_header("{\"emb", R"({"__metadata__":{"format":"pt"},"emb)")),
            "no error");
}

TEST(Safetensors, tensors_may_lie_in_any_order) {
  const TemporaryFolder folder;
  const std::string header = replaced(replaced(kHeader, {"[36,40]", "[40,44]"}),
                                      {"_norm.scale\":{\"dtype\":\"F32\","
                                       "\"shape\":[1],\"data_offsets\":[40,44]",
                                       "_norm.scale\":{\"dtype\":\"F32\","
                                       "\"shape\":[1],\"data_offsets\":[36,40]"});
  std::string data = kData;
  const float value = 2.0F;
  std::memcpy(&data[36], &value, sizeof value);
  write_bytes(folder / "f", whole(header, data));
  const auto model = read_safetensors(folder / "f", tiny_config());
  EXPECT_EQ(model.final_norm.scale(0), 2.0F);
  EXPECT_EQ(model.layers[0].mlp_down.weight(0, 0), 0.0F);
}

TEST(Safetensors, a_tied_output_follows_the_embedding) {
  const TemporaryFolder folder;
  write_bytes(folder / "f", with_number(1, 3.0F));
  const auto model = read_safetensors(folder / "f", tiny_config());
  EXPECT_EQ(model.embedding(1, 0), 3.0F);
  EXPECT_EQ(model.output(0, 1), 3.0F);
}

TEST(Safetensors, weights_that_a_file_only_claims_are_not_allocated) {
  Config config = tiny_config();
  config.vocabulary = config.width = 1 << 14;  // 1 GB of embedding
  const TemporaryFolder folder;
  write_bytes(folder / "f", with_header("[2,1]", "[16384,16384]"));
  EXPECT_EQ(error_in(folder, [&] { (void)read_safetensors(folder / "f", config); }),
            "f: tensor \"embedding\" data_offsets, expected 1073741824 bytes for shape [16384, "
            "16384], got [0, 8]");
}

TEST(Safetensors, a_header_of_more_than_100_megabytes_is_not_read) {
  const TemporaryFolder folder;
  write_bytes(folder / "f", length_bytes(100'000'001));
  fs::resize_file(folder / "f", 200'000'000);
  EXPECT_EQ(error_in(folder, [&] { (void)read_safetensors(folder / "f", tiny_config()); }),
            "f: header length, expected at most 100000000 bytes, got 100000001");
}

TEST(Safetensors, a_missing_file_is_an_error) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_in(folder, [&] { (void)read_safetensors(folder / "f", tiny_config()); }),
            "f: file, expected a readable regular file, got none");
}

TEST(Safetensors, a_weight_that_is_not_finite_is_not_written) {
  const TemporaryFolder folder;
  auto model = make_model<float>(tiny_config());
  model.final_norm.scale(0) = -kNan;
  EXPECT_EQ(error_in(folder, [&] { write_model(folder / "f", model); }),
            "f: tensor \"final_norm.scale\" number 0, expected a finite number, got -nan");
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

RC_GTEST_PROP(Safetensors, reading_gives_back_every_bit_that_was_written, (std::uint64_t seed)) {
  const TemporaryFolder folder;
  const auto model = random_model(random_config(seed), seed);
  write_model(folder / "f", model);
  const auto again = read_safetensors(folder / "f", model.config);
  RC_ASSERT(weight_bits(again) == weight_bits(model));
  RC_ASSERT((again.output.array() == model.output.array()).all());
}

// Anything but an Error, a crash among them, ends the test.
RC_GTEST_PROP(Safetensors, any_changed_bytes_give_a_model_or_an_error, ()) {
  static const std::string kGood = whole(kHeader, kData);
  std::string bytes = kGood;
  const int changes = *rc::gen::inRange(1, 5).as("changes");
  for (int i = 0; i < changes; ++i) {
    const auto at = *rc::gen::resize(100, rc::gen::inRange<std::size_t>(0, kGood.size())).as("at");
    bytes[at] = *rc::gen::element('{', '}', '[', ']', '"', ',', ':', '-', '0', '9', 'e', '\xff');
  }
  (void)read_error(bytes);
}

RC_GTEST_PROP(Safetensors, every_shortened_file_is_an_error, ()) {
  static const std::string kGood = whole(kHeader, kData);
  const auto size =
      *rc::gen::resize(100, rc::gen::inRange<std::size_t>(0, kGood.size())).as("size");
  RC_ASSERT(read_error(kGood.substr(0, size)) != "no error");
}

}  // namespace
}  // namespace kvcheck
