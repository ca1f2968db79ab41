// SPDX-License-Identifier: MIT
// Counting the cases of one check, and keeping those that are worth a line in a report.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "verify/case.h"
#include "verify/counts.h"
#include "verify/measure.h"
#include "verify/schedules.h"
#include "verify/tolerance.h"
#include "verify/verdict.h"

namespace kvcheck {

// A judged case within its check.
struct TalliedCase {
  std::int64_t index = 0;
  std::vector<int> tokens;
  Schedule schedule;
  CaseResult result;
  Operations operations = {};                // instead of tokens and a schedule
  std::optional<std::uint64_t> number = {};  // of a random sequence of operations
};

// Which agreeing cases are kept; those that do not agree are kept anyway.
enum class Keep {
  worst,  // as many of the worst as the tally has room for
  all,
};

class Tally {
 public:
  Tally(Policy policy, std::size_t worst_kept, Keep keep)
      : policy_(policy), worst_kept_(worst_kept), keep_(keep) {}

  [[nodiscard]] const Policy& policy() const { return policy_; }
  // Counts a case; `logits` is the number of values that were compared.
  void add(std::span<const int> tokens, const Schedule& schedule, CaseResult result,
           std::int64_t logits);
  void add(const Operations& operations, std::optional<std::uint64_t> number, CaseResult result,
           std::int64_t logits);
  void add_reused(std::int64_t rows) { counts_.reused += rows; }
  void add_invariants(const InvariantCounts& counts) { counts_.invariants += counts; }
  void add_refusals(std::int64_t count) { counts_.refused += count; }
  // Appends the later part of the same check.
  void append(Tally&& later);

  [[nodiscard]] const Counts& counts() const { return counts_; }
  // Gated cases are counted, not decided. Nothing decided, or too many gated, is gave-up; else the
  // worst.
  [[nodiscard]] Verdict verdict() const;
  [[nodiscard]] const std::optional<double>& worst_ratio() const { return worst_ratio_; }
  // The case with the largest absolute difference.
  [[nodiscard]] const std::optional<TalliedCase>& worst_difference() const { return worst_; }

  // Cases that did not agree (or all), in order, since the last call.
  [[nodiscard]] std::vector<TalliedCase> take_listed();
  // The worst agreeing cases, in order.
  [[nodiscard]] std::vector<TalliedCase> take_worst();

 private:
  struct Ranked {
    double badness;
    TalliedCase subject;
  };
  static bool worse(const Ranked& a, const Ranked& b);
  void count(const CaseResult& result, std::int64_t logits);
  // `tallied` makes the case, which most cases do not need.
  template <typename ToTallied>
  void keep(const CaseResult& result, ToTallied tallied);
  void rank(Ranked&& subject);
  void keep_worst();

  Policy policy_;
  std::size_t worst_kept_;
  Keep keep_;
  Counts counts_;
  std::optional<Verdict> worst_decided_;
  std::optional<double> worst_ratio_;
  std::optional<TalliedCase> worst_;
  std::vector<TalliedCase> listed_;
  // The worst agreeing cases and, until they are sorted out, some more.
  std::vector<Ranked> agreeing_;
  double least_kept_ = -1;  // badness below which a case is not among the worst any more
  std::vector<int> last_tokens_;
};

}  // namespace kvcheck
