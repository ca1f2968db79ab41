// SPDX-License-Identifier: MIT
// How long one step takes on this machine, cached and uncached, as the context grows.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "engine/port.h"

namespace kvcheck {

struct StepTime {
  int length = 0;       // rows after the step
  double cached = 0;    // seconds: the last token is fed to a cache that holds the others
  double uncached = 0;  // seconds: everything is computed anew
};

struct StepTimes {
  std::vector<StepTime> steps;  // by length
  bool complete = true;         // the time limit cut nothing off
  bool interrupted = false;     // by `go_on`
};

// Of the built-in engine, or any that rolls back, at these lengths in turn: the median of several
// runs each, logits of the last row. Takes about `seconds` at most, and one step of each kind.
// `go_on` is asked before each run of a step, with the number of lengths that are done; where it
// says no, the length at hand is left out.
[[nodiscard]] StepTimes measure_steps(
    Engine& engine, const std::vector<int>& lengths, double seconds,
    const std::function<bool(std::size_t done)>& go_on = [](std::size_t) { return true; });

// The exponent of the power of the length that fits times best (least squares of logarithms), over
// the lengths from an eighth of the longest on; none with fewer than three of them.
struct FittedPower {
  int from = 0;  // lengths
  int to = 0;
  double exponent = 0;
};
[[nodiscard]] std::optional<FittedPower> fit_power(const std::vector<StepTime>& steps,
                                                   double StepTime::*time);

}  // namespace kvcheck
