// SPDX-License-Identifier: MIT
// Shape facts of published configurations, and what is wrong with bad ones.
#include "engine/published_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "engine/cost.h"
#include "engine/test_support.h"

namespace kvcheck {
namespace {

Config shape_of(const std::string& name) {
  return read_published_config(std::string(KVCHECK_FIXTURES_DIR) + "/published/" + name)
      .value()
      .shape;
}

Count bytes(const Config& config, const char* kind, std::int64_t rows) {
  return cache_kind_bytes(config, cache_kind(kind, "test"), rows, 2).held;
}

TEST(PublishedConfig, bytes_of_a_token_in_16_bit) {
  EXPECT_EQ(bytes(shape_of("llama-3-8b"), "flat", 1).value(), 131072);
  EXPECT_EQ(bytes(shape_of("mistral-7b"), "flat", 1).value(), 131072);
  EXPECT_EQ(bytes(shape_of("qwen2.5-7b"), "flat", 1).value(), 57344);
  EXPECT_EQ(bytes(shape_of("gemma-2-9b"), "flat", 1).value(), 344064);
}

TEST(PublishedConfig, windows_bound_a_ring) {
  const Config mistral = shape_of("mistral-7b");
  EXPECT_EQ(bytes(mistral, "ring", 4096).value(), std::int64_t{4096} * 131072);
  EXPECT_EQ(bytes(mistral, "ring", 4097).value(), std::int64_t{4096} * 131072);
  EXPECT_EQ(bytes(mistral, "flat", 4097).value(), std::int64_t{4097} * 131072);
  // Every other layer of Gemma 2 has a window, the first one among them.
  const Config gemma = shape_of("gemma-2-9b");
  EXPECT_EQ(gemma.windows[0], 4096);
  EXPECT_EQ(gemma.windows[1], 0);
  EXPECT_EQ(bytes(gemma, "ring", 8192).value(), std::int64_t{4096 + 8192} * 344064 / 2);
  for (const int window : shape_of("qwen2.5-7b").windows) EXPECT_EQ(window, 0);
}

const std::string kSmall =
    R"({"model_type": "llama", "vocab_size": 10, "hidden_size": 8, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 16,
        "max_position_embeddings": 32})";

TEST(PublishedConfig, defaults_are_those_of_the_form) {
  const TemporaryFolder folder;
  const auto read = [&](const std::string& text) {
    write_bytes(folder / "config.json", text);
    return read_published_config(folder.path()).value().shape;
  };
  const Config plain = read(kSmall);
  EXPECT_EQ(plain.head_size, 2);
  EXPECT_EQ(plain.output, Output::separate);
  EXPECT_FALSE(plain.qkv_bias);
  EXPECT_EQ(read(replaced(kSmall, {R"("num_key_value_heads": 2,)", ""})).kv_heads, 4);
  const Config qwen = read(replaced(kSmall, {R"("llama",)", R"("qwen2", "use_sliding_window": true,
        "sliding_window": 5, "max_window_layers": 2,)"}));
  EXPECT_EQ(qwen.windows, (std::vector{0, 0, 5}));
  EXPECT_TRUE(qwen.qkv_bias);
  EXPECT_FALSE(qwen.attention_output_bias);
  EXPECT_EQ(
      read(replaced(kSmall, {R"("llama",)", R"("mistral", "sliding_window": null,)"})).windows,
      (std::vector{0, 0, 0}));
  EXPECT_EQ(
      read(replaced(kSmall, {R"("llama",)", R"("gemma2", "head_dim": 6, "sliding_window": 4,)"}))
          .query_width(),
      24);
}

TEST(PublishedConfig, what_is_wrong_is_named) {
  const TemporaryFolder folder;
  const std::vector<std::pair<std::pair<std::string, std::string>, std::string>> cases{
      {{R"("llama")", R"("gpt_neox")"},
       R"(config.json: model_type, expected llama, mistral, qwen2 or gemma2, got "gpt_neox")"},
      {{R"("llama")", "7"},
       "config.json: model_type, expected llama, mistral, qwen2 or gemma2, got 7"},
      {{R"("vocab_size": 10,)", ""},
       "config.json: vocab_size, expected a whole number from 1 to 16777216, got none"},
      {{R"("hidden_size": 8)", R"("hidden_size": 0)"},
       "config.json: hidden_size, expected a whole number from 1 to 16777216, got 0"},
      {{R"("hidden_size": 8)", R"("hidden_size": -8)"},
       "config.json: hidden_size, expected a whole number from 1 to 16777216, got -8"},
      {{R"("num_hidden_layers": 3)", R"("num_hidden_layers": 1e18)"},
       "config.json: num_hidden_layers, expected a whole number from 1 to 4096, got 1e+18"},
      {{R"("num_key_value_heads": 2)", R"("num_key_value_heads": 3)"},
       "config.json: num_attention_heads, expected a multiple of num_key_value_heads 3, got 4"},
      {{R"("num_attention_heads": 4)", R"("num_attention_heads": 16)"},
       "config.json: head_dim, expected 1 to 16777216 in all heads, got 0"},
      {{R"("llama")", R"("mistral")"},
       "config.json: sliding_window, expected a whole number from 1 to 16777216, got none"},
      {{R"("llama", "vocab_size": 10, "hidden_size": 8, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 2,)",
        R"("qwen2", "vocab_size": 10, "hidden_size": 8, "num_hidden_layers": 3,
        "num_attention_heads": 4,)"},
       "config.json: num_key_value_heads, expected a whole number from 1 to 16777216, got none"},
      {{R"("llama")", R"("gemma2")"},
       "config.json: head_dim, expected a whole number from 1 to 16777216, got none"},
      {{R"("hidden_size": 8)", R"("hidden_size": 9)"},
       "config.json: hidden_size, expected a multiple of 4 heads, got 9"},
      {{R"("llama",)", R"("llama", "tie_word_embeddings": "no",)"},
       R"(config.json: tie_word_embeddings, expected true or false, got "no")"},
  };
  for (const auto& [by, message] : cases) {
    write_bytes(folder / "config.json", replaced(kSmall, by));
    EXPECT_EQ(error_in(folder, [&] { (void)read_published_config(folder.path()); }), message);
  }
}

TEST(PublishedConfig, other_files_are_none) {
  const TemporaryFolder folder;
  EXPECT_FALSE(read_published_config(folder.path()).has_value());
  EXPECT_FALSE(read_published_config(std::string(KVCHECK_FIXTURES_DIR) + "/chapter8").has_value());
  EXPECT_TRUE(
      read_published_config(std::string(KVCHECK_FIXTURES_DIR) + "/published/llama-3-8b/config.json")
          .has_value());
}

}  // namespace
}  // namespace kvcheck
