// SPDX-License-Identifier: MIT
// What was measured of a case, and how a policy judges it. One measurement may be judged under
// several policies.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "verify/case.h"

namespace kvcheck {

struct MeasuredRow {
  int position = 0;
  RowComparison comparison;
  std::optional<NoiseFloor> floor;
  // The two rows themselves, kept only where somebody wants to see them.
  std::vector<double> uncached;
  std::vector<double> cached;
};

struct Measured {
  std::span<const int> tokens;
  const Schedule& schedule;
  std::span<const MeasuredRow> rows;
  int facts = 0;          // statements other than logits that were checked
  std::string note = {};  // the first of them that is wrong: what, expected, got; empty if none
  bool tied = false;      // agrees only because a decision was a tie, see decision.h
};

// The worst row decides; a wrong fact diverges; nothing measured is gave-up.
[[nodiscard]] CaseResult judge_case(const Policy& policy, const Measured& measured,
                                    ScalarKind scalar);

// Index of the row that judge_case() took as the worst, if rows were measured.
[[nodiscard]] std::optional<std::size_t> worst_row(const Policy& policy, const Measured& measured,
                                                   ScalarKind scalar);

// Orders results from good to bad: by verdict, then by ratio or difference as the policy measures.
[[nodiscard]] double badness(const Policy& policy, const CaseResult& result);

}  // namespace kvcheck
