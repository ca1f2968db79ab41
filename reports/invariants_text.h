// SPDX-License-Identifier: MIT
// What a run says of the invariants: how often each was checked and held, and those that did not.
#pragma once

#include <string>

#include "verify/invariants.h"

namespace kvcheck {

// The block that `kvcheck verify` prints; which ones nobody looked at is said too.
[[nodiscard]] std::string invariants_text(const InvariantCounts& counts);

// A line for each: its name, the checks that look at it, and the claim.
[[nodiscard]] std::string invariants_list();

}  // namespace kvcheck
