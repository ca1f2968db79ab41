// SPDX-License-Identifier: MIT
// From a failing sequence of operations to a small one that still fails.
#pragma once

#include <chrono>
#include <functional>

#include "verify/operation_space.h"
#include "verify/operations.h"

namespace kvcheck {

// Simpler valid sequences than the given valid one, the boldest first, in a fixed order:
// - without a range of operations (halves, quarters, ... single ones). What depended on a removed
//   operation goes with it, or is done to the sequence that was copied; handles are renumbered and
//   lengths cut to what is still held;
// - two feeds in a row joined; a batch as feeds; a batch or a reordering with a sequence less; a
//   prompt as a feed; a fork or a load as an open;
// - a number lowered to the least, by half, by one, alone or with the lengths that follow it.
// Calls `visit` for each until it returns true; returns whether it did.
bool each_simpler(const Operations& operations, const OperationLimits& limits,
                  const std::function<bool(const Operations&)>& visit);

struct ShrinkBudget {
  int tries = 1000;  // calls of the predicate
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
};

struct Shrunk {
  Operations smallest;
  int tries = 0;
  int accepted = 0;
  bool complete = false;  // nothing simpler fails; else the budget was spent
};

// `operations` fails, as the caller has seen. No candidate is tried twice; the result depends on
// the predicate and, unless the deadline came first, on nothing else.
[[nodiscard]] Shrunk shrink(const Operations& operations,
                            const std::function<bool(const Operations&)>& still_fails,
                            const OperationLimits& limits, const ShrinkBudget& budget);

}  // namespace kvcheck
