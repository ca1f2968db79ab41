// SPDX-License-Identifier: MIT
// Merges summaries of checks.
#include "reports/merge.h"

#include <cmath>
#include <optional>

#include "engine/error.h"

namespace kvcheck {
namespace {

// NaN is worse than any number: neither operand may hide it.
bool is_worse(double a, double b) { return !std::isnan(b) && !(a <= b); }

std::optional<double> difference_of(const CheckSummary& summary) {
  const std::optional<CaseRecord>& worst = summary.worst_difference;
  if (!worst || !worst->result.row) return std::nullopt;
  return worst->result.row->max_abs_difference;
}

bool is_worse(const std::optional<double>& a, const std::optional<double>& b) {
  return a && (!b || is_worse(*a, *b));
}

void add(CheckSummary& sum, const CheckSummary& part) {
  sum.counts += part.counts;
  sum.seconds += part.seconds;
  if (sum.coverage && part.coverage) *sum.coverage += *part.coverage;
  if (sum.loss && part.loss) *sum.loss += *part.loss;
  if (is_worse(difference_of(part), difference_of(sum))) {
    sum.worst_difference = part.worst_difference;
    sum.in_float64 = part.in_float64;
  }
  if (is_worse(part.worst_ratio, sum.worst_ratio)) sum.worst_ratio = part.worst_ratio;
  sum.verdict = worst(sum.verdict, part.verdict);
}

}  // namespace

bool same_check(const CheckSummary& a, const CheckSummary& b) {
  return a.check == b.check && a.arithmetic == b.arithmetic && a.scalar == b.scalar &&
         a.policy == b.policy && a.cache_kind == b.cache_kind;
}

CheckSummary merge(std::span<const CheckSummary> summaries, const std::string& model) {
  require(!summaries.empty(), "nothing to merge");
  CheckSummary sum = summaries.front();
  sum.model = model;
  for (const CheckSummary& part : summaries.subspan(1)) add(sum, part);
  return sum;
}

std::vector<CheckSummary> merge_by_check(std::span<const CheckSummary> summaries,
                                         const std::string& model) {
  std::vector<CheckSummary> merged;
  for (const CheckSummary& part : summaries) {
    auto sum = merged.begin();
    while (sum != merged.end() && !same_check(*sum, part)) ++sum;
    if (sum == merged.end()) {
      merged.push_back(merge({&part, 1}, model));
    } else {
      add(*sum, part);
    }
  }
  return merged;
}

}  // namespace kvcheck
