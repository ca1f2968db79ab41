// SPDX-License-Identifier: MIT
// Wrong answers to: which sequence does a row of a step belong to?
#include "verify/faults.h"

namespace kvcheck {

std::span<const Fault> batch_faults() { return {}; }

}  // namespace kvcheck
