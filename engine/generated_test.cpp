// SPDX-License-Identifier: MIT
// Generated models never change, cover what a decoder can be, and have names that find them.
#include "engine/generated.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "engine/error.h"

namespace kvcheck {
namespace {

constexpr std::uint64_t kSeeds = 60;

// The choices of a configuration that its weights do not show.
std::uint64_t digest(const Config& c) {
  std::uint64_t sum = mix(std::bit_cast<std::uint64_t>(c.norm_epsilon));
  sum = mix(sum ^ std::bit_cast<std::uint64_t>(c.rotary_base));
  for (const auto choice : {name(c.norm), name(c.positions), name(c.rotary_pairs), name(c.mlp)}) {
    sum = mix(sum ^ stream_of(choice));
  }
  for (const int number : {c.query_heads, c.kv_heads, c.head_size, c.context}) {
    sum = mix(sum ^ static_cast<std::uint64_t>(number));
  }
  for (const int window : c.windows) sum = mix(sum ^ static_cast<std::uint64_t>(window));
  const Config usual;  // what is left as usual adds nothing: pins are older than these fields
  const auto add = [&](auto member) {
    if (c.*member == usual.*member) return;
    sum = mix(sum ^ std::bit_cast<std::uint64_t>(static_cast<double>(c.*member)));
  };
  add(&Config::rotary_base_windowed);
  add(&Config::rotary_dimensions);
  add(&Config::head_norm);
  add(&Config::attention_cap);
  add(&Config::logit_cap);
  add(&Config::embedding_scale);
  return sum;
}

// Of the configuration and every weight's bits in file order, whatever the machine's byte order.
std::uint64_t digest(const Model<float>& model) {
  std::uint64_t sum = digest(model.config);
  for (const auto& tensor : tensors(model)) {
    for (const float value : tensor.values) sum = mix(sum ^ std::bit_cast<std::uint32_t>(value));
  }
  return sum;
}

const Family& family(std::string_view id) {
  return *parse_generated_name("gen:" + std::string(id) + ":0").family;
}

Config config_of(const Family& family, std::uint64_t seed) {
  Draw draw{.seed = seed};
  return family.config(draw);
}

// What a configuration shows of what one can be.
std::set<std::string> features(const Config& c) {
  std::set<std::string> found = {std::string(name(c.norm)), std::string(name(c.positions)),
                                 std::string(name(c.mlp)), std::string(name(c.output))};
  if (c.positions == Positions::rotary) found.emplace(name(c.rotary_pairs));
  found.insert(c.qkv_bias ? "qkv bias" : "no qkv bias");
  found.insert(c.attention_output_bias ? "attention bias" : "no attention bias");
  found.insert(c.mlp_bias ? "mlp bias" : "no mlp bias");
  if (c.head_norm) found.insert("head norm");
  if (c.attention_cap > 0) found.insert("attention cap");
  if (c.logit_cap > 0) found.insert("logit cap");
  if (c.embedding_scale != 1) found.insert("embedding scale");
  if (c.rotated() != c.head_size) found.insert("partial rotary");
  if (c.rotary_base_windowed > 0) found.insert("two bases");
  for (const int window : c.windows) found.insert(window == 0 ? "whole layer" : "windowed layer");
  return found;
}

// What every family may draw.
const std::set<std::string> kCommonFeatures = {"layer",         "rms",
                                               "none",          "learned",
                                               "rotary",        "interleaved",
                                               "halves",        "gelu-tanh",
                                               "swiglu",        "tied",
                                               "separate",      "qkv bias",
                                               "no qkv bias",   "attention bias",
                                               "mlp bias",      "no attention bias",
                                               "no mlp bias",   "whole layer",
                                               "windowed layer"};

// What only some families have.
const std::set<std::string> kRareFeatures = {"alibi",     "head norm",       "attention cap",
                                             "logit cap", "embedding scale", "partial rotary",
                                             "two bases"};

std::set<std::string> all_features() {
  std::set<std::string> all = kCommonFeatures;
  all.insert(kRareFeatures.begin(), kRareFeatures.end());
  return all;
}

double root_mean_square(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * double{value};
  return std::sqrt(sum / static_cast<double>(values.size()));
}

std::string error_of(std::string_view name) {
  try {
    (void)generate_model(name);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Generated, models_are_pinned_to_the_last_bit) {
  const std::map<std::string_view, std::uint64_t> expected = {
      {"plain", 0x144160BC64C88B45},
      {"small", 0x78105D195AE2E3BC},
      {"sharp-attention", 0xBA2F2C7286DFFEE3},
      {"saturated", 0x3B18613D33EF785D},
      {"near-tied", 0x76174900174A865D},
      {"tiny-embeddings", 0x0290EFB3BE2DBD82},
      {"large-residual", 0x7F20F47E1084AAE2},
      {"grouped-heads", 0x018C6594B139ABDA},
      {"one-token", 0x7142B3579645D26E},
      {"full-context", 0x08021FA66A61619A},
      {"windowed", 0x69290974E089B750},
      {"one-head", 0xD8E31C4E437B6393},
      {"biased", 0xFC385A8026027BD7},
      {"deep", 0x0F2CE0F97EFBBC69},
      {"wide", 0xCF0BDF1842848F42},
      {"single-context", 0xE65BB63FAC472778},
      {"alibi", 0x02B7C6F32C98F70F},
      {"head-norm", 0x3CF31C5869CDD8E1},
      {"softcap", 0x9A8DE1A95C457542},
      {"embedding-scale", 0x2258CB6410424C57},
      {"partial-rotary", 0x4A5E3474170EDBE8},
      {"two-bases", 0xCB687F0D62316DC7},
  };
  for (const Family& family : families()) {
    EXPECT_EQ(digest(generate_model(family, 1)), expected.at(family.id)) << family.id;
  }
}

TEST(Generated, the_first_weights_of_one_model_are_pinned) {
  const Model<float> model = generate_model("gen:plain:7");
  EXPECT_EQ(model.embedding(0, 0), -0x1.5a4328p+0F);
  EXPECT_EQ(model.layers[0].query.weight(0, 0), 0x1.52ed02p-3F);
  EXPECT_EQ(model.final_norm.scale[0], 0x1.e06616p-1F);
}

TEST(Generated, a_model_is_drawn_alike_each_time) {
  for (const Family& family : families()) {
    const Model<float> once = generate_model(family, 5);
    const Model<float> again = generate_model(generated_name(family, 5));
    EXPECT_EQ(once.config, again.config);
    EXPECT_EQ(digest(once), digest(again));
  }
}

TEST(Generated, families_and_seeds_share_no_model) {
  std::set<std::uint64_t> seen;
  for (const Family& family : families()) {
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      const Model<float> model = generate_model(family, seed);
      EXPECT_TRUE(seen.insert(digest(model)).second) << generated_name(family, seed);
      EXPECT_TRUE(seen.insert(std::bit_cast<std::uint32_t>(model.embedding(0, 0))).second);
    }
  }
}

TEST(Generated, every_shape_is_valid) {
  for (const Family& family : families()) {
    for (std::uint64_t seed = 0; seed < 500; ++seed) {
      EXPECT_NO_THROW(validate(config_of(family, seed), family.id)) << seed;
    }
  }
}

TEST(Generated, every_default_set_has_every_feature) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::set<std::string> found;
    for (const std::string& name : default_set(seed))
      found.merge(features(generate_model(name).config));
    EXPECT_EQ(found, all_features()) << seed;
  }
}

