// SPDX-License-Identifier: MIT
// What the oracle says at every site, and how far rounding moves it there.
#include "verify/site_reference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "engine/row_format.h"
#include "engine/uncached.h"
#include "verify/noise.h"
#include "verify/test_canaries.h"
#include "verify/test_faults.h"
#include "verify/token_log.h"

namespace kvcheck {
namespace {

const std::vector<int> kTokens{3, 1, 4, 12, 5};

std::unique_ptr<SiteMeter> meter_of(const ModelData& model, RowFormat format = RowFormat::native) {
  return make_site_meter(model.weights, ScalarKind::f32, Arithmetic::row, format);
}

TEST(SiteReference, is_what_the_oracle_computes) {
  const ModelData model = two_window_model();
  const auto log = plain_log(kTokens);
  const SiteReference reference = meter_of(model)->measure({.log = log, .first = 3});
  Uncached<float> oracle(model.weights, row_ops<float>());
  const auto logits = oracle.logits({kTokens, 1}, Rows::all);
  for (int row = 3; row < 5; ++row) {
    const SiteLines* const lines = reference.find(Site::logits, -1, row);
    ASSERT_NE(lines, nullptr);
    ASSERT_EQ(lines->columns, logits.features);
    for (int o = 0; o < logits.features; ++o) {
      EXPECT_EQ(lines->line(0)[static_cast<std::size_t>(o)], double{logits.feature(o)[row]});
    }
  }
  EXPECT_EQ(reference.find(Site::logits, -1, 2), nullptr) << "not asked for";
  EXPECT_NE(reference.find(Site::cached_key, 1, 0), nullptr) << "later rows read it";
  const SiteLines* const scores = reference.find(Site::scores, 0, 4);
  ASSERT_NE(scores, nullptr);
  EXPECT_EQ(scores->columns, 4) << "the window";
  EXPECT_EQ(scores->lines(), 2) << "query heads";
  EXPECT_EQ(scores->floors.size(), 2U);
}

// Of logits both are the same measurement, save for the epsilon term.
TEST(SiteReference, floors_of_logits_are_those_of_the_noise_meter_but_for_the_last_term) {
  const ModelData model = two_window_model();
  const auto log = plain_log(kTokens);
  const SiteReference reference = meter_of(model)->measure({.log = log, .seed = 7});
  Uncached<float> oracle(model.weights, row_ops<float>());
  Logits uncached;
  copy_rows(oracle.logits({kTokens, 1}, Rows::all), uncached);
  std::vector<NoiseFloor> floors;
  make_noise_meter(model.weights, ScalarKind::f32, Arithmetic::row)
      ->floors(TokenBlock{kTokens, 1}, uncached, 7, floors);
  for (int row = 0; row < 5; ++row) {
    const SiteLines& lines = *reference.find(Site::logits, -1, row);
    double largest = 0;
    for (const double value : lines.values) largest = std::max(largest, std::abs(value));
    const double epsilon = std::numeric_limits<float>::epsilon();
    const NoiseFloor& floor = floors[static_cast<std::size_t>(row)];
    const double last_term = floor.floor / floor.kappa;
    EXPECT_NEAR(lines.floors[0] - largest * epsilon, floor.floor - last_term, 1e-12) << row;
  }
}

TEST(SiteReference, every_line_has_a_floor_of_its_own) {
  const ModelData model = two_window_model();
  const auto log = plain_log(kTokens);
  const auto meter = meter_of(model);
  SiteReference reference = meter->measure({.log = log});
  for (const auto& [address, lines] : reference) {
    ASSERT_EQ(static_cast<int>(lines.floors.size()), lines.lines());
    for (int i = 0; i < lines.lines(); ++i) {
      double largest = 0;
      for (const double value : lines.line(i)) largest = std::max(largest, std::abs(value));
      EXPECT_GE(lines.floors[static_cast<std::size_t>(i)], largest * 0x1p-23);
      EXPECT_LT(lines.floors[static_cast<std::size_t>(i)], largest * 0x1p-10 + 1e-5);
    }
  }
  SiteReference without = meter->measure({.log = log, .floors = false});
  for (const auto& [address, lines] : without) EXPECT_TRUE(lines.floors.empty());
}

// A plain log and one that is none give the same keys where nothing moved.
TEST(SiteReference, keys_are_rotated_by_the_position_at_which_they_were_fed) {
  const ModelData model = two_window_model();
  TokenLog moved({.vocabulary = 13, .context = 16});
  for (const Operation& o : parse_operations("open.feed:0x4.shift:0x1-2.feed:0x1", "test")) {
    moved.apply(o);
  }
  const auto log = moved.log(0);
  const auto meter = meter_of(model);
  const SiteReference reference = meter->measure({.log = log, .first = 4});
  const auto raw = meter->raw_keys(log, 1);
  for (int row = 0; row < 5; ++row) {
    const int position = log[static_cast<std::size_t>(row)].position;
    EXPECT_EQ(reference.find(Site::cached_key, 1, row)->values,
              meter->placed(raw[static_cast<std::size_t>(row)], 1, position));
  }
  const auto plain = plain_log(std::vector<int>{log[0].token, log[1].token});
  const SiteReference first = meter->measure({.log = plain});
  EXPECT_EQ(first.find(Site::cached_key, 1, 1)->values,
            reference.find(Site::cached_key, 1, 1)->values);
}

TEST(SiteReference, rows_of_fewer_bits_are_rounded_where_they_are_held) {
  const ModelData model = two_window_model();
  const auto log = plain_log(kTokens);
  const SiteReference reference = meter_of(model, RowFormat::bf16)->measure({.log = log});
  const SiteLines& key = *reference.find(Site::key, 0, 2);
  const SiteLines& held = *reference.find(Site::cached_key, 0, 2);
  std::vector<float> rounded(key.values.begin(), key.values.end());
  round_row<float>(RowFormat::bf16, rounded);
  EXPECT_EQ(held.values, (std::vector<double>{rounded.begin(), rounded.end()}));
  EXPECT_NE(held.values, key.values);
}

}  // namespace
}  // namespace kvcheck
