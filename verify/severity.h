// SPDX-License-Identifier: MIT
// How small a disturbance of the cache each check still sees: its detection floor.
#pragma once

#include <array>
#include <atomic>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "verify/fault_trial.h"

namespace kvcheck {

// Relative sizes 10^kSmallest .. 10^0 are tried.
inline constexpr int kSmallestDisturbance = -7;

// Disturbances, one row each: faults whose amount is the power of ten of their relative size.
[[nodiscard]] std::span<const Fault> disturbances();

// The smallest power of ten of a disturbance that a check sees on a model, and all larger ones with
// it; none: not even the largest, or the check cannot be run.
struct DetectionFloor {
  const Fault* disturbance;
  std::string_view check;
  std::optional<int> power;
  bool applicable;
};

// One for each disturbance and check of trial_checks().
// `stop` ends the sweep early: what was not tried counts as not seen.
[[nodiscard]] std::vector<DetectionFloor> detection_floors(const ModelRun& run,
                                                           const TrialOptions& options,
                                                           const std::atomic<bool>& stop);

// A line for each disturbance, a column for each check: 1e-5 and the like, "-" where a check cannot
// be run, "none" where it sees nothing.
[[nodiscard]] std::string to_text(const std::vector<DetectionFloor>& floors);

}  // namespace kvcheck
