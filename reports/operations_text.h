// SPDX-License-Identifier: MIT
// What a run says of its sequences of operations besides the table: what they reached, and what
// caches of fewer bits lose.
#pragma once

#include <span>
#include <string>

#include "verify/case.h"

namespace kvcheck {

// Empty if no operations were run.
[[nodiscard]] std::string coverage_text(std::span<const CheckSummary> summaries);

// A line for each kind of cache that rounds its rows, over all models.
[[nodiscard]] std::string loss_text(std::span<const CheckSummary> summaries);

}  // namespace kvcheck
