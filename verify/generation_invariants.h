// SPDX-License-Identifier: MIT
// What holds of every generation, whatever the model and the policy: the accounts of tokens, rows
// and positions, and the reasons to stop. One list, checked in every run of `kvcheck generate` and
// in every case of the check `generation`.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "engine/generate.h"
#include "verify/invariants.h"

namespace kvcheck {

// A generation beside what was asked for.
struct GenerationAccount {
  const GenerationRequest& request;
  const Generation& generation;
  int context;
  int vocabulary;
  bool cached;
  bool outlived = false;  // others of its batch went on when it had stopped
};

struct GenerationInvariant {
  std::string_view name;
  std::string_view claim;
  // One of the two: of each step by its index, or of the whole. Empty if it holds, else
  // "expected 3, got 2".
  std::string (*of_step)(const GenerationAccount&, std::size_t);
  std::string (*of_whole)(const GenerationAccount&);
};

[[nodiscard]] std::span<const GenerationInvariant> generation_invariants();

// The first one that does not hold: "invariant NAME violated at step 2: CLAIM, expected 3, got 2".
// Empty: all hold.
[[nodiscard]] std::string violated_invariant(const GenerationAccount& account);
// Counts, besides, how often each was checked, where it says something of such a run.
[[nodiscard]] std::string violated_invariant(const GenerationAccount& account,
                                             InvariantCounts& counts);

}  // namespace kvcheck
