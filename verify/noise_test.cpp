// SPDX-License-Identifier: MIT
// The floor is what rounding does to a row: never nothing, the same again, and no shelter for NaN.
#include "verify/noise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/builtin.h"
#include "engine/logged.h"
#include "engine/uncached.h"
#include "verify/models.h"
#include "verify/operation_run.h"
#include "verify/test_faults.h"

namespace kvcheck {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// A model, its oracle and its meter.
struct Yardstick {
  Yardstick(const ModelData& model, ScalarKind kind, Arithmetic order)
      : scalar(kind),
        engine(make_builtin(model.weights, kind, order)),
        meter(make_noise_meter(model.weights, kind, order)) {}

  std::vector<NoiseFloor> floors(const TokenBlock& block, std::uint64_t seed = 1) {
    Logits uncached;
    engine->full(block, Rows::last, uncached);
    std::vector<NoiseFloor> found;
    meter->floors(block, uncached, seed, found);
    return found;
  }

  ScalarKind scalar;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<NoiseMeter> meter;
};

// The floors of every prefix of one random sequence.
std::vector<NoiseFloor> floors_of(const std::string& name, ScalarKind scalar,
                                  std::uint64_t seed = 1) {
  const ModelData model = load_model(name);
  Yardstick yardstick(model, scalar, Arithmetic::matrix);
  const Config& config = model.weights.config;
  const std::vector<int> tokens = random_tokens(config.vocabulary, config.context, 1, 0);
  std::vector<NoiseFloor> found;
  for (std::size_t n = 1; n <= tokens.size(); ++n) {
    found.push_back(yardstick.floors({std::span(tokens).first(n), 1}, seed).at(0));
  }
  return found;
}

double largest_kappa(const std::string& family, std::uint64_t seeds) {
  double largest = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    for (const NoiseFloor& floor :
         floors_of("gen:" + family + ":" + std::to_string(seed), ScalarKind::f32)) {
      largest = std::max(largest, floor.kappa);
    }
  }
  return largest;
}

// However well conditioned the row.
TEST(NoiseMeter, no_floor_is_smaller_than_the_smallest) {
  double closest = 1e9;
  for (const Family& family : families()) {
    const ModelData model = load_model(generated_name(family, 1));
    for (const ScalarKind scalar : {ScalarKind::f32, ScalarKind::f64}) {
      Yardstick yardstick(model, scalar, Arithmetic::matrix);
      const Config& config = model.weights.config;
      const std::vector<int> tokens = random_tokens(config.vocabulary, config.context, 1, 0);
      Logits uncached;
      yardstick.engine->full({tokens, 1}, Rows::last, uncached);
      const RowComparison row = compare_rows(uncached.row(0), uncached.row(0), scalar);
      const double floor = yardstick.floors({tokens, 1}).at(0).floor;
      EXPECT_GE(floor, smallest_floor(row, scalar)) << family.id;
      closest = std::min(closest, floor / smallest_floor(row, scalar));
    }
  }
  EXPECT_LT(closest, 10) << "a bound that is never near is of no use";
}

TEST(NoiseMeter, grows_the_floors_until_they_are_enough) {
  const ModelData model = load_model("chapter8");
  Yardstick yardstick(model, ScalarKind::f32, Arithmetic::matrix);
  const std::vector<int> tokens{0, 1, 2, 3};
  Logits uncached;
  yardstick.engine->full({tokens, 1}, Rows::all, uncached);
  std::vector<NoiseFloor> whole, found;
  yardstick.meter->floors({tokens, 1}, uncached, 1, whole);
  std::vector<double> before(whole.size(), 0);
  for (int most = 1; most <= kPerturbedOracles + 1; ++most) {
    int asked = 0;
    yardstick.meter->floors({tokens, 1}, uncached, 1, found,
                            [&](std::span<const NoiseFloor>) { return ++asked == most; });
    EXPECT_EQ(asked, std::min(most, kPerturbedOracles));
    ASSERT_EQ(found.size(), whole.size());
    for (std::size_t r = 0; r < found.size(); ++r) {
      EXPECT_GE(found[r].floor, before[r]) << most;
      EXPECT_LE(found[r].floor, whole[r].floor) << most;
      EXPECT_GE(found[r].kappa, 1);
      before[r] = found[r].floor;
    }
  }
  for (std::size_t r = 0; r < whole.size(); ++r) EXPECT_EQ(before[r], whole[r].floor);
}

