// SPDX-License-Identifier: MIT
// What an engine's answers look like from outside tells what is wrong with it, whatever its
// weights.
#include "verify/signature.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>

#include "engine/generated.h"
#include "verify/faults.h"
#include "verify/test_faults.h"

namespace kvcheck {
namespace {

// Other weights, shapes and scalar than those that signatures were recorded with.
ModelData stranger(Features features) {
  Config config = tiny_decoder(features);
  config.width = 16;
  config.mlp_width = 24;
  config.vocabulary = 31;
  config.context = 12;
  config.norm = Norm::layer;
  config.mlp = Mlp::gelu_tanh;
  return model_of("stranger", random_model(config, {}, 77));
}

Signature signature_with(std::string_view fault) {
  const FaultVariant variant = parse_fault(fault, "test");
  const ModelData model = stranger(variant.fault->needs);
  const EngineSetup setup{ScalarKind::f64, Arithmetic::matrix,
                          cache_kind(variant.fault->cache, "test")};
  const auto engine = faulty_engine(variant, std::make_shared<FaultTrace>())(model, setup);
  return signature_of(*engine);
}

TEST(Signature, of_a_right_engine_looks_right_on_every_kind_of_cache) {
  const ModelData model = stranger({Feature::rotary, Feature::window});
  for (const CacheKind& kind : cache_kinds()) {
    if (kind.lossy()) continue;  // rounding is not told from a fault without weights
    const auto engine = builtin_engine(model, {ScalarKind::f32, Arithmetic::matrix, kind});
    const Signature signature = signature_of(*engine);
    EXPECT_TRUE(looks_right(signature)) << name(kind) << "\n" << to_text(signature, {});
    EXPECT_EQ(to_text(signature, {}), "nothing looks wrong\n");
  }
}

// The fault is among the few that answer most alike.
class Signatures : public ::testing::TestWithParam<std::string_view> {};

TEST_P(Signatures, resemble_those_of_the_fault_on_another_model) {
  const Signature signature = signature_with(GetParam());
  EXPECT_FALSE(looks_right(signature));
  const auto found = resemblances(signature);
  ASSERT_FALSE(found.empty());
  // How a difference grows depends on the weights: one answer may be another one.
  const auto best = [&](const Resemblance& by) { return by.alike >= found.front().alike - 1; };
  const bool among = std::ranges::any_of(
      found, [&](const Resemblance& by) { return best(by) && to_text(by.fault) == GetParam(); });
  EXPECT_TRUE(among) << to_text(signature, found);
  EXPECT_LT(std::ranges::count_if(found, best), std::ssize(found) / 2);
}

INSTANTIATE_TEST_SUITE_P(Faults, Signatures,
                         ::testing::Values("pos-decode-offset:onset1:amount1", "pos-multi-constant",
                                           "pos-chunk-relative", "pos-batch-shared",
                                           "rope-key-raw:onset1", "pos-all-offset-learned:amount1"),
                         [](const auto& fault) {
                           std::string text(fault.param);
                           std::ranges::replace_if(
                               text, [](char c) { return c == '-' || c == ':'; }, '_');
                           return text;
                         });

TEST(Signature, leaves_no_sequence_behind) {
  const ModelData model = stranger({Feature::rotary});
  const auto engine = builtin_engine(model, {ScalarKind::f32, Arithmetic::row});
  const SequenceId first = engine->open();
  engine->close(first);
  (void)signature_of(*engine);
  EXPECT_EQ(engine->open(), first);
}

}  // namespace
}  // namespace kvcheck
