// SPDX-License-Identifier: MIT
// What is recorded is what would have been computed, to the last bit, and is computed once.
#include "verify/shared_oracle.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "verify/hooked_engine.h"
#include "verify/test_faults.h"

namespace kvcheck {
namespace {

// Counts the full forwards of all its engines.
EngineFactory counting(const std::shared_ptr<int>& count) {
  return [count](const ModelData& model, const EngineSetup& setup) {
    Hooks hooks;
    hooks.full = [count](Engine& inner, const TokenBlock& block, Rows rows, Logits& out) {
      ++*count;
      inner.full(block, rows, out);
    };
    return std::make_unique<HookedEngine>(builtin_engine(model, setup), std::move(hooks));
  };
}

constexpr std::array<EngineSetup, 4> kSetups{{{ScalarKind::f32, Arithmetic::row},
                                              {ScalarKind::f32, Arithmetic::matrix},
                                              {ScalarKind::f64, Arithmetic::row},
                                              {ScalarKind::f64, Arithmetic::matrix}}};
constexpr std::array kTokens{2, 1, 0, 2};

Logits full(const EngineFactory& factory, const ModelData& model, const EngineSetup& setup,
            const TokenBlock& block, Rows rows) {
  Logits logits;
  factory(model, setup)->full(block, rows, logits);
  return logits;
}

TEST(SharedOracle, answers_what_the_engine_would_and_asks_it_once) {
  const ModelData model = wide_model();
  SharedOracle oracle;
  const auto count = std::make_shared<int>(0);
  const EngineFactory shared = oracle.around(counting(count));
  for (int round = 0; round < 2; ++round) {
    for (const EngineSetup& setup : kSetups) {
      for (const Rows rows : {Rows::all, Rows::last}) {
        for (const int sequences : {1, 2}) {
          const TokenBlock block{kTokens, sequences};
          EXPECT_EQ(full(shared, model, setup, block, rows).values,
                    full(builtin_engine, model, setup, block, rows).values);
        }
      }
    }
    EXPECT_EQ(*count, 16) << "rounds " << round + 1;
  }
}

TEST(SharedOracle, floors_are_those_of_the_meter) {
  const ModelData model = wide_model();
  SharedOracle oracle;
  for (const EngineSetup& setup : kSetups) {
    Logits rows = full(builtin_engine, model, setup, {kTokens}, Rows::last);
    const auto meter = make_noise_meter(model.weights, setup.scalar, setup.arithmetic);
    const auto shared =
        oracle.around(make_noise_meter(model.weights, setup.scalar, setup.arithmetic), setup);
    std::vector<NoiseFloor> expected;
    std::vector<NoiseFloor> found;
    meter->floors(TokenBlock{kTokens}, rows, 7, expected);
    shared->floors(TokenBlock{kTokens}, rows, 7, found);
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].floor, expected[0].floor);
    EXPECT_EQ(found[0].kappa, expected[0].kappa);
    // From the record, whatever the rows are now; other signs are another measurement.
    for (double& value : rows.values) value += 1;
    shared->floors(TokenBlock{kTokens}, rows, 7, found);
    EXPECT_EQ(found[0].floor, expected[0].floor);
    shared->floors(TokenBlock{kTokens}, rows, 8, found);
    EXPECT_GT(found[0].floor, 0.5);
    // Floors that are ended early are neither taken from the record nor put there.
    const EnoughFloors at_once = [](std::span<const NoiseFloor>) { return true; };
    shared->floors(TokenBlock{kTokens}, rows, 7, found, at_once);
    EXPECT_NE(found[0].floor, expected[0].floor);
    shared->floors(TokenBlock{kTokens}, rows, 7, found);
    EXPECT_EQ(found[0].floor, expected[0].floor);
  }
}

}  // namespace
}  // namespace kvcheck
