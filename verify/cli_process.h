// SPDX-License-Identifier: MIT
// A long run as a process: how it is told to end, and how many threads it gets.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>

#include "verify/progress.h"

namespace kvcheck {

// Becomes true when the run is to end: by a signal, or by the clock.
[[nodiscard]] const std::atomic<bool>& stop_requested();
// A run that is told to end still writes its files.
void stop_on_signals();
// The same, for a command that waits for its user: a signal ends the wait, too.
void stop_and_wake_on_signals();
// Ends the run after a while; nothing: never.
void start_clock(std::optional<double> seconds);
// For the one loop of a command: shows how far it is, and says whether another step is to be done.
[[nodiscard]] bool go_on(StepProgress& progress, std::size_t done);

// The threads of a run: as many as wanted, or as there are cores; fewer, and a word on stderr,
// where they cannot all be started. Throws Error where not even two can be.
[[nodiscard]] int jobs_of(std::optional<int> wanted);

}  // namespace kvcheck
