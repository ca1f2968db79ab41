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

TEST(PublishedConfig, may_be_larger_than_what_is_run) {
  const TemporaryFolder folder;
  write_bytes(folder / "config.json", replaced(kSmall, {": 32", ": 16777216"}));
  EXPECT_EQ(read_published_config(folder.path()).value().shape.context, 16777216);
  EXPECT_EQ(shape_of("llama-3-8b").vocabulary, 128256);
}

// The rules are those of a model with weights.
TEST(PublishedConfig, what_is_wrong_is_named) {
  const TemporaryFolder folder;
  const std::vector<std::pair<std::pair<std::string, std::string>, std::string>> cases{
      {{R"("llama")", R"("gpt_neox")"},
       "config.json: model_type, expected one of gpt2, llama, mistral, qwen2, qwen3, gemma2, got "
       "\"gpt_neox\""},
      {{R"("llama",)", R"("llama", "kv_lora_rank": 4,)"},
       "config.json: unknown key in a configuration of llama, expected keys whose effect on logits "
       "is known, got \"kv_lora_rank\""},
      {{R"("hidden_size": 8)", R"("hidden_size": 0)"},
       "config.json: width, expected 1 to 16777216, got 0"},
      {{R"("num_hidden_layers": 3)", R"("num_hidden_layers": 5000)"},
       "config.json: layers, expected 1 to 4096, got 5000"},
      {{": 32", ": 16777217"}, "config.json: context, expected 1 to 16777216, got 16777217"},
  };
  for (const auto& [by, message] : cases) {
    write_bytes(folder / "config.json", replaced(kSmall, by));
    EXPECT_EQ(error_in(folder, [&] { (void)read_published_config(folder.path()); }), message);
  }
}

TEST(PublishedConfig, a_file_must_name_its_family) {
  const TemporaryFolder folder;
  write_bytes(folder / "some.json", "{}");
  EXPECT_EQ(error_in(folder, [&] { (void)read_published_config(folder / "some.json"); }),
            "some.json: model_type, expected one of gpt2, llama, mistral, qwen2, qwen3, gemma2, "
            "got none");
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
