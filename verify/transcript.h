// SPDX-License-Identifier: MIT
// All that a cached decoder answers in the course of a case, compared with nothing.
#pragma once

#include <string>
#include <vector>

#include "verify/case.h"
#include "verify/probes.h"

namespace kvcheck {

struct AnsweredRow {
  int step;                    // the feed of a schedule, or the operation, that it answers
  std::vector<double> logits;  // [vocabulary]
};

struct Transcript {
  std::vector<AnsweredRow> rows;
  std::vector<int> refused = {};  // steps that the engine declined
  std::string failure = {};       // why it ended early; empty if it did not
};

// Runs the case in another setup than its own, if asked to. An engine that fails ends the
// transcript; what the case would have said of it is not looked at.
[[nodiscard]] Transcript transcript_of(const Case& subject, const ModelData& model,
                                       const EngineSetup& setup, const EngineFactory& factory);

}  // namespace kvcheck
