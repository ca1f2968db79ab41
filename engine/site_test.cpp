// SPDX-License-Identifier: MIT
// Every site is called what its enumerator is called, and its tensor is found by both strides.
#include "engine/site.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace kvcheck {
namespace {

TEST(Site, names_are_those_of_the_enumerators_in_their_order) {
  const std::vector<std::pair<Site, std::string>> expected{
      {Site::embedding, "embedding"},
      {Site::input, "input"},
      {Site::attention_norm, "attention_norm"},
      {Site::query, "query"},
      {Site::key, "key"},
      {Site::value, "value"},
      {Site::cached_key, "cached_key"},
      {Site::cached_value, "cached_value"},
      {Site::scores, "scores"},
      {Site::probabilities, "probabilities"},
      {Site::attention, "attention"},
      {Site::attention_output, "attention_output"},
      {Site::attention_residual, "attention_residual"},
      {Site::mlp_norm, "mlp_norm"},
      {Site::mlp_hidden, "mlp_hidden"},
      {Site::mlp_output, "mlp_output"},
      {Site::residual, "residual"},
      {Site::final_norm, "final_norm"},
      {Site::logits, "logits"},
  };
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(expected[i].first), i);
    EXPECT_EQ(name(expected[i].first), expected[i].second);
  }
}

TEST(SiteTensor, entries_are_found_by_row_and_column_stride) {
  std::array<float, 12> data{};
  const SiteTensor<float> tensor{Site::scores, 0, 0, data.data(), 2, 3, 6, 2};
  EXPECT_EQ(&tensor.at(0, 0), &data[0]);
  EXPECT_EQ(&tensor.at(0, 2), &data[4]);
  EXPECT_EQ(&tensor.at(1, 1), &data[8]);
}

TEST(SiteTensor, entries_can_be_changed_in_place) {
  std::array<float, 2> data{1, 2};
  const SiteTensor<float> tensor{Site::logits, -1, 0, data.data(), 1, 2, 2, 1};
  tensor.at(0, 1) = 5;
  EXPECT_EQ(data[1], 5);
}

}  // namespace
}  // namespace kvcheck
