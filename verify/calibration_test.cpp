// SPDX-License-Identifier: MIT
// Both sides of the limit, on models of other sizes than the generated ones have: what is measured
// in full by kvcheck_calibrate, on a few of its models.
#include "verify/calibration.h"

#include <gtest/gtest.h>

#include <cmath>
#include <ostream>

namespace kvcheck {
namespace {

struct Size {
  const char* title;
  int layers;
  int width;
};

void PrintTo(const Size& size, std::ostream* out) { *out << size.title; }

class Calibrate : public testing::TestWithParam<Size> {};

TEST_P(Calibrate, right_engines_lie_below_the_limit_and_faults_above) {
  int faulty = 0;
  for (const Family& family : families()) {
    const ModelData model = sized_model(family, GetParam().layers, GetParam().width);
    EXPECT_EQ(model.weights.config.layers, GetParam().layers);
    EXPECT_EQ(model.weights.config.width, GetParam().width);
    const Calibrated found = calibrate(model, {.sequences = 1, .length_max = 6});
    EXPECT_EQ(found.row_differs, 0) << family.id;
    EXPECT_FALSE(found.right.empty()) << family.id;
    if (const auto worst = worst_ratio(found.right)) {
      EXPECT_LE(*worst, kNoiseLimit / 3) << family.id;
    }
    // A stream that grows four-fold in each layer has nothing left of positions in float32.
    const bool drowned = family.id == "large-residual" && GetParam().layers == 24;
    const auto least = least_seen(found);
    if (least && !drowned) {
      EXPECT_GE(least->ratio, 3 * kNoiseLimit) << family.id << " " << least->fault;
      ++faulty;
    }
  }
  EXPECT_GE(faulty, 18);
}

INSTANTIATE_TEST_SUITE_P(Sizes, Calibrate,
                         testing::Values(Size{"deep", 24, 32}, Size{"wide", 2, 128}),
                         [](const auto& param) { return std::string(param.param.title); });

TEST(Calibration, ratios_are_those_of_rows_below_the_gate) {
  EXPECT_FALSE(worst_ratio({}));
  EXPECT_FALSE(worst_ratio({{1e9, 2}, {std::nan(""), 3}}));
  EXPECT_EQ(worst_ratio({{2, 3}, {kKappaGate, 5}, {2e3, 7}, {2, 4}}), 5.0);
  Calibrated model{.model = "m", .layers = 2, .width = 8, .right = {{2, 1.5}, {2e3, 4}}};
  EXPECT_FALSE(least_seen(model));
  model.faulty = {{{2, 700}, {2, 40}}, {}, {{2, 500}}, {{2e3, 5}}};
  ASSERT_TRUE(least_seen(model));
  EXPECT_EQ(least_seen(model)->fault, kNeverMissed[2]);
  EXPECT_EQ(least_seen(model)->ratio, 500);
  EXPECT_EQ(calibration_csv({model}),
            "model,layers,width,rows,gated,kappa,ratio,half_ratio,fault,fault_ratio,row_differs\n"
            "m,2,8,2,1,2e+03,1.5,,read-exchanged:onset1,500,0\n");
}

TEST(Calibration, counts_what_is_seen_by_kappa) {
  Calibrated model;
  model.right = {{10, 1}, {11, 2}, {1e7, 90}, {std::nan(""), 3}};
  model.weakest = {{10, 31}, {10, 30}};
  model.faulty = {{{1e7, 31}}};
  EXPECT_EQ(kappa_csv({model}),
            "kappa_max,rows,ratio,half_seen,faults_seen\n10,1,1,0.500,\n100,1,2,,\n1000,0,0,,\n"
            "10000,0,0,,\n100000,0,0,,\n1e+06,0,0,,\ninf,2,90,,1.000\n");
}

}  // namespace
}  // namespace kvcheck