TEST(Generated, plain_models_have_every_feature) {
  std::map<std::string, int> counts;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    for (const std::string& feature : features(config_of(family("plain"), seed))) ++counts[feature];
  }
  for (const std::string& feature : kCommonFeatures) EXPECT_GE(counts[feature], 150) << feature;
  for (const std::string& feature : kRareFeatures) EXPECT_EQ(counts[feature], 0) << feature;
}

TEST(Generated, dimensions_reach_both_ends_and_stay_small) {
  std::map<std::string, std::set<int>> seen;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const Config c = config_of(family("plain"), seed);
    seen["vocabulary"].insert(c.vocabulary);
    seen["width"].insert(c.width);
    seen["layers"].insert(c.layers);
    seen["query heads"].insert(c.query_heads);
    seen["heads"].insert(10 * c.query_heads + c.kv_heads);
    seen["head size"].insert(c.head_size);
    seen["mlp width"].insert(c.mlp_width);
    seen["context"].insert(c.context);
  }
  EXPECT_EQ(seen["vocabulary"].size(), 36U);  // 5 to 40
  EXPECT_EQ(seen["width"].size(), 21U);       // 4 to 24
  EXPECT_EQ(seen["layers"], (std::set<int>{1, 2, 3, 4}));
  EXPECT_EQ(seen["heads"], (std::set<int>{11, 21, 22, 31, 33, 41, 42, 44}));
  EXPECT_EQ(seen["head size"], (std::set<int>{2, 4, 6, 8}));
  EXPECT_EQ(seen["mlp width"].size(), 29U);  // 4 to 32
  EXPECT_EQ(seen["context"].size(), 15U);    // 6 to 20
}

