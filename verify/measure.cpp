// SPDX-License-Identifier: MIT
// Judging measurements.
#include "verify/measure.h"

#include <limits>

namespace kvcheck {
namespace {

// How bad a row is within its verdict: in units of the floor where the policy measures so. What
// cannot be measured may be as bad as anything.
double size_of(const Policy& policy, const std::optional<double>& ratio, double difference) {
  if (!std::holds_alternative<NoiseLimit>(policy)) return difference;
  return ratio.value_or(std::numeric_limits<double>::infinity());
}

struct Judged {
  std::size_t index = 0;
  Judgement judgement;
};

// Of several rows; the first of equals.
std::size_t find_worst_row(const Policy& policy, std::span<const MeasuredRow> rows,
                           ScalarKind scalar) {
  std::size_t found = 0;
  Verdict verdict = Verdict::agree;
  double size = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Judgement judgement = judge(policy, rows[i].comparison, rows[i].floor, scalar);
    const double now = size_of(policy, judgement.ratio, rows[i].comparison.max_abs_difference);
    const bool worse =
        i == 0 || judgement.verdict > verdict || (judgement.verdict == verdict && now > size);
    if (!worse) continue;
    found = i;
    verdict = judgement.verdict;
    size = now;
  }
  return found;
}

std::optional<Judged> find_worst(const Policy& policy, const Measured& measured,
                                 ScalarKind scalar) {
  if (measured.rows.empty()) return std::nullopt;
  // Most cases have one row.
  const std::size_t at =
      measured.rows.size() == 1 ? 0 : find_worst_row(policy, measured.rows, scalar);
  const MeasuredRow& row = measured.rows[at];
  return Judged{at, judge(policy, row.comparison, row.floor, scalar)};
}

}  // namespace

CaseResult judge_case(const Policy& policy, const Measured& measured, ScalarKind scalar) {
  CaseResult result;
  result.note = measured.note;
  result.rows_compared = static_cast<std::int64_t>(measured.rows.size());
  if (measured.facts > 0) {
    result.verdict = measured.note.empty() ? Verdict::agree : Verdict::diverge;
  }
  if (const auto worst_found = find_worst(policy, measured, scalar)) {
    const MeasuredRow& row = measured.rows[worst_found->index];
    const Judgement& judgement = worst_found->judgement;
    result.verdict =
        measured.facts > 0 ? worst(result.verdict, judgement.verdict) : judgement.verdict;
    // A wrong fact needs no other scalar to be seen in.
    const bool gated = judgement.gated && result.verdict == Verdict::gave_up;
    result.mark = gated ? Mark::gated : Mark::none;
    result.position = row.position;
    result.row = row.comparison;
    result.noise = row.floor;
    result.ratio = judgement.ratio;
    if (result.note.empty()) result.note = judgement.note;
  }
  if (measured.tied && result.verdict == Verdict::agree) result.mark = Mark::tie;
  return result;
}

std::optional<std::size_t> worst_row(const Policy& policy, const Measured& measured,
                                     ScalarKind scalar) {
  const auto found = find_worst(policy, measured, scalar);
  if (!found) return std::nullopt;
  return found->index;
}

double badness(const Policy& policy, const CaseResult& result) {
  if (!result.row) return 0;
  return size_of(policy, result.ratio, result.row->max_abs_difference);
}

}  // namespace kvcheck
