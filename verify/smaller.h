// SPDX-License-Identifier: MIT
// From a failing sequence of operations to the smallest that fails in the same way, and which of
// its other fields do not matter.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "verify/replay.h"
#include "verify/shrink.h"

namespace kvcheck {

struct SmallerCase {
  Case subject;
  CaseResult result;
  int tries = 0;
  bool complete = false;  // nothing simpler fails so; else the budget was spent
  // "the other arithmetic", "the other scalar", "a flat cache": with these it fails in the same
  // way.
  std::vector<std::string> indifferent = {};
};

// Tries and time that one failure is worth.
inline constexpr int kSmallerTries = 1000;
inline constexpr std::chrono::milliseconds kSmallerTime{2000};

// What a smaller case must keep: the verdict, the verb of the step that fails (feeds and batches
// count as one), and whether logits or something else is wrong there. Where the engine can be
// watched, make_smaller() keeps the point too at which the run first parts from the oracle.
[[nodiscard]] bool same_class(const Case& a, const CaseResult& of_a, const Case& b,
                              const CaseResult& of_b);

// `result` is what `subject`, a case of operations, came to. Without a budget: kSmallerTries and
// kSmallerTime from now on.
[[nodiscard]] SmallerCase make_smaller(const Case& subject, const CaseResult& result,
                                       const ModelData& model, const EngineFactory& factory,
                                       std::optional<ShrinkBudget> budget = {});

}  // namespace kvcheck
