// SPDX-License-Identifier: MIT
// Every number of one step of an audit, cached beside uncached, in the order in which a decoder
// computes them. What is large is cut, and says so.
#pragma once

#include <string>
#include <vector>

#include "engine/config.h"
#include "verify/audit.h"

namespace kvcheck {

// One value, as AuditTrace has it.
struct StepValue {
  Site site;
  int layer;  // -1 outside the layers
  AuditValue value;
};

// `values` are those of the step, as they came.
[[nodiscard]] std::string step_text(const Config& config, const std::vector<StepValue>& values);

}  // namespace kvcheck
