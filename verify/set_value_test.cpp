// SPDX-License-Identifier: MIT
// Names of single values, right and wrong ones.
#include "verify/set_value.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "engine/test_support.h"
#include "verify/test_canaries.h"

namespace kvcheck {
namespace {

// 2 layers, 2 query heads, 1 K/V head, head size 4, width 8, context 16, 13 tokens.
SetValue parse(std::string_view text) {
  return parse_set_value(text, two_window_model().weights.config, "--set");
}

TEST(SetValue, names_one_value_at_each_kind_of_site) {
  EXPECT_EQ(parse("layer1.key[row 2][head 0][1]=0.5"),
            (SetValue{Site::key, 1, 0, {.row = 2, .head = 0, .column = 1}, 0.5}));
  EXPECT_EQ(parse("layer0.cached_value[sequence 3][row 2][key 1][head 0][0]=-1e3"),
            (SetValue{Site::cached_value, 0, 3, {2, 1, 0, 0}, -1e3}));
  EXPECT_EQ(parse("layer0.scores[key 1][row 2][head 1]=0"),
            (SetValue{Site::scores, 0, 0, {.row = 2, .key = 1, .head = 1}, 0}));
  EXPECT_EQ(parse("logits[row 15][12]=1"),
            (SetValue{Site::logits, -1, 0, {.row = 15, .column = 12}, 1}));
  EXPECT_TRUE(std::isnan(parse("embedding[row 0][3]=nan").value));
}

TEST(SetValue, anything_else_is_refused_with_what_is_expected) {
  const auto refusal = [](std::string_view text) { return error_of([&] { (void)parse(text); }); };
  EXPECT_EQ(refusal("layer1.key[row 2][3]=0.5"),
            "--set: value to set, expected layerL.key[row R][head H][C]=VALUE, got "
            "layer1.key[row 2][3]=0.5");
  EXPECT_EQ(refusal("key[row 2][head 0][1]=0.5"),
            "--set: value to set, expected layerL.key[row R][head H][C]=VALUE, got "
            "key[row 2][head 0][1]=0.5");
  EXPECT_EQ(refusal("layer0.logits[row 2][1]=1"),
            "--set: value to set, expected logits[row R][C]=VALUE, got layer0.logits[row 2][1]=1");
  EXPECT_EQ(refusal("layer0.scores[row 1][key 0][head 0][1]=1"),
            "--set: value to set, expected layerL.scores[row R][key K][head H]=VALUE, got "
            "layer0.scores[row 1][key 0][head 0][1]=1");
  EXPECT_EQ(refusal("layer0.soul[row 1][1]=1"),
            "--set: value to set, expected a site: embedding, input, layerL.attention_norm, "
            "layerL.key, ... logits, got layer0.soul[row 1][1]=1");
  EXPECT_EQ(refusal("layer2.key[row 2][head 0][1]=0"), "--set: layer, expected from 0 to 1, got 2");
  EXPECT_EQ(refusal("layer1.key[row 2][head 1][1]=0"), "--set: head, expected from 0 to 0, got 1");
  EXPECT_EQ(refusal("layer1.query[row 2][head 1][4]=0"),
            "--set: column, expected from 0 to 3, got 4");
  EXPECT_EQ(refusal("layer1.key[row 16][head 0][1]=0"),
            "--set: row, expected from 0 to 15, got 16");
  EXPECT_EQ(refusal("logits[row 1][13]=0"), "--set: column, expected from 0 to 12, got 13");
  EXPECT_EQ(refusal("logits[row 1][1]=zero"),
            "--set: value to set, expected a number behind =, got logits[row 1][1]=zero");
  EXPECT_EQ(refusal("logits[row 1][row 1][1]=0"),
            "--set: value to set, expected each index once, got logits[row 1][row 1][1]=0");
  EXPECT_EQ(refusal("logits[row 99999999999][1]=0"),
            "--set: value to set, expected a whole number, got logits[row 99999999999][1]=0");
}

}  // namespace
}  // namespace kvcheck
