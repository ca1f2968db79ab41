// SPDX-License-Identifier: MIT
// One generation with a cache beside one without: the same tokens, the same reason to stop, the
// same accounts, and rows of logits that agree.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/generate.h"
#include "verify/decision.h"
#include "verify/probes.h"

namespace kvcheck {

inline constexpr std::string_view kGenerationCheck = "generation";

struct GenerationTrial {
  Generation uncached;
  Generation cached;
  // Index of the first step at which the two differ in what they chose or in why they stopped; the
  // tokens before it are the same.
  std::optional<int> first = {};
  std::optional<Decision> decision = {};  // if they chose two tokens there
  std::vector<MeasuredRow> rows = {};     // of the steps up to and with `first`, or of all
  int facts = 0;
  std::string note = {};  // what is wrong, except with logits; empty: nothing

  // A decision that fell otherwise because of rounding: then tokens may differ.
  [[nodiscard]] bool tied() const { return decision && decision->tie && note.empty(); }
};

// In row arithmetic nothing may differ. In matrix arithmetic two tokens may, where the decision was
// a tie; that the rows which it was made from agree is for whoever judges `rows`. A cached row that
// no token can be chosen from, beside an uncached one, is a difference. Throws EngineError
// otherwise, BadLogits for an oracle's own.
[[nodiscard]] GenerationTrial try_generation(Bench& bench, const GenerationRequest& request);

// As try_generation, of a cached run that is there already, as part of a batch.
[[nodiscard]] GenerationTrial compare_generation(Bench& bench, const GenerationRequest& request,
                                                 Generation cached);

// The policy, seed, EOS and steps that the check takes with a prompt: a function of both arguments.
[[nodiscard]] GenerationRequest drawn_request(const Config& config, std::span<const int> prompt,
                                              std::uint64_t seed);
// Number `index` of the random (model, prompt, policy, seed) of a seed.
struct RandomGeneration {
  std::string model;
  EngineSetup setup;
  GenerationRequest request;
  ModelData data;
};
[[nodiscard]] RandomGeneration random_generation(std::uint64_t seed, std::uint64_t index);

// "kvcheck generate MODEL --tokens 0,2 ...": the command that shows both runs.
[[nodiscard]] std::string generate_line(const std::string& model, const EngineSetup& setup,
                                        const GenerationRequest& request);

// Prompts of one assignment of the check, about, besides those of one token. Of sequences that are
// longer than kGenerationLength fewer are taken, at least two: the uncached run recomputes them.
inline constexpr std::int64_t kGenerationPrompts = 24;
inline constexpr std::int64_t kGenerationLength = 32;
// Tokens that one case returns at most.
inline constexpr int kGenerationSteps = 8;

// Some of the tree's prefixes, as prompts: the rows that both runs choose from, and the facts.
void probe_generation(Bench& bench, const Probe& probe, const Sink& sink);

}  // namespace kvcheck