TEST(NoiseMeter, no_row_is_without_noise) {
  for (const Family& family : families()) {
    for (const ScalarKind scalar : {ScalarKind::f32, ScalarKind::f64}) {
      for (const NoiseFloor& floor : floors_of(generated_name(family, 1), scalar)) {
        EXPECT_GT(floor.floor, 0) << family.id;
        EXPECT_TRUE(std::isfinite(floor.floor)) << family.id;
        EXPECT_GE(floor.kappa, 1) << family.id;
      }
    }
  }
}

TEST(NoiseMeter, measures_the_same_again) {
  const auto first = floors_of("gen:plain:1", ScalarKind::f32);
  const auto second = floors_of("gen:plain:1", ScalarKind::f32);
  ASSERT_EQ(first.size(), second.size());
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].floor, second[i].floor);
    EXPECT_EQ(first[i].kappa, second[i].kappa);
  }
}

TEST(NoiseMeter, other_signs_give_other_floors_of_the_same_size) {
  const auto one = floors_of("gen:plain:1", ScalarKind::f32, 1);
  const auto two = floors_of("gen:plain:1", ScalarKind::f32, 2);
  int different = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    different += one[i].floor == two[i].floor ? 0 : 1;
    EXPECT_LT(one[i].floor, 10 * two[i].floor);
    EXPECT_LT(two[i].floor, 10 * one[i].floor);
  }
  EXPECT_GT(different, 0);
}

TEST(NoiseMeter, a_wider_scalar_has_a_lower_floor) {
  const auto narrow = floors_of("gen:plain:1", ScalarKind::f32);
  const auto wide = floors_of("gen:plain:1", ScalarKind::f64);
  for (std::size_t i = 0; i < narrow.size(); ++i) {
    EXPECT_LT(wide[i].floor, 1e-6 * narrow[i].floor);
    EXPECT_GT(wide[i].floor, 1e-12 * narrow[i].floor);
  }
}

// What a floor holds at least, computed apart from the meter.
struct Parts {
  double distance = 0;  // to the logits in float64
  double term = 0;      // epsilon x the largest sum of |x_i w_ij| of the output product
};

Parts parts_of(const Model<double>& wide, std::span<const int> tokens, const Logits& uncached) {
  Parts parts;
  const Observer<double> observer = [&](const SiteTensor<double>& x) {
    if (x.site != Site::final_norm) return;
    for (int o = 0; o < wide.config.vocabulary; ++o) {
      double sum = 0;
      for (int f = 0; f < x.columns; ++f) sum += std::abs(x.at(0, f) * wide.output(f, o));
      parts.term = std::max(parts.term, sum * double{std::numeric_limits<float>::epsilon()});
    }
  };
  Uncached<double> oracle(wide, ops_for<double>(Arithmetic::row));
  const View<const double> exact = oracle.logits({tokens, 1}, Rows::last, &observer);
  for (int o = 0; o < exact.features; ++o) {
    const double apart = uncached.row(0)[static_cast<std::size_t>(o)] - exact.feature(o)[0];
    parts.distance = std::max(parts.distance, std::abs(apart));
  }
  return parts;
}

// Over so many prefixes that on some of them no perturbation moves the logits as far as rounding
// did.
TEST(NoiseMeter, holds_the_distance_to_the_wider_scalar_and_the_output_products_rounding) {
  for (const Family& family : families()) {
    const ModelData model = load_model(generated_name(family, 1));
    const Config& config = model.weights.config;
    Yardstick yardstick(model, ScalarKind::f32, Arithmetic::row);
    const Model<double> wide = cast<double>(model.weights);
    for (const std::vector<int>& sequence : random_sequences(config, {1, 0, 4})) {
      for (std::size_t n = 1; n <= sequence.size(); ++n) {
        const std::span<const int> tokens = std::span(sequence).first(n);
        Logits uncached;
        yardstick.engine->full({tokens, 1}, Rows::last, uncached);
        const Parts parts = parts_of(wide, tokens, uncached);
        const NoiseFloor floor = yardstick.floors({tokens, 1}).at(0);
        EXPECT_GE(floor.floor, (parts.distance + parts.term) * (1 - 1e-9)) << family.id;
        EXPECT_NEAR(floor.kappa, floor.floor / parts.term, 1e-6 * floor.kappa) << family.id;
      }
    }
  }
}

