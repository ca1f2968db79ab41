// SPDX-License-Identifier: MIT
// What the property tests draw: shapes, generated models, tokens and the feeds they are cut into.
// Cases are valid by construction, edges are drawn on purpose, and no draw depends on RapidCheck's
// size, which would keep early cases away from every edge. Weights are not drawn one by one: a case
// holds a 64-bit seed and random_model() fills in the rest.
#pragma once

#include <rapidcheck.h>

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "engine/config.h"

namespace kvcheck {

// Any small shape; each norm, MLP, output and bias choice in half of the cases, each position kind
// in a sixth or more, windows on some layer in about a third; a head norm, a second rotary base, an
// attention cap, a logit cap, a scaled embedding and partial rotation in a sixth or more each.
// Shrinks towards one layer with one head, no positions, no biases, no windows and none of the
// last.
[[nodiscard]] rc::Gen<Config> any_config();

// One of the named models. Shrinks towards the plain family and keeps its seed.
struct GeneratedModel {
  std::string family;
  std::uint64_t seed = 0;

  [[nodiscard]] std::string name() const;  // as generate_model() takes it
};
[[nodiscard]] rc::Gen<GeneratedModel> any_model();

// All 64 bits; does not shrink, because no seed is simpler than another.
[[nodiscard]] rc::Gen<std::uint64_t> any_seed();

// 1 to context tokens: a fifth of the cases fill the context, a tenth each have one token and one
// less than the context, a quarter end within one token of a window (where there is one), the rest
// have any length. Shrinks towards fewer tokens, then lower ids.
[[nodiscard]] rc::Gen<std::vector<int>> any_tokens(const Config& config);

// Feed lengths that sum to `length`: a fifth of the cases each are all ones (decode), one feed
// (single), and a feed followed by ones; the rest are two feeds or cut anywhere. Shrinks towards
// fewer feeds.
[[nodiscard]] rc::Gen<std::vector<int>> any_schedule(int length);

// How a counterexample shows them: on one line.
std::ostream& operator<<(std::ostream& out, const Config& config);
std::ostream& operator<<(std::ostream& out, const GeneratedModel& model);

}  // namespace kvcheck
