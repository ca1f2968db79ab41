// SPDX-License-Identifier: MIT
// Counting the cases of one check, and keeping those that are worth a line in a report.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "verify/measure.h"

namespace kvcheck {

// A judged case within its check.
struct TalliedCase {
  std::int64_t index = 0;
  std::vector<int> tokens;
  Schedule schedule;
  CaseResult result;
};

class Tally {
 public:
  Tally(Policy policy, std::size_t worst_kept, bool keep_all)
      : policy_(std::move(policy)), worst_kept_(worst_kept), keep_all_(keep_all) {}

  [[nodiscard]] const Policy& policy() const { return policy_; }
  // Counts a case; `logits` is the number of values that were compared.
  void add(std::span<const int> tokens, const Schedule& schedule, CaseResult result,
           std::int64_t logits);
  // Appends the later part of the same check.
  void append(Tally&& later);

  struct Counts {
    std::int64_t cases = 0;
    std::int64_t prefixes = 0;
    std::int64_t logits = 0;
    std::int64_t diverged = 0;
    std::int64_t gated = 0;
    std::int64_t widened = 0;
    std::int64_t flaky = 0;
    std::int64_t crashed = 0;
  };
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
  void rank(Ranked&& subject);
  void keep_worst();

  Policy policy_;
  std::size_t worst_kept_;
  bool keep_all_;
  Counts counts_;
  std::optional<Verdict> worst_decided_;
  std::optional<double> worst_ratio_;
  std::optional<TalliedCase> worst_;
  std::vector<TalliedCase> listed_;
  // The worst agreeing cases and, until they are sorted out, some more.
  std::vector<Ranked> agreeing_;
  double least_kept_ = -1;  // badness below which a case is not among the worst any more
  std::int64_t undecided_ = 0;
  std::vector<int> last_tokens_;
};

}  // namespace kvcheck