// Each of two siblings alone, and both side by side.
void expect_alike_alone_and_beside(Arithmetic arithmetic, double factor) {
  const ModelData model = wide_model();
  Yardstick yardstick(model, ScalarKind::f32, arithmetic);
  const std::vector<int> together{0, 0, 1, 1, 2, 2, 1, 2};
  const auto beside = yardstick.floors({together, 2});
  ASSERT_EQ(beside.size(), 2U);
  for (int b = 0; b < 2; ++b) {
    const std::vector<int> tokens{0, 1, 2, 1 + b};
    const NoiseFloor alone = yardstick.floors({tokens, 1}).at(0);
    const NoiseFloor& found = beside[static_cast<std::size_t>(b)];
    EXPECT_LE(found.floor, alone.floor * factor);
    EXPECT_GE(found.floor * factor, alone.floor);
  }
  EXPECT_NE(beside[0].floor, beside[1].floor) << "each sibling has its own";
}

TEST(NoiseMeter, is_the_same_alone_and_beside_siblings_in_row_arithmetic) {
  expect_alike_alone_and_beside(Arithmetic::row, 1);
}

TEST(NoiseMeter, is_alike_alone_and_beside_siblings_in_matrix_arithmetic) {
  expect_alike_alone_and_beside(Arithmetic::matrix, 4);
}

// ---- One set of weights

// More parameters than are widened at once, most of them in tables.
ModelData large_model() {
  Config config = load_model("gen:plain:1").weights.config;
  config.vocabulary = 140'000;
  config.width = 32;
  config.output = Output::tied;
  config.layers = 1;
  config.windows = {0};
  return model_of("large", random_model(config, WeightScales{}, 1));
}

// Whoever had a copy of the weights would not see that they change.
TEST(NoiseMeter, engine_oracle_and_meter_share_the_weights) {
  ModelData model = large_model();
  ASSERT_GT(parameter_count(model.weights.config), kWidenedWholeMax);
  const Yardstick yardstick(model, ScalarKind::f32, Arithmetic::row);
  const auto oracle = make_log_oracle(model.weights, ScalarKind::f32, Arithmetic::row);
  model.weights.embedding *= 2;
  tie_output(model.weights);
  const ModelData changed = model;
  Yardstick after(changed, ScalarKind::f32, Arithmetic::row);
  const std::vector<int> tokens{0, 1, 2};
  Logits expected, found;
  after.engine->full({tokens}, Rows::last, expected);
  yardstick.engine->full({tokens}, Rows::last, found);
  EXPECT_EQ(found.values, expected.values);
  const SequenceId sequence = yardstick.engine->open();
  yardstick.engine->feed(sequence, tokens, Rows::last, found);
  EXPECT_EQ(found.values, expected.values);
  oracle->logits(plain_log(tokens), 1, found);
  EXPECT_EQ(found.values, expected.values);
  std::vector<NoiseFloor> floors;
  yardstick.meter->floors({tokens}, expected, 1, floors);
  EXPECT_EQ(floors.at(0).floor, after.floors({tokens}).at(0).floor);
}

// ---- Of logs

// The last rows of a log under the oracle, as wide as an engine answers.
template <typename T>
Logits logged(const Model<float>& weights, std::span<const LoggedRow> log, int answered) {
  const Model<T> model = cast<T>(weights);
  Logits out;
  copy_rows(Logged<T>(model, row_ops<T>()).logits(log, answered), out);
  return out;
}

template <typename T>
void expect_floors_of_blocks(const ModelData& model, ScalarKind scalar) {
  Yardstick yardstick(model, scalar, Arithmetic::row);
  const Config& config = model.weights.config;
  const std::vector<int> tokens = random_tokens(config.vocabulary, config.context, 1, 0);
  const std::vector<LoggedRow> log = plain_log(tokens);
  std::vector<NoiseFloor> found;
  yardstick.meter->floors(log, logged<T>(model.weights, log, config.context), 7, found);
  ASSERT_EQ(found.size(), tokens.size());
  for (std::size_t n = 1; n <= tokens.size(); ++n) {
    const NoiseFloor expected = yardstick.floors({std::span(tokens).first(n), 1}, 7).at(0);
    EXPECT_EQ(found[n - 1].floor, expected.floor) << model.weights.config.context << ", " << n;
    EXPECT_EQ(found[n - 1].kappa, expected.kappa) << model.weights.config.context << ", " << n;
  }
}

