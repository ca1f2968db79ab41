// SPDX-License-Identifier: MIT
// Decoding policies: which token follows, from a row of logits. A choice is a function of (logits,
// policy, tokens seen, seed, step) and of nothing else: not of earlier draws, the compiler, the
// mathematical library or the way in which the logits were computed.
//
// The stages, in this order, all in double:
//   1. penalty R: the logit l of each token that was consumed or returned before becomes l / R if
//      it is positive, else l * R; once, however often the token was seen
//   2. greedy (temperature 0): the token of the largest logit, of equal ones the lowest id; else
//   3. top-k K: the K largest logits stay, of equal ones the lowest ids
//   4. temperature T: weight = e^((l - largest l) * (1 / T)); below e^-708 it is 0
//   5. top-p P: by falling weight, of equal ones the lowest ids first, the fewest tokens stay
//      whose weights come to at least P times the sum of all (that of stage 7). What they come to
//      is added without rounding, of weights as multiples of 2^-57, so that no order matters
//   6. min-p M: tokens stay whose weight is at least M of the largest weight
//   7. the draw: u in [0, 1) is a function of (seed, step) alone; the token is the first one, in
//      the order of ids, at which the running sum of the weights that stayed exceeds u times their
//      sum. A sum is one of blocks of kSumBlock tokens of those that top-k left, each of eight
//      interleaved partial sums, and what does not stay is 0 in it; inside the block in which it
//      falls, weights are added one by one.
//
// e^x is row arithmetic's own (engine/row_ops_impl.h), not std::exp, whose last bit differs between
// libraries: a weight that differs there moves the edges between tokens by about 1e-16, so that one
// draw in some 1e15 would give another token elsewhere. Here none does.
//
// A logit of -inf is a token that is never chosen. NaN, +inf, and a row of nothing but -inf are no
// logits at all: BadLogits, which is the engine's fault.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/error.h"

namespace kvcheck {

struct DecodingPolicy {
  double temperature = 0;            // 0: greedy; else kTemperatureMin to kTemperatureMax
  std::optional<int> top_k = {};     // 1 to the vocabulary
  std::optional<double> top_p = {};  // in (0, 1]
  std::optional<double> min_p = {};  // in (0, 1]
  double penalty = 1;                // of repetition, kPenaltyMin to kPenaltyMax; 1: none

  bool operator==(const DecodingPolicy&) const = default;
  [[nodiscard]] bool greedy() const { return temperature == 0; }
};

inline constexpr double kTemperatureMin = 1e-6;
inline constexpr double kTemperatureMax = 1e6;
inline constexpr double kPenaltyMin = 0.01;
inline constexpr double kPenaltyMax = 100;
inline constexpr int kSumBlock = 64;  // ids

// "greedy", "temperature:0.8,top-k:40,top-p:0.95,min-p:0.05,penalty:1.1": what is not in force is
// left out, and greedy knows the penalty only.
[[nodiscard]] std::string to_text(const DecodingPolicy& policy);
// In any order. Without a temperature, what only sampling knows brings temperature 1. Throws Error
// naming `where` for anything out of range; the vocabulary's size bounds K.
[[nodiscard]] DecodingPolicy parse_decoding(std::string_view text, int vocabulary,
                                            std::string_view where);

// Logits that no token can be chosen from.
struct BadLogits : EngineError {
  using EngineError::EngineError;
};

// Of which draw a choice is.
struct DrawPlace {
  std::uint64_t seed = 1;
  std::uint64_t step = 0;  // tokens returned before
};
// The u of the draw: in [0, 1), a multiple of 2^-53.
[[nodiscard]] double uniform_of(DrawPlace place);

struct Chosen {
  int token = 0;
  double probability = 0;  // of the token under the policy; 1 if greedy

  bool operator==(const Chosen&) const = default;
};

// Work space of a choice, kept between calls. No choice depends on what is in it.
struct PolicyScratch {
  std::vector<double> penalised;  // [vocabulary]
  std::vector<double> maxima;     // [blocks]
  std::vector<double> bounds;     // [blocks]
  struct Ranked {
    double value;
    int id;
  };
  std::vector<Ranked> ranked;
  std::vector<Ranked> within;
  std::vector<int> found;
  std::vector<int> ids;  // that top-k left, rising; empty: all
  std::vector<double> values;
  std::vector<double> weights;  // [ids], or [vocabulary]
  std::vector<double> sums;     // of the blocks of weights
  std::vector<double> partial;  // of which each of those is made
  std::vector<double> bins;
};

// `seen`: the tokens consumed and returned so far, which only the penalty looks at. Throws
// BadLogits. The policy must be a valid one for that vocabulary.
[[nodiscard]] Chosen choose(const DecodingPolicy& policy, std::span<const double> logits,
                            std::span<const int> seen, DrawPlace place, PolicyScratch& scratch);

// The logits after the first stage.
[[nodiscard]] std::vector<double> penalised(const DecodingPolicy& policy,
                                            std::span<const double> logits,
                                            std::span<const int> seen);

// A token that may be drawn.
struct Candidate {
  int token;
  double logit;        // after the penalty
  double probability;  // of 1 in all
};
// What choose() draws from, by rising id: a single token if greedy. Throws BadLogits.
[[nodiscard]] std::vector<Candidate> candidates(const DecodingPolicy& policy,
                                                std::span<const double> logits,
                                                std::span<const int> seen);

// What the logits themselves say: softmax(logits)[token].
[[nodiscard]] double softmax_at(std::span<const double> logits, int token);

}  // namespace kvcheck
