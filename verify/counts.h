// SPDX-License-Identifier: MIT
// How many of a check's cases came to what: what can be added up over parts of a check, over checks
// and over models.
#pragma once

#include <cstdint>

#include "verify/invariants.h"

namespace kvcheck {

struct Counts {
  std::int64_t cases = 0;
  std::int64_t prefixes = 0;  // distinct ones within a check
  std::int64_t logits = 0;    // numbers compared
  std::int64_t diverged = 0;
  std::int64_t undecided = 0;  // gave up, for whatever reason
  std::int64_t gated = 0;      // of these because ill-conditioned
  std::int64_t widened = 0;    // decided in float64
  std::int64_t flaky = 0;
  std::int64_t crashed = 0;
  std::int64_t refused = 0;  // operations that the engine declined, as it may

  std::int64_t ties = 0;  // agreeing generations of which rounding decided a token

  std::int64_t reused = 0;  // rows that prompts found already computed

  InvariantCounts invariants = {};

  constexpr Counts& operator+=(const Counts& other) {
    cases += other.cases;
    prefixes += other.prefixes;
    logits += other.logits;
    diverged += other.diverged;
    undecided += other.undecided;
    gated += other.gated;
    widened += other.widened;
    flaky += other.flaky;
    crashed += other.crashed;
    refused += other.refused;
    ties += other.ties;
    reused += other.reused;
    invariants += other.invariants;
    return *this;
  }
  bool operator==(const Counts&) const = default;
};

}  // namespace kvcheck