TEST(NoiseMeter, rows_of_a_plain_log_have_the_floors_of_their_prefixes) {
  for (const Family& family : families()) {
    SCOPED_TRACE(family.id);
    const ModelData model = load_model(generated_name(family, 1));
    expect_floors_of_blocks<float>(model, ScalarKind::f32);
    expect_floors_of_blocks<double>(model, ScalarKind::f64);
  }
}

// The last row does not see the one between, which had seen the first.
TEST(NoiseMeter, the_floor_of_a_log_is_that_of_what_its_rows_saw) {
  const ModelData model = load_model("gen:plain:1");
  Yardstick yardstick(model, ScalarKind::f32, Arithmetic::row);
  std::vector<LoggedRow> log = plain_log(std::vector<int>{0, 1, 2});
  log[2].sees.erase(log[2].sees.begin() + 1);
  const Logits uncached = logged<float>(model.weights, log, 1);
  std::vector<NoiseFloor> found;
  yardstick.meter->floors(log, uncached, 1, found);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_GE(found[0].kappa, 1);
  EXPECT_LT(found[0].kappa, kKappaGate);
  const Logits exact = logged<double>(model.weights, log, 1);
  double distance = 0;
  for (std::size_t i = 0; i < exact.values.size(); ++i) {
    distance = std::max(distance, std::abs(exact.values[i] - uncached.values[i]));
  }
  EXPECT_GT(distance, 0);
  EXPECT_GE(found[0].floor, distance);
}

TEST(NoiseMeter, ill_conditioned_rows_are_known_by_their_kappa) {
  EXPECT_LT(largest_kappa("plain", 4), kKappaGate);
  EXPECT_GT(largest_kappa("saturated", 4), 10 * largest_kappa("plain", 4));
  const ModelData model = ill_conditioned_model();
  Yardstick yardstick(model, ScalarKind::f32, Arithmetic::matrix);
  const std::vector<int> tokens{0, 1};
  EXPECT_GT(yardstick.floors({tokens, 1}).at(0).kappa, 3 * kKappaGate);
}

// Wherever the NaN stands: no floor that is measured with one may let a difference pass.
TEST(NoiseMeter, nan_in_a_row_gives_a_floor_that_never_agrees) {
  const ModelData model = small_model();
  const std::vector<int> tokens{0, 1};
  RowComparison row;
  row.max_abs_difference = 1e-12;
  row.same_bits = false;
  for (const ScalarKind scalar : {ScalarKind::f32, ScalarKind::f64}) {
    Yardstick yardstick(model, scalar, Arithmetic::row);
    Logits uncached;
    yardstick.engine->full({tokens, 1}, Rows::last, uncached);
    for (std::size_t at = 0; at < uncached.values.size(); ++at) {
      Logits poisoned = uncached;
      poisoned.values[at] = kNan;
      std::vector<NoiseFloor> found;
      yardstick.meter->floors({tokens, 1}, poisoned, 1, found);
      const Verdict verdict = judge(NoiseLimit{1e300}, row, found.at(0), scalar).verdict;
      EXPECT_NE(verdict, Verdict::agree) << name(scalar) << ", logit " << at;
      EXPECT_TRUE(std::isnan(found[0].floor)) << name(scalar) << ", logit " << at;
    }
  }
}

TEST(NoiseMeter, nan_in_one_row_leaves_its_siblings_alone) {
  const ModelData model = small_model();
  Yardstick yardstick(model, ScalarKind::f32, Arithmetic::row);
  const std::vector<int> tokens{0, 0, 1, 2};
  const auto clean = yardstick.floors({tokens, 2});
  Logits uncached;
  yardstick.engine->full({tokens, 2}, Rows::last, uncached);
  uncached.values[2] = kNan;  // the last logit of the first row
  std::vector<NoiseFloor> found;
  yardstick.meter->floors({tokens, 2}, uncached, 1, found);
  EXPECT_TRUE(std::isnan(found.at(0).floor));
  EXPECT_EQ(found.at(1).floor, clean.at(1).floor);
}

}  // namespace
}  // namespace kvcheck