TEST(Generated, families_fix_what_their_names_say) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Config grouped = config_of(family("grouped-heads"), seed);
    EXPECT_TRUE(1 < grouped.kv_heads && grouped.kv_heads < grouped.query_heads);
    EXPECT_EQ(config_of(family("one-token"), seed).vocabulary, 1);
    EXPECT_EQ(config_of(family("one-token"), seed).positions, Positions::learned);
    const int context = config_of(family("full-context"), seed).context;
    EXPECT_TRUE(3 <= context && context <= 5);
    EXPECT_EQ(config_of(family("single-context"), seed).context, 1);
    EXPECT_EQ(config_of(family("one-head"), seed).query_heads, 1);
    const Config biased = config_of(family("biased"), seed);
    EXPECT_TRUE(biased.qkv_bias && biased.attention_output_bias && biased.mlp_bias);
    EXPECT_EQ(config_of(family("deep"), seed).layers, 8);
    EXPECT_GE(config_of(family("large-residual"), seed).layers, 3);
    const Config wide = config_of(family("wide"), seed);
    EXPECT_TRUE(wide.layers == 2 && 48 <= wide.width && wide.width <= 64);
  }
}

// Each of the families with something rare has that and nothing else of it.
TEST(Generated, families_have_the_rare_features_that_their_names_say) {
  std::map<std::string_view, std::set<std::string>> expected;
  for (const Family& family : families()) expected[family.id] = {};
  expected["alibi"] = {"alibi"};
  expected["head-norm"] = {"head norm"};
  expected["softcap"] = {"attention cap", "logit cap"};
  expected["embedding-scale"] = {"embedding scale"};
  expected["partial-rotary"] = {"partial rotary"};
  expected["two-bases"] = {"two bases"};
  for (const Family& family : families()) {
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      std::set<std::string> found;
      for (const std::string& feature : features(config_of(family, seed))) {
        if (kRareFeatures.contains(feature)) found.insert(feature);
      }
      EXPECT_EQ(found, expected[family.id]) << family.id << ' ' << seed;
    }
  }
}

TEST(Generated, two_bases_are_of_layers_with_and_without_windows) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Config c = config_of(family("two-bases"), seed);
    std::set<int> bases;
    for (int l = 0; l < c.layers; ++l) bases.insert(c.rotary_base_of(l));
    EXPECT_EQ(bases, (std::set<int>{0, 1}));
    EXPECT_NE(c.rotary_base, c.rotary_base_windowed);
  }
}

