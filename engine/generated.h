// SPDX-License-Identifier: MIT
// Generated models: named families of shapes and weights, each model drawn from one 64-bit seed.
// What holds for all decoders must hold for these; every family stresses one thing that caches or
// their comparison get wrong. A name such as "gen:plain:7" stands for one model for ever: changing
// a rule here changes every model, and the pinned hashes in the test say so.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config.h"
#include "engine/model.h"
#include "engine/random.h"

namespace kvcheck {

// How large a family's weights are. A matrix entry is normal x gain / sqrt(inputs), so that a gain
// of 1 keeps the size of what passes through; vectors and tables are drawn at the stated size.
struct WeightScales {
  float embedding = 1.0F;
  float positions = 0.5F;
  float query_key = 1.0F;        // gain of queries and of keys: scores grow with its square
  float value = 1.0F;            // gain
  float mlp_in = 1.0F;           // gain of mlp_gate and mlp_up
  float residual = 1.0F;         // gain of what layer 0 adds: attention_output and mlp_down
  float residual_growth = 1.0F;  // factor on `residual` from each layer to the next
  float norm = 0.2F;             // a norm's scales are 1 +- this
  float shift = 0.2F;
  float bias = 0.2F;
  float logits = 3.0F;         // gain of a separate output
  float output_spread = 1.0F;  // below 1: a separate output's columns are its first one plus this
                               // much of their own; a power of two, so that the product is exact
};

struct Family {
  std::string_view id;
  std::string_view summary;
  Config (*config)(Draw& draw);
  WeightScales scales = {};
  // Left out where every model does what the family is for: each fills its context, and about half
  // have each bias.
  bool in_default_set = true;
};

// In table order, which default_set() follows. Whatever the seed, the families together have every
// norm, position kind, rotary pairing, MLP and output, each bias, head norms, caps, scaled
// embeddings, partial rotation, two rotary bases, and layers with and without windows.
[[nodiscard]] std::span<const Family> families();
// Models of real sizes: to be named, never drawn by the dozen.
[[nodiscard]] std::span<const Family> large_families();

// Random weights for any valid shape. Each tensor has a stream of its own, so that its numbers do
// not depend on which other tensors there are.
[[nodiscard]] Model<float> random_model(const Config& config, const WeightScales& scales,
                                        std::uint64_t seed);

[[nodiscard]] Model<float> generate_model(const Family& family, std::uint64_t seed);

// Longest context that a name may ask for.
inline constexpr int kNamedContextMax = 1 << 16;

// A model's name: gen:FAMILY:SEED, or gen:FAMILY:SEED:contextN for the same shape and weights with
// another context (learned positions beyond the family's own are drawn on).
struct GeneratedName {
  const Family* family;
  std::uint64_t seed;
  int context = 0;  // 0: the family's own
};

// Whether the name claims to be a generated model's, of a family or of features.h; it may still be
// a bad one.
[[nodiscard]] bool is_generated_name(std::string_view name);
[[nodiscard]] std::string generated_name(const Family& family, std::uint64_t seed);
// Both throw Error unless the name is just what generated_name(), or tiny_name(), would write,
// perhaps with a context; only a family's has parts.
[[nodiscard]] GeneratedName parse_generated_name(std::string_view name);
[[nodiscard]] Model<float> generate_model(const GeneratedName& name);
[[nodiscard]] Model<float> generate_model(std::string_view name);

// How many generated models a run without a model checks.
inline constexpr int kDefaultSetSize = 20;

// The names of that many models: every family of the set, in table order, with this seed.
[[nodiscard]] std::vector<std::string> default_set(std::uint64_t seed);

// The first `count` tokens of the random sequence (seed, index).
[[nodiscard]] std::vector<int> random_tokens(int vocabulary, int count, std::uint64_t seed,
                                             std::uint64_t index);

}  // namespace kvcheck
