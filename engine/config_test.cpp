// SPDX-License-Identifier: MIT
// Which configurations are refused, and in what words.
#include "engine/config.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>
#include <ostream>

#include "engine/test_support.h"

namespace kvcheck {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Wrong {
  const char* name;  // ends "a configuration with ..."
  void (*change)(Config&);
  const char* message;
};

void PrintTo(const Wrong& wrong, std::ostream* out) { *out << wrong.name; }

// Every message of validate(), both ends of every range.
const Wrong kWrong[] = {
    {"no_vocabulary", [](Config& c) { c.vocabulary = 0; },
     "c: vocabulary, expected 1 to 16777216, got 0"},
    {"a_negative_vocabulary", [](Config& c) { c.vocabulary = -1; },
     "c: vocabulary, expected 1 to 16777216, got -1"},
    {"a_huge_vocabulary", [](Config& c) { c.vocabulary = 16777217; },
     "c: vocabulary, expected 1 to 16777216, got 16777217"},
    {"no_width", [](Config& c) { c.width = 0; }, "c: width, expected 1 to 16777216, got 0"},
    {"a_huge_width", [](Config& c) { c.width = 16777217; },
     "c: width, expected 1 to 16777216, got 16777217"},
    {"no_layers", [](Config& c) { c.layers = 0; }, "c: layers, expected 1 to 4096, got 0"},
    {"too_many_layers", [](Config& c) { c.layers = 4097; },
     "c: layers, expected 1 to 4096, got 4097"},
    {"no_query_heads", [](Config& c) { c.query_heads = 0; },
     "c: query_heads, expected 1 to 16777216, got 0"},
    {"huge_query_heads", [](Config& c) { c.query_heads = 16777217; },
     "c: query_heads, expected 1 to 16777216, got 16777217"},
    {"no_kv_heads", [](Config& c) { c.kv_heads = 0; },
     "c: kv_heads, expected 1 to 16777216, got 0"},
    {"huge_kv_heads", [](Config& c) { c.kv_heads = 16777217; },
     "c: kv_heads, expected 1 to 16777216, got 16777217"},
    {"no_head_size", [](Config& c) { c.head_size = 0; },
     "c: head_size, expected 1 to 16777216, got 0"},
    {"a_huge_head_size", [](Config& c) { c.head_size = 16777217; },
     "c: head_size, expected 1 to 16777216, got 16777217"},
    {"no_mlp_width", [](Config& c) { c.mlp_width = 0; },
     "c: mlp_width, expected 1 to 16777216, got 0"},
    {"a_huge_mlp_width", [](Config& c) { c.mlp_width = 16777217; },
     "c: mlp_width, expected 1 to 16777216, got 16777217"},
    {"no_context", [](Config& c) { c.context = 0; }, "c: context, expected 1 to 16777216, got 0"},
    {"a_huge_context", [](Config& c) { c.context = 16777217; },
     "c: context, expected 1 to 16777216, got 16777217"},
    {"a_huge_query_width", [](Config& c) { c.query_heads = c.head_size = 4097; },
     "c: query_heads x head_size, expected 1 to 16777216, got 16785409"},
    {"query_heads_that_do_not_fill_the_groups",
     [](Config& c) { c.query_heads = 3, c.kv_heads = 2; },
     "c: query_heads, expected a multiple of kv_heads 2, got 3"},
    {"more_kv_heads_than_query_heads", [](Config& c) { c.kv_heads = 2; },
     "c: query_heads, expected a multiple of kv_heads 2, got 1"},
    {"an_odd_head_that_rotates", [](Config& c) { c.positions = Positions::rotary; },
     "c: head_size, expected an even number for rotary positions, got 1"},
    {"no_norm_epsilon", [](Config& c) { c.norm_epsilon = 0; },
     "c: norm_epsilon, expected a number above 0 and below 1, got 0"},
    {"a_large_norm_epsilon", [](Config& c) { c.norm_epsilon = 1; },
     "c: norm_epsilon, expected a number above 0 and below 1, got 1"},
    {"norm_epsilon_nan", [](Config& c) { c.norm_epsilon = kNan; },
     "c: norm_epsilon, expected a number above 0 and below 1, got nan"},
    {"rotary_base_1", [](Config& c) { c.rotary_base = 1; },
     "c: rotary_base, expected a finite number above 1, got 1"},
    {"an_infinite_rotary_base", [](Config& c) { c.rotary_base = kInfinity; },
     "c: rotary_base, expected a finite number above 1, got inf"},
    {"rotary_base_nan", [](Config& c) { c.rotary_base = kNan; },
     "c: rotary_base, expected a finite number above 1, got nan"},
    {"rotary_base_windowed_1", [](Config& c) { c.rotary_base_windowed = 1; },
     "c: rotary_base_windowed, expected 0 (rotary_base) or a finite number above 1, got 1"},
    {"a_negative_rotary_base_windowed", [](Config& c) { c.rotary_base_windowed = -100; },
     "c: rotary_base_windowed, expected 0 (rotary_base) or a finite number above 1, got -100"},
    {"an_infinite_rotary_base_windowed", [](Config& c) { c.rotary_base_windowed = kInfinity; },
     "c: rotary_base_windowed, expected 0 (rotary_base) or a finite number above 1, got inf"},
    {"rotary_base_windowed_nan", [](Config& c) { c.rotary_base_windowed = kNan; },
     "c: rotary_base_windowed, expected 0 (rotary_base) or a finite number above 1, got nan"},
    {"odd_rotary_dimensions", [](Config& c) { c.head_size = 4, c.rotary_dimensions = 3; },
     "c: rotary_dimensions, expected 0 (all) or an even number up to head_size 4, got 3"},
    {"too_many_rotary_dimensions", [](Config& c) { c.head_size = 4, c.rotary_dimensions = 6; },
     "c: rotary_dimensions, expected 0 (all) or an even number up to head_size 4, got 6"},
    {"negative_rotary_dimensions", [](Config& c) { c.head_size = 4, c.rotary_dimensions = -2; },
     "c: rotary_dimensions, expected 0 (all) or an even number up to head_size 4, got -2"},
    {"a_negative_attention_cap", [](Config& c) { c.attention_cap = -1; },
     "c: attention_cap, expected 0 (none) or from 0.001 to 1000000, got -1"},
    {"a_tiny_attention_cap", [](Config& c) { c.attention_cap = 1e-4; },
     "c: attention_cap, expected 0 (none) or from 0.001 to 1000000, got 0.0001"},
    {"attention_cap_nan", [](Config& c) { c.attention_cap = kNan; },
     "c: attention_cap, expected 0 (none) or from 0.001 to 1000000, got nan"},
    {"an_infinite_logit_cap", [](Config& c) { c.logit_cap = kInfinity; },
     "c: logit_cap, expected 0 (none) or from 0.001 to 1000000, got inf"},
    {"no_embedding_scale", [](Config& c) { c.embedding_scale = 0; },
     "c: embedding_scale, expected a number from 0.001 to 1000000, got 0"},
    {"embedding_scale_nan", [](Config& c) { c.embedding_scale = kNan; },
     "c: embedding_scale, expected a number from 0.001 to 1000000, got nan"},
    {"no_windows", [](Config& c) { c.windows.clear(); },
     "c: windows, expected one number a layer, 1, got 0"},
    {"too_many_windows",
     [](Config& c) {
       c.windows = {0, 0};
     },
     "c: windows, expected one number a layer, 1, got 2"},
    {"a_negative_window", [](Config& c) { c.windows = {-1}; },
     "c: windows, expected 0 (all) or more, got -1"},
    {"weights_beyond_memory", [](Config& c) { c.vocabulary = c.width = 1 << 16; },
     "c: weights, expected at most 8589934592 bytes, got about 3.44e+10 bytes"},
    {"a_cache_beyond_memory", [](Config& c) { c.context = c.query_heads = c.kv_heads = 1 << 15; },
     "c: cache at full context, expected at most 8589934592 bytes, got about 1.72e+10 bytes"},
};

class WrongConfig : public testing::TestWithParam<Wrong> {};

TEST_P(WrongConfig, is_an_error_with_this_message) {
  Config config = tiny_config();
  GetParam().change(config);
  EXPECT_EQ(error_of([&] { validate(config, "c"); }), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(Config, WrongConfig, testing::ValuesIn(kWrong),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(Config, of_the_smallest_decoder_is_valid) {
  EXPECT_EQ(error_of([] { validate(tiny_config(), "c"); }), "no error");
}

TEST(Config, an_odd_head_is_fine_where_nothing_rotates) {
  Config config = tiny_config();
  config.head_size = 3;
  EXPECT_EQ(error_of([&] { validate(config, "c"); }), "no error");
}

RC_GTEST_PROP(Config, drawn_at_random_is_valid, (std::uint64_t seed)) {
  RC_ASSERT(error_of([&] { validate(random_config(seed), "c"); }) == "no error");
}

TEST(Config, numbers_at_their_ends_never_overflow) {
  // With the sanitizers on, any overflow on the way to the message ends the test.
  const int ends[] = {std::numeric_limits<int>::min(), 1 << 24, std::numeric_limits<int>::max()};
  for (const int end : ends) {
    Config config = tiny_config();
    config.vocabulary = config.width = config.query_heads = config.kv_heads = end;
    config.head_size = config.mlp_width = config.context = end;
    EXPECT_NE(error_of([&] { validate(config, "c"); }), "no error");
  }
}

TEST(Config, groups_query_heads_by_kv_head) {
  Config config = tiny_config();
  config.query_heads = 6;
  config.kv_heads = 2;
  config.head_size = 5;
  EXPECT_EQ(config.group(), 3);
  EXPECT_EQ(config.query_width(), 30);
  EXPECT_EQ(config.kv_width(), 10);
}

TEST(Config, a_window_counts_the_query_itself) {
  Config config = tiny_config();
  config.layers = 3;
  config.windows = {0, 1, 3};
  for (const int position : {0, 1, 7}) {
    EXPECT_EQ(config.first_visible(0, position), 0);
    EXPECT_EQ(config.first_visible(1, position), position);
  }
  EXPECT_EQ(config.first_visible(2, 2), 0);
  EXPECT_EQ(config.first_visible(2, 3), 1);
  EXPECT_EQ(config.first_visible(2, 7), 5);
}

TEST(Config, an_odd_head_may_rotate_in_part) {
  Config config = tiny_config();
  config.positions = Positions::rotary;
  config.head_size = 5;
  config.rotary_dimensions = 4;
  EXPECT_EQ(error_of([&] { validate(config, "c"); }), "no error");
  EXPECT_EQ(config.rotated(), 4);
  config.rotary_dimensions = 0;
  EXPECT_EQ(config.rotated(), 5);
}

TEST(Config, layers_with_a_window_may_have_a_rotary_base_of_their_own) {
  Config config = tiny_config();
  config.layers = 3;
  config.windows = {4, 0, 2};
  EXPECT_EQ(config.rotary_bases(), std::vector<double>{}) << "nothing rotates";
  config.positions = Positions::rotary;
  config.rotary_base = 500;
  EXPECT_EQ(config.rotary_bases(), std::vector<double>{500});
  for (int l = 0; l < 3; ++l) EXPECT_EQ(config.rotary_base_of(l), 0);
  config.rotary_base_windowed = 20;
  EXPECT_EQ(config.rotary_bases(), (std::vector<double>{500, 20}));
  EXPECT_EQ(config.rotary_base_of(0), 1);
  EXPECT_EQ(config.rotary_base_of(1), 0);
  EXPECT_EQ(config.rotary_base_of(2), 1);
}

TEST(Config, a_cache_holds_keys_and_values_of_every_layer) {
  Config config = tiny_config();
  config.layers = 2;
  config.kv_heads = 3;
  config.head_size = 5;
  EXPECT_EQ(cache_bytes(config, 7, 4), 2 * 2 * 7 * 3 * 5 * 4);
  config.layers = 4096;
  config.kv_heads = config.head_size = 1 << 12;
  EXPECT_EQ(cache_bytes(config, 1 << 12, 8), std::int64_t{1} << (1 + 12 + 12 + 24 + 3));
}

TEST(Config, choices_have_the_names_of_the_file_format) {
  EXPECT_EQ(name(Norm::layer), "layer");
  EXPECT_EQ(name(Norm::rms), "rms");
  EXPECT_EQ(name(Positions::none), "none");
  EXPECT_EQ(name(Positions::learned), "learned");
  EXPECT_EQ(name(Positions::rotary), "rotary");
  EXPECT_EQ(name(Positions::alibi), "alibi");
  EXPECT_EQ(name(RotaryPairs::interleaved), "interleaved");
  EXPECT_EQ(name(RotaryPairs::halves), "halves");
  EXPECT_EQ(name(Mlp::gelu_tanh), "gelu-tanh");
  EXPECT_EQ(name(Mlp::swiglu), "swiglu");
  EXPECT_EQ(name(Output::tied), "tied");
  EXPECT_EQ(name(Output::separate), "separate");
}

}  // namespace
}  // namespace kvcheck
