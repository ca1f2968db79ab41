// SPDX-License-Identifier: MIT
// Wrong answers to: with which constants does a cached step compute?
#include "verify/faults.h"

namespace kvcheck {

std::span<const Fault> path_faults() { return {}; }

}  // namespace kvcheck
