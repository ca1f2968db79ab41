// SPDX-License-Identifier: MIT
// How long one step takes on this machine, cached and uncached, as the context grows.
#pragma once

#include <optional>
#include <string_view>
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
};

// Of the built-in engine, or any that rolls back, at these lengths in turn: the median of several
// runs each, logits of the last row. Takes about `seconds` at most, and one step of each kind.
[[nodiscard]] StepTimes measure_steps(Engine& engine, const std::vector<int>& lengths,
                                      double seconds);

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
