// SPDX-License-Identifier: MIT
// What a number of operation sequences reached: verbs, pairs of consecutive verbs, and the lengths
// and situations at which caches have failed.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "verify/operation_space.h"
#include "verify/operations.h"

namespace kvcheck {

// below, at, above: a changed sequence holds one row less, as many, one more.
enum class Edge : std::uint8_t {
  below_window,
  at_window,
  above_window,
  wrapped,  // fed to two windows or more: every slot of a ring was written again
  below_block,
  at_block,
  above_block,
  partial_block,       // a feed goes on in a partly filled block
  fork_partial_block,  // a copy shares a partly filled block
  below_capacity,
  at_capacity,
  unequal_batch,
  truncate_to_0,
  truncate_to_1,
  truncate_by_1,
  truncate_by_0,
  refill,          // a feed after a truncation or a reset
  refork,          // a fork of a sequence that was made by a fork or forked before
  reorder_repeat,  // two sequences take the same rows
  prompt_below_block,
  prompt_at_block,
  prompt_above_block,
  prompt_whole,  // all that the other one was told, and nothing of its own
  prompt_of_closed,
  load_after_change,  // what was saved differs from what its sequence holds now
};
inline constexpr int kEdges = 25;

[[nodiscard]] std::string_view name(Edge edge);
// Whether a sequence of the space can reach it.
[[nodiscard]] bool possible(Edge edge, const OperationSpace& space);
[[nodiscard]] bool possible(Verb verb, const OperationSpace& space);

struct OperationCoverage {
  std::uint64_t sequences = 0;
  std::uint64_t operations = 0;
  std::array<std::uint64_t, kVerbs> verbs{};
  std::array<std::array<std::uint64_t, kVerbs>, kVerbs> pairs{};  // [before, after]
  std::array<std::uint64_t, kEdges> edges{};

  bool operator==(const OperationCoverage&) const = default;
  OperationCoverage& operator+=(const OperationCoverage& other);

  [[nodiscard]] std::uint64_t of(Verb verb) const { return verbs[static_cast<std::size_t>(verb)]; }
  [[nodiscard]] std::uint64_t of(Edge edge) const { return edges[static_cast<std::size_t>(edge)]; }
  [[nodiscard]] std::uint64_t of(Verb before, Verb after) const {
    return pairs[static_cast<std::size_t>(before)][static_cast<std::size_t>(after)];
  }
};

// Of one valid sequence.
[[nodiscard]] OperationCoverage coverage_of(const Operations& operations,
                                            const OperationSpace& space);

// With fewer sequences some pairs cannot be: one that is full leaves no room for two forks.
inline constexpr int kPairsLiveMin = 3;

// What the space can reach and was not: "shift", "at-window", and, where at least kPairsLiveMin
// sequences may be open, "fork.close".
[[nodiscard]] std::vector<std::string> missing(const OperationCoverage& coverage,
                                               const OperationSpace& space);

}  // namespace kvcheck