TEST(Generated, alibi_heads_are_a_power_of_two_and_are_not) {
  std::set<int> heads;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    heads.insert(config_of(family("alibi"), seed).query_heads);
  }
  EXPECT_EQ(heads, (std::set<int>{3, 4, 6, 8}));
}

TEST(Generated, windowed_layers_differ_and_include_the_edges) {
  std::set<std::vector<int>> orders;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Config c = config_of(family("windowed"), seed);
    const std::set<int> windows(c.windows.begin(), c.windows.end());
    EXPECT_EQ(windows.size(), c.windows.size());
    for (const int window : {1, 2, c.context}) EXPECT_TRUE(windows.contains(window));
    orders.insert({c.windows.begin(), c.windows.begin() + 2});
  }
  EXPECT_GE(orders.size(), 10U);
}

TEST(Generated, weights_are_finite_and_never_all_alike) {
  for (const Family& family : families()) {
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      const Model<float> model = generate_model(family, seed);
      for (const auto& tensor : tensors(model)) {
        for (const float value : tensor.values) ASSERT_TRUE(std::isfinite(value)) << tensor.name;
        const auto [low, high] = std::minmax_element(tensor.values.begin(), tensor.values.end());
        EXPECT_TRUE(tensor.values.size() == 1 || *low < *high) << family.id << ' ' << tensor.name;
      }
    }
  }
}

// A wide shape with every tensor, so that sizes can be measured.
Config every_tensor() {
  return {.vocabulary = 50,
          .width = 60,
          .layers = 3,
          .query_heads = 4,
          .kv_heads = 2,
          .head_size = 20,
          .mlp_width = 70,
          .context = 40,
          .mlp = Mlp::swiglu,
          .qkv_bias = true,
          .attention_output_bias = true,
          .mlp_bias = true,
          .output = Output::separate,
          .windows = {0, 0, 0}};
}

TEST(Generated, scales_are_kept) {
  const WeightScales scales = {.query_key = 5.0F, .residual = 2.0F, .residual_growth = 4.0F};
  const Model<float> model = random_model(every_tensor(), scales, 1);
  const std::map<std::string, double> expected = {
      {"embedding", 1.0},
      {"positions", 0.5},
      {"layers.0.query.weight", 5 / std::sqrt(60)},
      {"layers.2.key.weight", 5 / std::sqrt(60)},
      {"layers.1.value.weight", 1 / std::sqrt(60)},
      {"layers.0.attention_output.weight", 2 / std::sqrt(80)},
      {"layers.2.attention_output.weight", 32 / std::sqrt(80)},
      {"layers.0.mlp_gate.weight", 1 / std::sqrt(60)},
      {"layers.0.mlp_up.weight", 1 / std::sqrt(60)},
      {"layers.1.mlp_down.weight", 8 / std::sqrt(70)},
      {"output.weight", 3 / std::sqrt(60)}};
  std::size_t measured = 0;
  for (const auto& tensor : tensors(model)) {
    const auto found = expected.find(tensor.name);
    if (found == expected.end()) continue;
    ++measured;
    EXPECT_NEAR(root_mean_square(tensor.values) / found->second, 1, 0.08) << tensor.name;
  }
  EXPECT_EQ(measured, expected.size());
}

TEST(Generated, norms_shifts_and_biases_are_small_but_there) {
  const Model<float> model = random_model(every_tensor(), {}, 2);
  for (const Layer<float>& layer : model.layers) {
    EXPECT_NEAR(layer.mlp_norm.scale.mean(), 1, 0.15);
    EXPECT_NEAR((layer.mlp_norm.scale.array() - 1.0F).matrix().norm() / std::sqrt(60), 0.2, 0.08);
    EXPECT_NEAR(layer.attention_norm.shift.norm() / std::sqrt(60), 0.2, 0.08);
    EXPECT_NEAR(layer.key.bias.norm() / std::sqrt(40), 0.2, 0.08);
    EXPECT_NEAR(layer.mlp_down.bias.norm() / std::sqrt(60), 0.2, 0.08);
  }
}

