// SPDX-License-Identifier: MIT
// What `kvcheck generate` prints, from what it ran.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "verify/generation.h"
#include "verify/shapes.h"
#include "verify/verdict.h"

namespace kvcheck {

// One request with what was run of it; at least one of the two runs.
struct GenerationShown {
  GenerationRequest request;
  std::optional<Generation> uncached = {};
  std::optional<Generation> cached = {};
  std::optional<int> first = {};          // index of the first step that differs
  std::optional<Decision> decision = {};  // there
  Verdict verdict = Verdict::agree;
  double largest_difference = 0;  // of logits that were chosen from
  std::int64_t logits = 0;        // compared
  std::string note = {};          // what is wrong
};

// One line a step: what was fed and held, then what each run chose.
[[nodiscard]] std::string steps_table(const GenerationShown& shown, const ModelData& model);
// What was returned, why it stopped, whether the runs differ.
[[nodiscard]] std::string outcome_text(const GenerationShown& shown, const ModelData& model);
// One line a request.
[[nodiscard]] std::string batch_table(const std::vector<GenerationShown>& requests,
                                      const ModelData& model);
// The shapes of one step, with and without a cache; either may be missing.
[[nodiscard]] std::string shapes_table(int step, const StepShapes* uncached,
                                       const StepShapes* cached);

}  // namespace kvcheck
