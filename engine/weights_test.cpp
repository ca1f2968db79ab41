// SPDX-License-Identifier: MIT
// Weights that are held once, and those that are widened part by part.
#include "engine/weights.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/features.h"
#include "engine/generated.h"
#include "engine/logged.h"
#include "engine/test_support.h"
#include "engine/uncached.h"

namespace kvcheck {
namespace {

constexpr std::int64_t kPartByPart = 0;

TEST(HeldModel, is_the_callers_own) {
  const Model<float> model = generate_model("gen:plain:1");
  EXPECT_EQ(HeldModel(model).in<float>().get(), &model);
  EXPECT_EQ(HeldModel(model).operator->(), &model);
}

TEST(HeldModel, keeps_a_temporary) {
  const HeldModel held(generate_model("gen:plain:1"));
  EXPECT_EQ(held.in<float>().get(), &*held);
  EXPECT_EQ(weight_bits(*held), weight_bits(generate_model("gen:plain:1")));
}

TEST(HeldModel, is_copied_for_another_scalar) {
  const Model<float> model = generate_model("gen:plain:1");
  const auto wide = HeldModel(model).in<double>();
  const Model<double> expected = cast<double>(model);
  const auto all = tensors(*wide);
  const auto right = tensors(expected);
  ASSERT_EQ(all.size(), right.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(all[i].values, right[i].values)) << all[i].name;
  }
}

template <typename T>
void expect_same(View<const T> a, View<const T> b, const std::string& name) {
  ASSERT_EQ(a.rows, b.rows) << name;
  ASSERT_EQ(a.features, b.features) << name;
  for (int f = 0; f < a.features; ++f) {
    for (int r = 0; r < a.rows; ++r) ASSERT_EQ(a.feature(f)[r], b.feature(f)[r]) << name;
  }
}

// Of both oracles, with weights that are widened part by part and all at once.
template <typename T>
void expect_parts_are_the_whole(const Model<float>& model, const std::string& name) {
  const Model<T> whole = cast<T>(model);
  const auto parts = Weights<T>::widened(model, kPartByPart);
  const int length = std::min(model.config.context, 9);
  const std::vector<int> tokens = random_tokens(model.config.vocabulary, length, 1, 0);
  Uncached<T> uncached(whole, row_ops<T>());
  Uncached<T> uncached_parts(parts, row_ops<T>());
  expect_same<T>(uncached_parts.logits({tokens}, Rows::all), uncached.logits({tokens}, Rows::all),
                 name);
  Logged<T> logged(whole, row_ops<T>());
  Logged<T> logged_parts(parts, row_ops<T>());
  const std::vector<LoggedRow> log = plain_log(tokens);
  expect_same<T>(logged_parts.logits(log, length), logged.logits(log, length), name);
}

TEST(Weights, parts_give_the_bits_of_the_whole) {
  for (const Family& family : families()) {
    const std::string name = generated_name(family, 3);
    expect_parts_are_the_whole<double>(generate_model(name), name);
    expect_parts_are_the_whole<long double>(generate_model(name), name);
  }
  // Also of what no family has.
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Model<float> model = random_model(random_config(seed), WeightScales{}, seed);
    expect_parts_are_the_whole<double>(model, fmt::format("random shape {}", seed));
  }
}

TEST(Weights, an_output_of_several_blocks_is_the_whole) {
  for (const Output output : {Output::tied, Output::separate}) {
    Config config = generate_model("gen:plain:1").config;
    config.vocabulary = 2 * kOutputColumns + 7;
    config.output = output;
    expect_parts_are_the_whole<double>(random_model(config, WeightScales{}, 1), "blocks");
  }
}

TEST(Weights, of_a_small_model_are_widened_at_once) {
  const Model<float> model = generate_model("gen:plain:1");
  auto weights = Weights<double>::widened(model);
  int blocks = 0;
  weights.each_output([&](int first, const Matrix<double>& columns) {
    ++blocks;
    EXPECT_EQ(first, 0);
    EXPECT_EQ(columns.cols(), model.config.vocabulary);
  });
  EXPECT_EQ(blocks, 1);
}

}  // namespace
}  // namespace kvcheck