TEST(Generated, a_tensor_does_not_depend_on_the_others) {
  Config fewer = every_tensor();
  fewer.layers = 1;
  fewer.windows = {0};
  fewer.qkv_bias = false;
  fewer.positions = Positions::none;
  const Model<float> all = random_model(every_tensor(), {}, 3);
  const Model<float> few = random_model(fewer, {}, 3);
  EXPECT_EQ(all.layers[0].key.weight, few.layers[0].key.weight);
  EXPECT_EQ(all.final_norm.scale, few.final_norm.scale);
  EXPECT_NE(all.layers[0].key.weight, all.layers[1].key.weight);
  EXPECT_NE(all.layers[0].key.weight, all.layers[0].value.weight);
}

TEST(Generated, near_tied_columns_differ_a_little) {
  const Model<float> model = generate_model("gen:near-tied:1");
  ASSERT_EQ(model.config.output, Output::separate);
  for (Eigen::Index j = 1; j < model.output.cols(); ++j) {
    const double distance = (model.output.col(j) - model.output.col(0)).norm();
    EXPECT_GT(distance, 0);
    EXPECT_LT(distance, 1e-3 * model.output.col(0).norm());
  }
}

TEST(Generated, tied_outputs_are_the_embedding) {
  const Model<float> model = generate_model("gen:deep:1");
  ASSERT_EQ(model.config.output, Output::tied);
  EXPECT_EQ(model.output, model.embedding.transpose());
}

TEST(Generated, ids_are_those_promised) {
  std::vector<std::string_view> ids;
  for (const Family& family : families()) {
    ids.push_back(family.id);
    EXPECT_FALSE(family.summary.empty());
  }
  EXPECT_EQ(
      ids,
      (std::vector<std::string_view>{
          "plain",           "small",          "sharp-attention", "saturated", "near-tied",
          "tiny-embeddings", "large-residual", "grouped-heads",   "one-token", "full-context",
          "windowed",        "one-head",       "biased",          "deep",      "wide",
          "single-context",  "alibi",          "head-norm",       "softcap",   "embedding-scale",
          "partial-rotary",  "two-bases"}));
}

TEST(Generated, a_large_family_has_a_real_size) {
  ASSERT_EQ(large_families().size(), 1U);
  const Family& family = large_families().front();
  const Config config = config_of(family, 1);
  EXPECT_NO_THROW(validate(config, family.id));
  EXPECT_EQ(parameter_count(config), 124'439'808) << "GPT-2's own number";
  EXPECT_EQ(parse_generated_name("gen:gpt2-small:1:context64").family, &family);
}

TEST(Generated, names_go_round) {
  for (const Family& family : families()) {
    for (const std::uint64_t seed :
         {std::uint64_t{0}, std::uint64_t{7}, std::numeric_limits<std::uint64_t>::max()}) {
      const std::string name = generated_name(family, seed);
      EXPECT_TRUE(is_generated_name(name));
      EXPECT_EQ(parse_generated_name(name).family, &family);
      EXPECT_EQ(parse_generated_name(name).seed, seed);
    }
  }
  EXPECT_EQ(generated_name(family("plain"), 7), "gen:plain:7");
  EXPECT_FALSE(is_generated_name("chapter8"));
  EXPECT_FALSE(is_generated_name("gen"));
  EXPECT_FALSE(is_generated_name(""));
}

