// SPDX-License-Identifier: MIT
// The work of a run: assignments (a probe over a source of prefixes on a model), cut into units
// (the prefixes that begin with one token) that can run side by side.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "verify/suite.h"

namespace kvcheck {

struct JudgedCheck {
  const Check* check;
  Policy policy;
};

// One run of a probe. Its first check is the one that the probe belongs to; the others judge the
// same measurements again.
struct Assignment {
  const ModelRun* run;
  const SourceOfPrefixes* source;
  Arithmetic arithmetic;
  ScalarKind scalar;
  std::vector<JudgedCheck> checks;
  bool last_of_model = false;  // nothing more is run on the model after it
};

// All that is to be run, in the order in which it is reported.
[[nodiscard]] std::vector<std::unique_ptr<Assignment>> plan_assignments(
    const SuiteOptions& options, const std::vector<ModelRun>& models);

// An assignment with at most so many prefixes, a case each, is one unit: it takes a few
// milliseconds, and a walk that is cut computes its first levels once for every part.
inline constexpr std::int64_t kUnitPrefixes = 8192;

// Failures of earlier runs that make one row of the summary: one model, scalar, arithmetic and
// policy.
struct StoredCases {
  const ModelRun* run;
  std::vector<Case> cases;  // at least one
};

// In the order in which the first of each comes.
[[nodiscard]] std::vector<StoredCases> group_stored(const std::vector<ModelRun>& models);

struct Unit {
  const Assignment* assignment;
  std::vector<int> path;  // the prefixes that it visits begin so; empty: there are none
  bool last;              // of its assignment
};

// At least one, so that an assignment without prefixes is reported like every other.
[[nodiscard]] std::vector<Unit> cut(const Assignment& assignment);

}  // namespace kvcheck
