// SPDX-License-Identifier: MIT
// summary.json: what a run came to, for people and programs; written at its end and read back by
// `kvcheck report`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/scalar.h"
#include "verify/case.h"
#include "verify/counts.h"
#include "verify/verdict.h"

namespace kvcheck {

struct RunResult;

// A check on a model in one arithmetic.
struct SummaryCheck {
  std::string id;
  std::string model;
  Arithmetic arithmetic = Arithmetic::matrix;
  ScalarKind scalar = ScalarKind::f32;
  std::string policy;
  std::string cache_kind = "flat";
  std::int64_t cases = 0;
  std::int64_t prefixes = 0;
  std::int64_t logits = 0;
  std::optional<double> worst_abs;  // largest absolute difference
  std::optional<double> worst_ratio;
  std::optional<double> worst_kappa;  // of the row with that difference
  std::optional<double> float64_abs;  // its case in float64: difference and verdict
  std::optional<Verdict> float64_verdict;
  std::int64_t gave_up = 0;                   // cases left undecided, gated or not
  std::map<std::string, std::int64_t> marks;  // how many cases bear each; none that no case bears
  Verdict verdict = Verdict::gave_up;
  double seconds = 0;
};

// How often an invariant was checked, over all checks.
struct SummaryInvariant {
  std::string id;
  std::int64_t checked = 0;
  std::int64_t failed = 0;
};

struct RunSummary {
  Verdict verdict = Verdict::gave_up;
  bool interrupted = false;
  Counts compared;  // sums over all checks: a prefix that two checks look at counts twice
  std::vector<SummaryCheck> checks;
  std::vector<SummaryInvariant> invariants;  // all there are, in the order of the list
};

[[nodiscard]] SummaryCheck summary_check(const CheckSummary& summary);
[[nodiscard]] RunSummary run_summary(const RunResult& result);

[[nodiscard]] std::string summary_json(const RunSummary& summary);
// Keys that a later version may add are passed over. Throws Error naming file and key.
[[nodiscard]] RunSummary read_summary(const std::filesystem::path& path);

}  // namespace kvcheck
