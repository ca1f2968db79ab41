// SPDX-License-Identifier: MIT
// How long one step, and everything up to a length, takes on this machine, cached and uncached, as
// the context grows.
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

// Everything up to a length, with logits after each token.
struct RunTime {
  int length = 0;
  double cached = 0;        // seconds: a step for each token
  double forward = 0;       // seconds: one forward of all of them
  double every_prefix = 0;  // seconds: a forward of its own for every prefix
};

struct RunTimes {
  std::vector<RunTime> runs;  // by length
  bool complete = true;
  bool interrupted = false;
};

// Likewise, at those of the lengths that a power is fitted to. The time, too, ends the length at
// hand, after one step or forward.
[[nodiscard]] RunTimes measure_runs(
    Engine& engine, const std::vector<int>& lengths, double seconds,
    const std::function<bool(std::size_t done)>& go_on = [](std::size_t) { return true; });

// The exponent of the power of the length that fits times best (least squares of logarithms), over
// the lengths from an eighth of the longest on; none with fewer than three of them.
struct FittedPower {
  int from = 0;  // lengths
  int to = 0;
  double exponent = 0;
};
template <typename Time>  // StepTime or RunTime
[[nodiscard]] std::optional<FittedPower> fit_power(const std::vector<Time>& times,
                                                   double Time::*seconds);

}  // namespace kvcheck
