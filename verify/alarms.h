// SPDX-License-Identifier: MIT
// False alarms: how often the checks complain about an engine that has no fault.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "verify/case.h"
#include "verify/probes.h"

namespace kvcheck {

inline constexpr int kAlarmTrialsMax = 10'000'000;

struct AlarmOptions {
  int trials = 10'000;
  std::uint64_t seed = 1;
  int jobs = 1;
  std::function<Operations(const OperationSpace&, std::uint64_t seed, std::uint64_t number)> draw;
};

struct AlarmCount {
  std::int64_t trials = 0;  // a random model with a random sequence of tokens and one of operations
  std::int64_t alarms = 0;  // trials of which some case did not agree
  std::int64_t cases = 0;   // in both arithmetics
  std::int64_t by_noise = 0;  // of these, judged in units of the noise floor
  // Of those, in the family that is made ill-conditioned; and how many there and elsewhere single
  // precision could not decide.
  std::int64_t saturated = 0;
  std::int64_t saturated_gated = 0;
  std::int64_t gated = 0;
  double worst_ratio = 0;                // of a difference to its noise floor
  std::optional<CaseRecord> first = {};  // alarm, in the order of the trials

  AlarmCount& operator+=(const AlarmCount& later);
};

// Trial i is the same whatever `jobs`. `stop` ends the count early.
[[nodiscard]] AlarmCount count_alarms(const AlarmOptions& options, const EngineFactory& factory,
                                      const std::atomic<bool>& stop);

// The rate that so many trials without an alarm leave open, at a confidence of 95 %: three in all
// of them (Hanley and Lippman-Hand, JAMA 249, 1983).
[[nodiscard]] std::string to_text(const AlarmCount& count);

}  // namespace kvcheck
