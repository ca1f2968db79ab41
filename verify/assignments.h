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
};

// All that is to be run, in the order in which it is reported.
[[nodiscard]] std::vector<std::unique_ptr<Assignment>> plan_assignments(
    const SuiteOptions& options, const std::vector<ModelRun>& models);

// An assignment with at most so many prefixes, a case each, is one unit: it takes a few
// milliseconds, and a walk that is cut computes its first levels once for every part.
inline constexpr std::int64_t kUnitPrefixes = 8192;

struct Unit {
  const Assignment* assignment;
  std::vector<int> path;  // the prefixes that it visits begin so
  bool last;              // of its assignment
};

[[nodiscard]] std::vector<Unit> cut(const Assignment& assignment);

}  // namespace kvcheck
