// SPDX-License-Identifier: MIT
// A long run as a process: how it is told to end, and how many threads it gets.
#pragma once

#include <atomic>
#include <optional>

namespace kvcheck {

// Becomes true when the run is to end: by a signal, or by the clock.
[[nodiscard]] const std::atomic<bool>& stop_requested();
// A run that is told to end still writes its files.
void stop_on_signals();
// Ends the run after a while; nothing: never.
void start_clock(std::optional<double> seconds);

// The threads of a run: as many as wanted, or as there are cores; fewer, and a word on stderr,
// where they cannot all be started. Throws Error where not even two can be.
[[nodiscard]] int jobs_of(std::optional<int> wanted);

}  // namespace kvcheck
