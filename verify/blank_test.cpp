// SPDX-License-Identifier: MIT
// Which models can show nothing.
#include "verify/blank.h"

#include <gtest/gtest.h>

#include <limits>

#include "engine/generated.h"
#include "engine/test_support.h"
#include "verify/models.h"

namespace kvcheck {
namespace {

ModelData with_output(float value) {
  Config config = tiny_config();
  config.output = Output::separate;
  ModelData data;
  data.weights = random_model(config, WeightScales{}, 1);
  data.weights.output.setConstant(value);
  return data;
}

TEST(Blank, is_a_model_whose_logits_are_all_the_same) { EXPECT_TRUE(is_blank(with_output(0))); }

TEST(Blank, is_no_other_one) {
  EXPECT_FALSE(is_blank(with_output(0.5F))) << "one number for all tokens, another in each row";
  EXPECT_FALSE(is_blank(load_model("gen:one-token:1"))) << "where faults show, too";
  ModelData data = with_output(0);
  data.weights.output(0, 1) = 1;
  EXPECT_FALSE(is_blank(data));
  EXPECT_FALSE(is_blank(with_output(std::numeric_limits<float>::quiet_NaN())))
      << "which agrees with nothing";
}

}  // namespace
}  // namespace kvcheck
