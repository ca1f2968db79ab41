// SPDX-License-Identifier: MIT
// A case: everything that is needed to run one comparison again, and what came of it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/cache_kind.h"
#include "engine/scalar.h"
#include "verify/compare.h"
#include "verify/counts.h"
#include "verify/operation_coverage.h"
#include "verify/operations.h"
#include "verify/schedules.h"
#include "verify/tolerance.h"
#include "verify/verdict.h"

namespace kvcheck {

inline constexpr std::string_view kOperationsCheck = "operations";

struct Case {
  std::string check;       // id of the check, see checks.h
  std::string model;       // bundled name, path, or gen:FAMILY:SEED
  std::string model_hash;  // first 8 hex digits of the model's SHA-256
  std::string engine = "builtin";
  ScalarKind scalar = ScalarKind::f32;
  Arithmetic arithmetic = Arithmetic::matrix;
  CacheKind cache_kind = {};
  Policy policy = Exact{};
  std::uint64_t seed = 1;  // of the run: signs of the noise floor's perturbations
  // True: every prefix was computed side by side with others of its length, as the walk over a
  // whole vocabulary does: its siblings, which differ in the last token only, and children of nodes
  // beside its parent. Rounding of whole-matrix products depends on it.
  bool siblings = false;
  std::vector<int> tokens;
  Schedule schedule;           // empty: the cached path was not run (only the oracle's causality)
  Operations operations = {};  // instead of tokens and a schedule, for the check of that name
  std::string fault = {};      // planted in the engine, as to_text(FaultVariant) writes it

  bool operator==(const Case&) const = default;
};

// What fewer bits lose: cached rows against an oracle that rounds nothing.
struct Loss {
  std::int64_t rows = 0;
  std::int64_t same_choice = 0;   // rows whose largest logit is the same token's
  double max_abs_difference = 0;  // of logits
  double max_divergence = 0;      // Kullback-Leibler, of the unrounded distribution, in nats

  Loss& operator+=(const Loss& other) {
    rows += other.rows;
    same_choice += other.same_choice;
    max_abs_difference = std::max(max_abs_difference, other.max_abs_difference);
    max_divergence = std::max(max_divergence, other.max_divergence);
    return *this;
  }
};

// What a case came to: its worst row.
struct CaseResult {
  Verdict verdict = Verdict::gave_up;
  Mark mark = Mark::none;
  int position = 0;                       // of the worst row
  std::optional<RowComparison> row = {};  // none where no logits were compared (accounting, broken)
  std::optional<NoiseFloor> noise = {};
  std::optional<double> ratio = {};
  std::int64_t rows_compared = 0;
  std::optional<int> step = {};  // of the operations: where the worst row was fed, or what failed
  std::string note = {};  // one line: what was expected and found where it is not about logits
};

// One line of prefixes.csv.
struct CaseRecord {
  // Of the case within its row of the summary, whatever the number of threads.
  std::int64_t index = 0;
  Case subject;
  CaseResult result;
  std::optional<std::uint64_t> number = {};  // of a random sequence of operations
  std::string reported_as =
      {};  // the check that ran it, where that is not the case's own: "stored"

  [[nodiscard]] const std::string& check() const {
    return reported_as.empty() ? subject.check : reported_as;
  }
};

// What float64 says of a case that was computed in float32: rounding shrinks to nothing there, a
// fault stays what it is.
struct InFloat64 {
  Verdict verdict = Verdict::gave_up;
  double difference = 0;
};

// One row of the summary: a check on a model in one arithmetic and scalar, under one policy.
struct CheckSummary {
  std::string check;
  std::string model;
  Arithmetic arithmetic = Arithmetic::matrix;
  ScalarKind scalar = ScalarKind::f32;
  Policy policy = Exact{};
  CacheKind cache_kind = {};
  Counts counts = {};
  std::optional<CaseRecord> worst_difference = {};  // case with the largest absolute difference
  std::optional<InFloat64> in_float64 = {};         // of that case
  std::optional<double> worst_ratio = {};           // over all cases that have one
  Verdict verdict = Verdict::gave_up;
  double seconds = 0;
  std::optional<OperationCoverage> coverage = {};  // of the operations that were run
  std::vector<std::string> not_covered = {};       // what the operations could have reached
  std::optional<Loss> loss = {};                   // of a cache of fewer bits
  bool full_oracle = false;  // one forward of each sequence was the oracle of its prefixes
};

}  // namespace kvcheck
