// SPDX-License-Identifier: MIT
// What transformers writes into config.json is understood, has no effect, or is refused by name.
#include "engine/hf_config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>

#include "engine/strict_json.h"
#include "engine/test_support.h"

namespace kvcheck {
namespace {

const std::string kLlama = R"({"model_type": "llama", "hidden_size": 8, "intermediate_size": 12,
  "num_hidden_layers": 3, "num_attention_heads": 2, "vocab_size": 13,
  "max_position_embeddings": 16, "end": 0})";

const std::string kGpt2 = R"({"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 2,
  "n_positions": 16, "vocab_size": 13, "end": 0})";

// With `more` keys in the place of "end"; other families by their names.
std::string text_of(const std::string& base, const std::string& type, const std::string& more) {
  const std::string typed = base == kGpt2 ? base : replaced(base, {"llama", type});
  return replaced(typed, {more.empty() ? ", \"end\": 0" : "\"end\": 0", more});
}

Config parsed(const std::string& text) {
  return parse_hf_config(parse_json(text, "c"), "c").config;
}

Config parsed(const std::string& type, const std::string& more) {
  return parsed(text_of(kLlama, type, more));
}

TEST(HfConfig, a_llama_has_these_defaults) {
  const Config config = parsed("llama", "");
  Config expected;
  expected.vocabulary = 13;
  expected.width = 8;
  expected.layers = 3;
  expected.query_heads = expected.kv_heads = 2;
  expected.head_size = 4;
  expected.mlp_width = 12;
  expected.context = 16;
  expected.norm = Norm::rms;
  expected.norm_epsilon = 1e-6;
  expected.positions = Positions::rotary;
  expected.mlp = Mlp::swiglu;
  expected.output = Output::separate;
  expected.windows = {0, 0, 0};
  EXPECT_EQ(config, expected);
}

TEST(HfConfig, a_gpt2_has_these_defaults) {
  const Config config = parsed(text_of(kGpt2, "gpt2", ""));
  EXPECT_EQ(config.mlp_width, 32);
  EXPECT_EQ(config.norm, Norm::layer);
  EXPECT_EQ(config.positions, Positions::learned);
  EXPECT_EQ(config.mlp, Mlp::gelu_tanh);
  EXPECT_EQ(config.output, Output::tied);
  EXPECT_TRUE(config.qkv_bias && config.attention_output_bias && config.mlp_bias);
}

TEST(HfConfig, windows_are_those_of_the_family) {
  using Windows = std::vector<int>;
  const std::string kv = R"("num_key_value_heads": 1, "sliding_window": 5)";
  EXPECT_EQ(parsed("mistral", kv).windows, (Windows{5, 5, 5}));
  EXPECT_EQ(parsed("mistral", R"("num_key_value_heads": 1, "sliding_window": null)").windows,
            (Windows{0, 0, 0}));
  EXPECT_EQ(parsed("qwen2", kv).windows, (Windows{0, 0, 0})) << "it is not used";
  const std::string used = kv + R"(, "use_sliding_window": true, )";
  EXPECT_EQ(parsed("qwen2", used + R"("max_window_layers": 1)").windows, (Windows{0, 5, 5}));
  EXPECT_EQ(parsed("qwen2", used + R"("layer_types":
      ["sliding_attention", "full_attention", "sliding_attention"])")
                .windows,
            (Windows{5, 0, 5}));
  EXPECT_EQ(parsed("gemma2", kv + R"(, "head_dim": 4, "query_pre_attn_scalar": 4,
      "attn_logit_softcapping": null, "final_logit_softcapping": null)")
                .windows,
            (Windows{5, 0, 5}));
}

TEST(HfConfig, a_context_that_no_cache_would_hold_is_cut) {
  const std::string text = replaced(text_of(kLlama, "llama", ""), {": 16", ": 131072"});
  EXPECT_EQ(parsed(text).context, kStoredContextMax);
}

