// SPDX-License-Identifier: MIT
// Which models a run checks, and over which prefixes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model_file.h"
#include "verify/suite.h"

namespace kvcheck {

// Random sequences of each model when nothing else is asked for.
inline constexpr int kRandomSequences = 16;
// As many as a model may be asked for, so that a number tells the model of the default set too.
inline constexpr int kRandomSequencesMax = 1'000'000;
// Their most tokens: every prefix costs a forward of its own.
inline constexpr int kRandomLengthMax = 64;
// Longest prefix of a file, or of all there are: a walk keeps what belongs to each of its tokens,
// and each costs a forward of its own.
inline constexpr int kPrefixLengthMax = 4096;
// More prefixes than this are enumerated only when the user asks for all of them.
inline constexpr std::int64_t kUnaskedPrefixesMax = 100'000;

// A bundled name, a path, or gen:FAMILY:SEED.
[[nodiscard]] ModelData load_model(std::string_view name);
// chapter8, chapter8-rotary, then the generated set of the seed.
[[nodiscard]] std::vector<std::string> default_models(std::uint64_t seed);

// What --prefixes says.
struct PrefixChoice {
  enum class Kind { standard, corpus, all, random, file };
  Kind kind = Kind::standard;
  int random = kRandomSequences;  // sequences
  std::string file = {};
};
// Throws Error for random:0 and the like. Anything that is not a known word is a file.
[[nodiscard]] PrefixChoice parse_prefix_choice(std::string_view text);

// Random sequences are numbered from 0. In the default set, sequence i of model m has the number
// m x kRandomSequencesMax + i: however many are run, (seed, number) is one sequence on one model.
struct RandomRange {
  std::uint64_t seed;
  std::uint64_t first;  // number of the first one
  int count;
};
[[nodiscard]] std::vector<int> random_sequence(const Config& config, std::uint64_t seed,
                                               std::uint64_t number);
[[nodiscard]] std::vector<std::vector<int>> random_sequences(const Config& config,
                                                             const RandomRange& range);
// The number of the first random sequence that begins with these tokens.
[[nodiscard]] std::optional<std::uint64_t> find_random(const Config& config,
                                                       const RandomRange& range,
                                                       std::span<const int> tokens);

// The sources of prefixes of a model, from small to large. Throws Error where a model has no
// corpus, has too many or too long prefixes for `all`, or where the file does not suit the model.
[[nodiscard]] std::vector<SourceOfPrefixes> sources_of(const ModelData& model,
                                                       const PrefixChoice& choice,
                                                       const RandomRange& range);

}  // namespace kvcheck