TEST(Generated, bad_names_say_what_is_wrong) {
  EXPECT_EQ(error_of("gen:x:1"),
            "gen:x:1: unknown family, expected one of plain, small, sharp-attention, saturated, "
            "near-tied, tiny-embeddings, large-residual, grouped-heads, one-token, full-context, "
            "windowed, one-head, biased, deep, wide, single-context, alibi, head-norm, softcap, "
            "embedding-scale, partial-rotary, two-bases, gpt2-small, got x");
  EXPECT_EQ(error_of("gen:plain"),
            "gen:plain: missing seed, expected gen:FAMILY:SEED, got gen:plain");
  EXPECT_EQ(error_of("chapter8"),
            "model: not a generated name, expected gen:FAMILY:SEED, got chapter8");
  EXPECT_TRUE(error_of("gen:").starts_with("gen:: unknown family, expected one of plain"));
  EXPECT_TRUE(error_of("gen:Plain:1").starts_with("gen:Plain:1: unknown family"));
}

TEST(Generated, bad_seeds_say_what_is_wrong) {
  for (const std::string seed :
       {"", "x", "7x", "-1", "+1", " 1", "1 ", "07", "1.0", "0x1", "18446744073709551616"}) {
    const std::string name = "gen:plain:" + seed;
    EXPECT_EQ(error_of(name),
              fmt::format("{}: bad seed, expected a number from 0 to 18446744073709551615 without "
                          "leading zeros, got {}",
                          name, seed));
  }
}

TEST(Generated, a_name_may_ask_for_another_context) {
  const Model<float> own = generate_model("gen:wide:3");
  const Model<float> longer = generate_model("gen:wide:3:context512");
  EXPECT_EQ(longer.config.context, 512);
  EXPECT_NE(own.config.context, 512);
  Config config = longer.config;
  config.context = own.config.context;
  EXPECT_EQ(config, own.config);
  EXPECT_EQ(longer.embedding, own.embedding);
  EXPECT_EQ(longer.layers[1].mlp_down.weight, own.layers[1].mlp_down.weight);
  // Learned positions go on where the family's own end.
  const Model<float> few = generate_model("gen:deep:1");
  const Model<float> many = generate_model("gen:deep:1:context65536");
  EXPECT_EQ(many.positions.topRows(few.positions.rows()), few.positions);
  EXPECT_EQ(parse_generated_name("gen:wide:3:context512").context, 512);
  EXPECT_EQ(parse_generated_name("gen:wide:3").context, 0);
}

TEST(Generated, bad_contexts_say_what_is_wrong) {
  for (const std::string context : {"", "2", "context", "context0", "context07", "context65537",
                                    "context-1", "context99999999999", "context8:1", "Context8"}) {
    const std::string name = "gen:plain:1:" + context;
    EXPECT_EQ(
        error_of(name),
        fmt::format("{}: bad context, expected context1 to context65536, got {}", name, context));
  }
}

TEST(Generated, the_default_set_has_every_family_but_two) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::vector<std::string> expected;
    for (const Family& family : families()) {
      if (family.id == "full-context" || family.id == "biased") continue;
      expected.push_back(generated_name(family, seed));
    }
    EXPECT_EQ(default_set(seed), expected);
    EXPECT_EQ(expected.size(), 20U);
  }
}

TEST(Generated, random_tokens_are_valid_pinned_and_grow_at_the_end) {
  EXPECT_EQ(random_tokens(10, 8, 1, 0), (std::vector<int>{1, 8, 2, 0, 8, 8, 2, 6}));
  EXPECT_NE(random_tokens(10, 8, 1, 0), random_tokens(10, 8, 1, 1));
  EXPECT_NE(random_tokens(10, 8, 1, 0), random_tokens(10, 8, 2, 0));
  const std::vector<int> longer = random_tokens(10, 300, 1, 0);
  const std::vector<int> shorter = random_tokens(10, 200, 1, 0);
  EXPECT_TRUE(std::equal(shorter.begin(), shorter.end(), longer.begin()));
  EXPECT_EQ((std::set<int>(longer.begin(), longer.end())),
            (std::set<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(random_tokens(1, 3, 1, 0), (std::vector<int>{0, 0, 0}));
  EXPECT_TRUE(random_tokens(5, 0, 1, 0).empty());
}

}  // namespace
}  // namespace kvcheck