TEST(HfConfig, rotary_frequencies_are_scaled) {
  EXPECT_EQ(parsed("llama", R"("rope_scaling": {"type": "linear", "factor": 4})").rotary_divisors,
            (std::vector<double>{4, 4}));
  EXPECT_TRUE(
      parsed("llama", R"("rope_scaling": {"rope_type": "default"})").rotary_divisors.empty());
  const Config config = parsed("llama", R"("rope_parameters": {"rope_type": "llama3",
      "rope_theta": 100, "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
      "original_max_position_embeddings": 64})");
  EXPECT_EQ(config.rotary_base, 100);
  // 64 positions are 10.2 waves of the first pair and 1.02 of the second.
  ASSERT_EQ(config.rotary_divisors.size(), 2U);
  EXPECT_EQ(config.rotary_divisors[0], 1);
  EXPECT_NEAR(config.rotary_divisors[1], 7.7, 0.1);
}

TEST(HfConfig, what_is_said_twice_alike_is_taken) {
  EXPECT_EQ(parsed("llama", R"("rope_theta": 500, "rope_parameters":
      {"rope_type": "default", "type": "default", "rope_theta": 500.0})")
                .rotary_base,
            500);
}

TEST(HfConfig, only_what_transformers_wrote_is_taken_for_it) {
  EXPECT_TRUE(is_hf_config(parse_json(kLlama, "c")));
  EXPECT_FALSE(is_hf_config(parse_json(R"({"format": "kvcheck-model-1", "model_type": 1})", "c")));
  EXPECT_FALSE(is_hf_config(parse_json("[]", "c")));
}

struct Wrong {
  const char* name;
  const char* type;
  const char* more;
  const char* message;
};

void PrintTo(const Wrong& wrong, std::ostream* out) { *out << wrong.name; }

const Wrong kWrong[] = {
    {"another_family", "phi3", "",
     "c: model_type, expected one of gpt2, llama, mistral, qwen2, qwen3, gemma2, got \"phi3\""},
    {"an_unknown_key", "llama", R"("logit_scale": 2)",
     "c: unknown key in a configuration of llama, expected keys whose effect on logits is known, "
     "got \"logit_scale\""},
    {"a_key_of_another_family", "llama", R"("final_logit_softcapping": 30.0)",
     "c: unknown key in a configuration of llama, expected keys whose effect on logits is known, "
     "got \"final_logit_softcapping\""},
    // Defaults that transformers would use, and that a reader of the file does not see.
    {"a_window_that_is_not_said", "mistral", R"("num_key_value_heads": 1)",
     "c: sliding_window, expected a number or null, got none"},
    {"a_cap_that_is_not_said", "gemma2",
     R"("num_key_value_heads": 1, "head_dim": 4, "query_pre_attn_scalar": 4, "sliding_window": 5,
        "attn_logit_softcapping": null)",
     "c: final_logit_softcapping, expected a number or null, got none"},
    {"another_activation", "llama", R"("hidden_act": "gelu")",
     "c: hidden_act, expected \"silu\", got \"gelu\""},
    {"another_head", "llama", R"("architectures": ["LlamaForSequenceClassification"])",
     "c: architectures, expected [\"LlamaForCausalLM\"] or [\"LlamaModel\"], got "
     "[\"LlamaForSequenceClassification\"]"},
    {"quantised_weights", "llama", R"("quantization_config": {"bits": 4})",
     "c: quantization_config, expected null, got {\"bits\":4}"},
    {"another_scaling", "llama", R"("rope_scaling": {"type": "yarn", "factor": 4})",
     "c: rope_scaling: rope_type, expected \"default\" or \"linear\" or \"llama3\", got \"yarn\""},
    {"an_unknown_key_of_a_scaling", "llama", R"("rope_scaling": {"beta_fast": 4})",
     "c: unknown key in rope_scaling, expected one of rope_type, type, rope_theta, factor, "
     "low_freq_factor, high_freq_factor, original_max_position_embeddings, got \"beta_fast\""},
    {"a_scaling_without_its_factor", "llama", R"("rope_scaling": {"type": "linear"})",
     "c: rope_scaling: factor, expected a number, got none"},
    {"two_scalings", "llama",
     R"("rope_scaling": {"type": "default"}, "rope_parameters": {"type": "default"})",
     "c: rope_scaling, expected none beside rope_parameters, got {\"type\":\"default\"}"},
    {"a_llama3_factor_of_0", "llama",
     R"("rope_scaling": {"type": "llama3", "factor": 0, "low_freq_factor": 1,
        "high_freq_factor": 4, "original_max_position_embeddings": 64})",
     "c: rope_scaling: factor, expected a number above 0, got 0"},
    {"a_llama3_context_below_0", "llama",
     R"("rope_scaling": {"type": "llama3", "factor": 8, "low_freq_factor": 1,
        "high_freq_factor": 4, "original_max_position_embeddings": -1})",
     "c: rope_scaling: original_max_position_embeddings, expected a number above 0, got -1"},
    {"llama3_bounds_that_are_one", "llama",
     R"("rope_scaling": {"type": "llama3", "factor": 8, "low_freq_factor": 4,
        "high_freq_factor": 4, "original_max_position_embeddings": 64})",
     "c: rope_scaling: low_freq_factor, expected less than high_freq_factor 4, got 4"},
    {"two_bases", "llama", R"("rope_theta": 500, "rope_parameters":
        {"rope_type": "default", "rope_theta": 400})",
     "c: rope_parameters: rope_theta, expected 500, as rope_theta outside says, got 400"},
    {"two_types", "llama", R"("rope_scaling": {"type": "linear", "rope_type": "default"})",
     "c: rope_scaling: type, expected \"default\", as rope_type says, got \"linear\""},
    {"a_factor_of_0", "llama", R"("rope_scaling": {"type": "linear", "factor": 0})",
     "c: rotary_divisors, expected numbers from 0.001 to 1000000, got 0"},
    {"a_missing_number", "qwen2", "",
     "c: num_key_value_heads, expected a whole number of 32 bits, got none"},
    {"a_text_for_a_number", "llama", R"("num_key_value_heads": "2")",
     "c: num_key_value_heads, expected a whole number of 32 bits, got \"2\""},
    {"kv_heads_that_do_not_divide", "llama", R"("num_key_value_heads": 3)",
     "c: query_heads, expected a multiple of kv_heads 3, got 2"},
    {"an_unknown_layer_type", "qwen2",
     R"("num_key_value_heads": 1, "layer_types": ["full_attention", "chunked_attention", ""])",
     "c: layer_types of layer 1, expected \"full_attention\", without a sliding window, got "
     "\"chunked_attention\""},
    {"too_few_layer_types", "qwen2",
     R"("num_key_value_heads": 1, "layer_types": ["full_attention"])",
     "c: layer_types, expected one text for each of 3 layers, got [\"full_attention\"]"},
};

