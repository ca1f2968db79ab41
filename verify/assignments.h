// SPDX-License-Identifier: MIT
// The work of a run: assignments (a probe over a source of prefixes on a model), cut into units
// (the prefixes that begin with one token, of long sequences those of some lengths) that can run
// side by side.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
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
  CacheKind cache = {};
  // Sequences of operations instead of prefixes (then there is no source), and how many.
  std::optional<OperationSpace> space = {};
  std::size_t sequences = 0;
  OracleChoice oracle = OracleChoice::per_prefix;
  bool last_of_model = false;  // nothing more is run on the model after it
};

// All that is to be run, in the order in which it is reported.
[[nodiscard]] std::vector<std::unique_ptr<Assignment>> plan_assignments(
    const SuiteOptions& options, const std::vector<ModelRun>& models);

// An assignment with at most so many prefixes, a case each and none of kCutLength, is one unit: it
// takes a few milliseconds, and a walk that is cut computes its first levels once for every part.
inline constexpr std::int64_t kUnitPrefixes = 8192;

// Failures of earlier runs that make one row of the summary: one model, scalar, arithmetic and
// policy.
struct StoredCases {
  const ModelRun* run;
  std::vector<Case> cases;  // at least one
};

// In the order in which the first of each comes.
[[nodiscard]] std::vector<StoredCases> group_stored(const std::vector<ModelRun>& models);

// Sequences of operations in a unit.
inline constexpr std::size_t kUnitSequences = 32;
inline constexpr std::size_t kUnitEnumerated = 512;  // or more: each unit walks past all others
inline constexpr std::size_t kUnitsEnumerated = 64;  // so no more units than these

// Open at once in sequences that are enumerated.
inline constexpr int kLiveEnumerated = 3;

// The longest sequences that `depth` operations give, each once; numbered from 0.
[[nodiscard]] std::size_t count_longest(const OperationSpace& space, int depth);
void each_longest(const OperationSpace& space, int depth, std::size_t first, std::size_t count,
                  const std::function<void(const Operations&)>& visit);

struct Unit {
  const Assignment* assignment;
  std::vector<int> path;  // the prefixes that it visits begin so
  bool last;              // of its assignment
  std::size_t first = 0;  // of the sequences of operations that it runs
  std::size_t count = 0;
  // Lengths of the prefixes that it visits.
  int shortest = 1;
  int longest = std::numeric_limits<int>::max();
};

// Walks over sequences at least so long are cut by length as well, into parts of about the same
// work: recomputing a prefix costs as much as it is long.
inline constexpr int kCutLength = 64;
inline constexpr int kLengthParts = 4;

// At least one, so that an assignment without prefixes is reported like every other.
[[nodiscard]] std::vector<Unit> cut(const Assignment& assignment, OperationChoice::Kind operations);

}  // namespace kvcheck
