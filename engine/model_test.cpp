// SPDX-License-Identifier: MIT
// The list of tensors is right, and everything that goes through it agrees.
#include "engine/model.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "engine/test_support.h"

namespace kvcheck {
namespace {

// The smallest model with every kind of tensor: 2 layers, all biases, learned positions.
Config full_config() {
  Config c;
  c.vocabulary = 7;
  c.width = 3;
  c.layers = 2;
  c.query_heads = 4;
  c.kv_heads = 2;
  c.head_size = 5;
  c.mlp_width = 6;
  c.context = 8;
  c.mlp = Mlp::swiglu;
  c.qkv_bias = c.attention_output_bias = c.mlp_bias = true;
  c.output = Output::separate;
  c.windows = {0, 0};
  return c;
}

// The decoder of the four-pattern corpus: 368 parameters.
Config chapter8_config() {
  Config c;
  c.vocabulary = 8;
  c.width = 4;
  c.layers = 2;
  c.query_heads = c.kv_heads = 2;
  c.head_size = 2;
  c.mlp_width = 8;
  c.context = 4;
  c.mlp_bias = true;
  c.windows = {0, 0};
  return c;
}

using Shape = std::vector<std::int64_t>;
using NamedShape = std::pair<std::string, Shape>;

std::vector<NamedShape> named_shapes(const Config& config) {
  std::vector<NamedShape> found;
  for (const TensorShape& tensor : tensor_shapes(config)) {
    found.emplace_back(tensor.name, tensor.shape);
  }
  return found;
}

TEST(TensorShapes, lists_every_tensor_in_file_order) {
  const auto shapes = named_shapes(full_config());
  const std::vector<NamedShape> first_layer{
      {"embedding", {7, 3}},
      {"positions", {8, 3}},
      {"layers.0.attention_norm.scale", {3}},
      {"layers.0.attention_norm.shift", {3}},
      {"layers.0.query.weight", {3, 20}},
      {"layers.0.query.bias", {20}},
      {"layers.0.key.weight", {3, 10}},
      {"layers.0.key.bias", {10}},
      {"layers.0.value.weight", {3, 10}},
      {"layers.0.value.bias", {10}},
      {"layers.0.attention_output.weight", {20, 3}},
      {"layers.0.attention_output.bias", {3}},
      {"layers.0.mlp_norm.scale", {3}},
      {"layers.0.mlp_norm.shift", {3}},
      {"layers.0.mlp_gate.weight", {3, 6}},
      {"layers.0.mlp_gate.bias", {6}},
      {"layers.0.mlp_up.weight", {3, 6}},
      {"layers.0.mlp_up.bias", {6}},
      {"layers.0.mlp_down.weight", {6, 3}},
      {"layers.0.mlp_down.bias", {3}},
  };
  ASSERT_EQ(shapes.size(), 2 + 2 * 18 + 3);
  EXPECT_TRUE(std::equal(first_layer.begin(), first_layer.end(), shapes.begin()));
  EXPECT_EQ(shapes[20].first, "layers.1.attention_norm.scale");
  EXPECT_EQ(shapes[38], (NamedShape{"final_norm.scale", {3}}));
  EXPECT_EQ(shapes[39], (NamedShape{"final_norm.shift", {3}}));
  EXPECT_EQ(shapes[40], (NamedShape{"output.weight", {3, 7}}));
}

TEST(TensorShapes, leaves_out_what_the_configuration_leaves_out) {
  const std::vector<NamedShape> expected{
      {"embedding", {2, 1}},
      {"layers.0.attention_norm.scale", {1}},
      {"layers.0.query.weight", {1, 1}},
      {"layers.0.key.weight", {1, 1}},
      {"layers.0.value.weight", {1, 1}},
      {"layers.0.attention_output.weight", {1, 1}},
      {"layers.0.mlp_norm.scale", {1}},
      {"layers.0.mlp_up.weight", {1, 1}},
      {"layers.0.mlp_down.weight", {1, 1}},
      {"final_norm.scale", {1}},
  };
  EXPECT_EQ(named_shapes(tiny_config()), expected);
}

TEST(TensorShapes, lists_the_norms_of_heads_after_the_values) {
  Config config = full_config();
  config.norm = Norm::layer;  // those of heads have no shift all the same
  config.head_norm = true;
  const auto shapes = named_shapes(config);
  ASSERT_EQ(shapes.size(), 2 + 2 * 20 + 3);
  EXPECT_EQ(shapes[9].first, "layers.0.value.bias");
  EXPECT_EQ(shapes[10], (NamedShape{"layers.0.query_norm.scale", {5}}));
  EXPECT_EQ(shapes[11], (NamedShape{"layers.0.key_norm.scale", {5}}));
  EXPECT_EQ(shapes[12].first, "layers.0.attention_output.weight");
  EXPECT_EQ(parameter_count(config, Part::norms),
            parameter_count(full_config(), Part::norms) + 2 * 2 * 5);
}

TEST(ParameterCount, of_the_four_pattern_decoder_is_368) {
  const Config config = chapter8_config();
  EXPECT_EQ(parameter_count(config), 368);
  EXPECT_EQ(parameter_count(config, Part::embedding), 8 * 4);
  EXPECT_EQ(parameter_count(config, Part::positions), 4 * 4);
  EXPECT_EQ(parameter_count(config, Part::attention), 2 * 64);
  EXPECT_EQ(parameter_count(config, Part::mlp), 2 * 76);
  EXPECT_EQ(parameter_count(config, Part::norms), 2 * (8 + 8) + 8);
  EXPECT_EQ(parameter_count(config, Part::output), 0);  // tied: counted with the embedding
}

TEST(ParameterCount, does_not_overflow) {
  Config config = tiny_config();
  config.vocabulary = config.width = 1 << 24;
  EXPECT_EQ(parameter_count(config, Part::embedding), std::int64_t{1} << 48);
}

constexpr Part kParts[] = {Part::embedding, Part::positions, Part::attention,
                           Part::mlp,       Part::norms,     Part::output};

TEST(ParameterCount, parts_have_different_names) {
  std::set<std::string_view> names;
  for (const Part part : kParts) names.insert(name(part));
  EXPECT_EQ(names, (std::set<std::string_view>{"embedding", "positions", "attention", "mlp",
                                               "norms", "output"}));
}

RC_GTEST_PROP(ParameterCount, is_the_sum_of_its_parts_and_of_the_stored_numbers,
              (std::uint64_t seed)) {
  const Config config = random_config(seed);
  std::int64_t parts = 0;
  for (const Part part : kParts) parts += parameter_count(config, part);
  std::int64_t stored = 0;
  const auto model = make_model<float>(config);
  for (const auto& tensor : tensors(model)) {
    stored += static_cast<std::int64_t>(tensor.values.size());
  }
  RC_ASSERT(parts == parameter_count(config));
  RC_ASSERT(stored == parameter_count(config));
}

RC_GTEST_PROP(Tensors, match_tensor_shapes, (std::uint64_t seed)) {
  const Config config = random_config(seed);
  auto model = make_model<double>(config);
  const auto found = tensors(model);
  const auto shapes = tensor_shapes(config);
  RC_ASSERT(found.size() == shapes.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    RC_ASSERT(found[i].name == shapes[i].name);
    RC_ASSERT(found[i].part == shapes[i].part);
    RC_ASSERT(found[i].shape == shapes[i].shape);
    RC_ASSERT(static_cast<std::int64_t>(found[i].values.size()) == shapes[i].count());
  }
}

TEST(Tensors, are_the_model_itself_row_by_row) {
  auto model = make_model<float>(full_config());
  int number = 0;
  for (const auto& tensor : tensors(model)) {
    for (float& value : tensor.values) value = static_cast<float>(number++);
  }
  EXPECT_EQ(model.embedding(0, 2), 2.0F);
  EXPECT_EQ(model.embedding(1, 0), 3.0F);
  EXPECT_EQ(model.positions(0, 0), 21.0F);
  EXPECT_EQ(model.layers[0].attention_norm.scale(0), 45.0F);
  EXPECT_EQ(model.layers[0].query.weight(0, 1), 52.0F);
  EXPECT_EQ(model.layers[0].query.weight(1, 0), 71.0F);
  EXPECT_EQ(model.output(2, 6), static_cast<float>(number - 1));
}

TEST(MakeModel, is_all_zeros_with_empty_storage_for_what_is_left_out) {
  const auto model = make_model<double>(tiny_config());
  for (const auto& tensor : tensors(model)) {
    for (const double value : tensor.values) EXPECT_EQ(value, 0.0) << tensor.name;
  }
  EXPECT_EQ(model.positions.size(), 0);
  EXPECT_EQ(model.layers[0].query.bias.size(), 0);
  EXPECT_EQ(model.layers[0].mlp_gate.weight.size(), 0);
  EXPECT_EQ(model.layers[0].attention_norm.shift.size(), 0);
}

TEST(TieOutput, transposes_the_embedding_only_where_tied) {
  auto tied = make_model<float>(chapter8_config());
  EXPECT_EQ(tied.output.rows(), 4);
  EXPECT_EQ(tied.output.cols(), 8);
  tied.embedding(5, 3) = 2.0F;
  EXPECT_EQ(tied.output(3, 5), 0.0F);
  tie_output(tied);
  EXPECT_EQ(tied.output(3, 5), 2.0F);

  auto separate = make_model<float>(full_config());
  separate.embedding(5, 2) = 2.0F;
  tie_output(separate);
  EXPECT_EQ(separate.output(2, 5), 0.0F);
}

RC_GTEST_PROP(Cast, to_a_wider_scalar_and_back_changes_nothing, (std::uint64_t seed)) {
  const auto model = random_model(random_config(seed), seed);
  const auto wide = cast<double>(model);
  RC_ASSERT(weight_bits(cast<float>(wide)) == weight_bits(model));
  RC_ASSERT(wide.config == model.config);
  RC_ASSERT((wide.output.cast<float>().array() == model.output.array()).all());
}

TEST(Cast, rounds_to_a_narrower_scalar) {
  auto model = make_model<double>(tiny_config());
  model.embedding(0, 0) = 1.0 + 1e-9;
  EXPECT_EQ(cast<float>(model).embedding(0, 0), 1.0F);
  EXPECT_EQ(cast<double>(model).embedding(0, 0), 1.0 + 1e-9);
}

}  // namespace
}  // namespace kvcheck
