// SPDX-License-Identifier: MIT
// How often the diagnosis names the fault that was planted.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "verify/diagnose.h"

namespace kvcheck {

// Of the variants of one fault, each on every model that shows it.
struct DiagnosisScore {
  const Fault* fault;
  int caught = 0;                        // shown by some check: asked about
  int named = 0;                         // the variant is among those that explain the case
  int alone = 0;                         // and nothing else is
  std::vector<std::string> missed = {};  // variants that were not named, with their models
};

struct ScoreOptions {
  std::vector<FaultVariant> wanted = {};  // of faults that are to be caught
  std::string model;                      // besides the smallest one of each fault; empty: none
  std::uint64_t seed = 1;
  int jobs = 1;
  std::function<Operations(const OperationSpace&, std::uint64_t seed, std::uint64_t number)> draw;
};

// In the order of the table, the same whatever `jobs`. The case that is diagnosed is the first that
// a check shows, in its arithmetic and scalar; the simulation has neither. `stop` ends it early.
[[nodiscard]] std::vector<DiagnosisScore> score_diagnosis(const ScoreOptions& options,
                                                          const std::atomic<bool>& stop);

[[nodiscard]] std::string to_text(const std::vector<DiagnosisScore>& scores);

}  // namespace kvcheck
