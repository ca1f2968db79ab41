// SPDX-License-Identifier: MIT
// Every sequence of operations over a small alphabet, up to a depth.
#pragma once

#include <cstdint>
#include <functional>

#include "verify/operation_space.h"
#include "verify/operations.h"
#include "verify/token_log.h"

namespace kvcheck {

// The operations of the alphabet that are valid here, each once. For each open sequence h:
//   feed h 1; feed h 2; truncate h to one row less; truncate h to 0; fork h; reset h; close h;
//   save h; shift h: drop the first row; evict h: drop the second of three rows or more;
//   prompt h (empty): all that the first other sequence was told, and 1 more if it fits;
// and once: open; load of the newest saved state; a batch of the two oldest open sequences, 1 and 2
// tokens; a swap of these two; both take what the younger one holds.
// What is not offered, does not fit or would change nothing is left out. A new sequence is made
// only while fewer than `live_max` are open; the walk is meant for two or three.
[[nodiscard]] Operations alphabet_at(const TokenLog& log, const OperationSpace& space);

// Sees the operations from the beginning, the last one new, and the log after it. False: no further
// operations after this one.
using EnterSequence = std::function<bool(const Operations& path, const TokenLog& log)>;

// Depth first: each sequence of 1 to `depth` operations is entered once, after all of its own
// beginnings; whoever runs them begins each anew. Only equal lists are merged: sequences that
// differ in the order of their handles are all there.
void each_sequence(const OperationSpace& space, int depth, const EnterSequence& enter);

// How many times each_sequence() enters; most + 1 if more than `most`, without counting them all.
[[nodiscard]] std::uint64_t count_sequences(const OperationSpace& space, int depth,
                                            std::uint64_t most);

}  // namespace kvcheck