class WrongHfConfig : public testing::TestWithParam<Wrong> {};

TEST_P(WrongHfConfig, is_an_error_with_this_message) {
  const Wrong& wrong = GetParam();
  EXPECT_EQ(error_of([&] { (void)parsed(wrong.type, wrong.more); }), wrong.message);
}

INSTANTIATE_TEST_SUITE_P(HfConfig, WrongHfConfig, testing::ValuesIn(kWrong),
                         [](const auto& param) { return std::string(param.param.name); });

// Nothing is allocated for what only claims to be large.
TEST(HfConfig, dimensions_that_nothing_could_have_are_errors) {
  for (const auto* key : {"hidden_size\": 8", "num_hidden_layers\": 3", "vocab_size\": 13"}) {
    const std::string huge =
        std::string(key).substr(0, std::string(key).find(':')) + ": 2147483647";
    const std::string text = replaced(text_of(kLlama, "llama", ""), {key, huge});
    EXPECT_NE(error_of([&] { (void)parsed(text); }), "no error") << key;
  }
  EXPECT_EQ(
      error_of([&] {
        (void)parsed(replaced(text_of(kGpt2, "gpt2", ""), {"\"n_head\": 2", "\"n_head\": 3"}));
      }),
      "c: n_embd, expected a multiple of n_head 3, got 8");
  EXPECT_EQ(error_of([&] {
              (void)parsed(replaced(text_of(kLlama, "llama", ""), {"heads\": 2", "heads\": 3"}));
            }),
            "c: hidden_size, expected a multiple of num_attention_heads 3, or head_dim, got 8");
}

}  // namespace
}  // namespace kvcheck
