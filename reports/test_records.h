// SPDX-License-Identifier: MIT
// Records that the tests of this folder share.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "verify/case.h"

namespace kvcheck {

// Case 7 of all-prefixes on chapter8: three tokens, diverging in the last row.
[[nodiscard]] inline CaseRecord diverging_record() {
  CaseRecord record;
  record.index = 7;
  record.subject.check = "all-prefixes";
  record.subject.model = "chapter8";
  record.subject.policy = NoiseLimit{};
  record.subject.tokens = {0, 2, 4};
  record.subject.schedule = {2, 1};
  record.result.verdict = Verdict::diverge;
  record.result.position = 2;
  record.result.row = RowComparison{.max_abs_difference = 0.03125,
                                    .token_at_max = 5,
                                    .uncached = 1.5,
                                    .cached = 1.53125,
                                    .ulps = 262144,
                                    .argmax_uncached = 5,
                                    .argmax_cached = 6};
  record.result.noise = NoiseFloor{.floor = 2.5e-6, .kappa = 3.5};
  record.result.ratio = 12500;
  record.result.rows_compared = 3;
  return record;
}

// A case of whose comparison nothing is known.
[[nodiscard]] inline CaseRecord broken_record() {
  CaseRecord record;
  record.index = 8;
  record.subject.check = "causality";
  record.subject.model = "chapter8";
  record.subject.engine = "exec:./engine, fast";
  record.subject.tokens = {0};
  record.result.verdict = Verdict::broken;
  record.result.mark = Mark::crash;
  record.result.note = "feed: no answer within 60 s";
  return record;
}

// The check that diverging_record() belongs to: 40 cases, of which it is the worst.
[[nodiscard]] inline CheckSummary diverging_check() {
  CheckSummary summary;
  summary.check = "all-prefixes";
  summary.model = "chapter8";
  summary.policy = NoiseLimit{};
  summary.counts.cases = 40;
  summary.counts.prefixes = 11;
  summary.counts.logits = 1234;
  summary.counts.diverged = 1;
  summary.counts.undecided = 2;
  summary.counts.gated = 2;
  summary.counts.widened = 3;
  summary.worst_difference = diverging_record();
  summary.in_float64 = InFloat64{.verdict = Verdict::diverge, .difference = 0.03125};
  summary.worst_ratio = 12500;
  summary.verdict = Verdict::diverge;
  summary.seconds = 0.25;
  return summary;
}

// A check that found nothing but bits that agree.
[[nodiscard]] inline CheckSummary agreeing_check() {
  CheckSummary summary;
  summary.check = "corpus-prefixes";
  summary.model = "chapter8";
  summary.arithmetic = Arithmetic::row;
  summary.counts.cases = 11;
  summary.counts.prefixes = 11;
  summary.counts.logits = 240;
  summary.verdict = Verdict::agree;
  summary.seconds = 0.016;
  return summary;
}

// Case 3 of operations on pages of two rows: the second operation diverges.
[[nodiscard]] inline CaseRecord operations_record() {
  CaseRecord record;
  record.index = 3;
  record.subject.check = "operations";
  record.subject.model = "gen:plain:1";
  record.subject.cache_kind = {.layout = CacheLayout::paged, .block = 2};
  record.subject.policy = NoiseLimit{};
  record.subject.operations = parse_operations("open.feed:0x3", "record");
  record.result = diverging_record().result;
  record.result.step = 1;
  record.number = std::numeric_limits<std::uint64_t>::max();
  return record;
}

// A check on that kind of cache which agrees: 2 sequences of 3 operations.
[[nodiscard]] inline CheckSummary operations_check() {
  CheckSummary summary;
  summary.check = "operations";
  summary.model = "gen:plain:1";
  summary.policy = NoiseLimit{};
  summary.cache_kind = {.layout = CacheLayout::paged, .block = 2};
  summary.counts.cases = 2;
  summary.counts.logits = 48;
  summary.coverage.emplace();
  summary.coverage->sequences = 2;
  summary.coverage->operations = 6;
  summary.verdict = Verdict::agree;
  summary.seconds = 0.001;
  return summary;
}

}  // namespace kvcheck
