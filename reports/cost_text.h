// SPDX-License-Identifier: MIT
// What `kvcheck cost` prints.
#pragma once

#include <string>

#include "verify/cost_report.h"
#include "verify/step_times.h"

namespace kvcheck {

// `model` is how its user names it.
[[nodiscard]] std::string cost_text(const CostReport& report, const std::string& model);

// Times of steps, and what may be claimed from them: for this machine, model and range only.
[[nodiscard]] std::string step_times_text(const StepTimes& times, const std::string& model);
[[nodiscard]] std::string run_times_text(const RunTimes& times, const std::string& model);

}  // namespace kvcheck
