// SPDX-License-Identifier: MIT
// Configurations survive as text, and every wrong text is called wrong for the right reason.
#include "engine/config_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <ostream>

#include "engine/test_support.h"

namespace kvcheck {
namespace {

constexpr const char* kTinyText = R"({
  "format": "kvcheck-model-1",
  "vocabulary": 2,
  "width": 1,
  "layers": 1,
  "query_heads": 1,
  "kv_heads": 1,
  "head_size": 1,
  "mlp_width": 1,
  "context": 4,
  "norm": "rms",
  "norm_epsilon": 1e-05,
  "positions": "none",
  "rotary_pairs": "halves",
  "rotary_base": 10000.0,
  "mlp": "gelu-tanh",
  "qkv_bias": false,
  "attention_output_bias": false,
  "mlp_bias": false,
  "output": "tied",
  "windows": [0]
})";

TEST(ConfigText, has_all_keys_in_one_order) { EXPECT_EQ(config_text(tiny_config()), kTinyText); }

TEST(ConfigText, has_rare_keys_where_they_say_something) {
  const std::pair<std::string, void (*)(Config&)> rare[] = {
      {"\"rotary_base_windowed\": 100.0", [](Config& c) { c.rotary_base_windowed = 100; }},
      {"\"post_norms\": true", [](Config& c) { c.post_norms = true; }},
      {"\"score_size\": 3.0", [](Config& c) { c.score_size = 3; }},
      {"\"rotary_dimensions\": 2", [](Config& c) { c.rotary_dimensions = 2; }},
      {"\"head_norm\": true", [](Config& c) { c.head_norm = true; }},
      {"\"attention_cap\": 50.0", [](Config& c) { c.attention_cap = 50; }},
      {"\"logit_cap\": 30.0", [](Config& c) { c.logit_cap = 30; }},
      {"\"embedding_scale\": 2.5", [](Config& c) { c.embedding_scale = 2.5; }},
  };
  for (const auto& [line, change] : rare) {
    Config config = tiny_config();
    config.head_size = 2;
    const std::string usual = config_text(config);
    change(config);
    const std::string text = config_text(config);
    EXPECT_THAT(text, testing::HasSubstr(line));
    EXPECT_EQ(text.size(), usual.size() + line.size() + 4) << line;  // a comma, an end, two spaces
    EXPECT_EQ(parse_config(text, "c"), config) << line;
  }
}

RC_GTEST_PROP(ConfigText, is_undone_by_parse_config, (std::uint64_t seed)) {
  const Config config = random_config(seed);
  RC_ASSERT(parse_config(config_text(config), "c") == config);
}

TEST(ParseConfig, takes_defaults_for_keys_that_may_be_absent) {
  const Config config = parse_config(R"({
    "format": "kvcheck-model-1", "vocabulary": 5, "width": 4, "layers": 3, "query_heads": 2,
    "kv_heads": 1, "head_size": 2, "mlp_width": 6, "context": 7, "norm": "layer",
    "positions": "rotary", "mlp": "swiglu", "output": "separate"})",
                                     "c");
  Config expected;
  expected.vocabulary = 5;
  expected.width = 4;
  expected.layers = 3;
  expected.query_heads = 2;
  expected.kv_heads = 1;
  expected.head_size = 2;
  expected.mlp_width = 6;
  expected.context = 7;
  expected.positions = Positions::rotary;
  expected.mlp = Mlp::swiglu;
  expected.output = Output::separate;
  expected.windows = {0, 0, 0};
  EXPECT_EQ(config, expected);
}

TEST(ParseConfig, takes_keys_in_any_order_and_whole_numbers_for_fractions) {
  const Config config = parse_config(R"({"windows": [2],
    "output": "tied", "mlp": "swiglu", "rotary_base": 500, "rotary_pairs": "interleaved",
    "positions": "learned", "norm": "rms", "context": 7, "mlp_width": 6, "head_size": 2,
    "kv_heads": 1, "query_heads": 2, "layers": 1, "width": 4, "vocabulary": 5,
    "format": "kvcheck-model-1"})",
                                     "c");
  EXPECT_EQ(config.rotary_base, 500.0);
  EXPECT_EQ(config.rotary_pairs, RotaryPairs::interleaved);
  EXPECT_EQ(config.windows, std::vector<int>{2});
}

struct Wrong {
  const char* name;
  std::pair<std::string, std::string> change;  // of kTinyText
  const char* message;
};

void PrintTo(const Wrong& wrong, std::ostream* out) { *out << wrong.name; }

