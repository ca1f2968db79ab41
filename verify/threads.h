// SPDX-License-Identifier: MIT
// How many threads there can be: a limit on processes counts them too.
#pragma once

namespace kvcheck {

// Of `wanted` threads, this one among them, those that can run at once. At least 1.
[[nodiscard]] int startable_threads(int wanted);

}  // namespace kvcheck