const Wrong kWrong[] = {
    {"malformed_json",
     {"\"kvcheck-model-1\",", "\"kvcheck-model-1\""},
     "c: malformed JSON at byte 46 (line 3, column 14), expected JSON, got "
     "\"el-1\"\\n  \"vocabulary\"\""},
    {"no_format",
     {"\"format\": \"kvcheck-model-1\",", ""},
     "c: format, expected \"kvcheck-model-1\", got none"},
    {"another_format",
     {"model-1", "model-2"},
     "c: format, expected \"kvcheck-model-1\", got \"kvcheck-model-2\""},
    {"an_unknown_key",
     {"\"norm_epsilon\"", "\"norm_eps\""},
     "c: unknown key in configuration, expected one of format, vocabulary, width, layers, "
     "query_heads, kv_heads, head_size, mlp_width, context, norm, norm_epsilon, positions, "
     "rotary_pairs, rotary_base, rotary_base_windowed, rotary_dimensions, rotary_divisors, mlp, "
     "qkv_bias, attention_output_bias, mlp_bias, output, windows, head_norm, post_norms, "
     "score_size, attention_cap, logit_cap, embedding_scale, got \"norm_eps\""},
    {"a_key_twice",
     {"\"width\": 1", "\"width\": 1, \"width\": 1"},
     "c: key \"width\", expected it once, got it again"},
    {"no_vocabulary", {"\"vocabulary\": 2,", ""}, "c: vocabulary, expected a value, got none"},
    {"no_width", {"\"width\": 1,", ""}, "c: width, expected a value, got none"},
    {"no_layers", {"\"layers\": 1,", ""}, "c: layers, expected a value, got none"},
    {"no_query_heads", {"\"query_heads\": 1,", ""}, "c: query_heads, expected a value, got none"},
    {"no_kv_heads", {"\"kv_heads\": 1,", ""}, "c: kv_heads, expected a value, got none"},
    {"no_head_size", {"\"head_size\": 1,", ""}, "c: head_size, expected a value, got none"},
    {"no_mlp_width", {"\"mlp_width\": 1,", ""}, "c: mlp_width, expected a value, got none"},
    {"no_context", {"\"context\": 4,", ""}, "c: context, expected a value, got none"},
    {"no_norm", {"\"norm\": \"rms\",", ""}, "c: norm, expected a value, got none"},
    {"no_positions", {"\"positions\": \"none\",", ""}, "c: positions, expected a value, got none"},
    {"no_mlp", {"\"mlp\": \"gelu-tanh\",", ""}, "c: mlp, expected a value, got none"},
    {"no_output", {"\"output\": \"tied\",", ""}, "c: output, expected a value, got none"},
    {"a_fraction_for_a_whole_number",
     {"\"width\": 1", "\"width\": 1.0"},
     "c: width, expected a whole number of 32 bits, got 1.0"},
    {"a_text_for_a_whole_number",
     {"\"width\": 1", "\"width\": \"1\""},
     "c: width, expected a whole number of 32 bits, got \"1\""},
    {"a_whole_number_that_wraps_in_32_bits",
     {"\"width\": 1", "\"width\": 4294967297"},
     "c: width, expected a whole number of 32 bits, got 4294967297"},
    {"a_whole_number_below_32_bits",
     {"\"width\": 1", "\"width\": -2147483649"},
     "c: width, expected a whole number of 32 bits, got -2147483649"},
    {"a_whole_number_that_wraps_in_64_bits",
     {"\"width\": 1", "\"width\": 18446744073709551615"},
     "c: width, expected a whole number of 32 bits, got 18446744073709551615"},
    {"a_whole_number_beyond_64_bits",
     {"\"width\": 1", "\"width\": 18446744073709551617"},
     "c: width, expected a whole number of 32 bits, got 1.8446744073709552e+19"},
    {"a_whole_number_out_of_range",
     {"\"width\": 1", "\"width\": -2147483648"},
     "c: width, expected 1 to 16777216, got -2147483648"},
    {"null_for_a_number", {"1e-05", "null"}, "c: norm_epsilon, expected a number, got null"},
    {"a_text_for_a_number",
     {"10000.0", "\"1e4\""},
     "c: rotary_base, expected a number, got \"1e4\""},
    {"a_number_out_of_range",
     {"1e-05", "1.5"},
     "c: norm_epsilon, expected a number above 0 and below 1, got 1.5"},
    {"a_number_for_a_flag",
     {"\"qkv_bias\": false", "\"qkv_bias\": 0"},
     "c: qkv_bias, expected true or false, got 0"},
    {"an_unknown_norm",
     {"\"rms\"", "\"batch\""},
     "c: norm, expected \"layer\" or \"rms\", got \"batch\""},
    {"a_number_for_a_norm", {"\"rms\"", "1"}, "c: norm, expected \"layer\" or \"rms\", got 1"},
    {"unknown_positions",
     {"\"none\"", "\"absolute\""},
     "c: positions, expected \"none\" or \"learned\" or \"rotary\" or \"alibi\", got "
     "\"absolute\""},
    {"unknown_rotary_pairs",
     {"\"halves\"", "\"Halves\""},
     "c: rotary_pairs, expected \"interleaved\" or \"halves\", got \"Halves\""},
    {"an_unknown_mlp",
     {"\"gelu-tanh\"", "\"gelu\""},
     "c: mlp, expected \"gelu-tanh\" or \"swiglu\" or \"geglu\", got \"gelu\""},
    {"an_unknown_output",
     {"\"tied\"", "true"},
     "c: output, expected \"tied\" or \"separate\", got true"},
    {"one_number_for_all_windows",
     {"[0]", "0"},
     "c: windows, expected an array of whole numbers, got 0"},
    {"a_text_among_the_windows",
     {"[0]", "[\"0\"]"},
     "c: windows, expected a whole number of 32 bits, got \"0\""},
    {"too_many_windows", {"[0]", "[0, 0]"}, "c: windows, expected one number a layer, 1, got 2"},
    {"explicit_windows_for_no_layer",
     {"[0]", "[]"},
     "c: windows, expected one number a layer, 1, got 0"},
    {"a_text_for_a_windowed_base",
     {"\"windows\"", "\"rotary_base_windowed\": \"1e4\", \"windows\""},
     "c: rotary_base_windowed, expected a number, got \"1e4\""},
    {"a_windowed_base_out_of_range",
     {"\"windows\"", "\"rotary_base_windowed\": 0.5, \"windows\""},
     "c: rotary_base_windowed, expected 0 (rotary_base) or a finite number above 1, got 0.5"},
    {"a_fraction_of_dimensions",
     {"\"windows\"", "\"rotary_dimensions\": 0.5, \"windows\""},
     "c: rotary_dimensions, expected a whole number of 32 bits, got 0.5"},
    {"more_dimensions_than_a_head_has",
     {"\"windows\"", "\"rotary_dimensions\": 2, \"windows\""},
     "c: rotary_dimensions, expected 0 (all) or an even number up to head_size 1, got 2"},
    {"a_number_for_a_head_norm",
     {"\"windows\"", "\"head_norm\": 1, \"windows\""},
     "c: head_norm, expected true or false, got 1"},
    {"null_for_an_attention_cap",
     {"\"windows\"", "\"attention_cap\": null, \"windows\""},
     "c: attention_cap, expected a number, got null"},
    {"a_logit_cap_out_of_range",
     {"\"windows\"", "\"logit_cap\": -30, \"windows\""},
     "c: logit_cap, expected 0 (none) or from 0.001 to 1000000, got -30"},
    {"a_flag_for_an_embedding_scale",
     {"\"windows\"", "\"embedding_scale\": true, \"windows\""},
     "c: embedding_scale, expected a number, got true"},
    {"too_many_layers",
     {"\"layers\": 1", "\"layers\": 2147483647"},
     "c: layers, expected 1 to 4096, got 2147483647"},
};

class WrongConfigText : public testing::TestWithParam<Wrong> {};

TEST_P(WrongConfigText, is_an_error_with_this_message) {
  const std::string text = replaced(kTinyText, GetParam().change);
  EXPECT_EQ(error_of([&] { (void)parse_config(text, "c"); }), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(ParseConfig, WrongConfigText, testing::ValuesIn(kWrong),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(ParseConfig, text_that_is_no_object_is_an_error) {
  EXPECT_EQ(error_of([] { (void)parse_config("[1]", "c"); }),
            "c: configuration, expected an object, got [1]");
}

TEST(ParseConfig, absent_windows_of_too_many_layers_allocate_nothing) {
  std::string text = replaced(kTinyText, {"\"layers\": 1", "\"layers\": 2147483647"});
  text = replaced(text, {",\n  \"windows\": [0]", ""});
  EXPECT_EQ(error_of([&] { (void)parse_config(text, "c"); }),
            "c: layers, expected 1 to 4096, got 2147483647");
}

}  // namespace
}  // namespace kvcheck
