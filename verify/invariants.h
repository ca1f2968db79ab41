// SPDX-License-Identifier: MIT
// What holds of every sequence, step and generation whatever the logits are: one list, checked in
// every run wherever a check can see it, counted, and reported by name.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace kvcheck {

// Of what sequences hold. Those of a generation follow in the list, see generation_invariants.h;
// an account that both keep has one name and one entry.
enum class Invariant : std::uint8_t {
  rows_answered,
  length,
  next_position,
  layers,
  positions,
  slots,
  bytes,
  memory,
  refused,
  refusal,
  others,
  copies,
  reuse,
  nothing_left,
};

struct InvariantRow {
  std::string_view id;
  std::string_view claim;
  // Ids of the checks that check it on the built-in engine, joined by ", ".
  std::string_view checks;
};

// More than there are.
inline constexpr std::size_t kInvariantsMax = 40;

// How often each was checked and did not hold, by its index in the list: what can be added up.
struct InvariantCounts {
  std::array<std::int64_t, kInvariantsMax> checked{};
  std::array<std::int64_t, kInvariantsMax> failed{};

  constexpr void add(std::size_t index, bool holds, std::int64_t times = 1) {
    checked[index] += times;
    failed[index] += holds ? 0 : 1;
  }
  constexpr InvariantCounts& operator+=(const InvariantCounts& other) {
    for (std::size_t i = 0; i < kInvariantsMax; ++i) {
      checked[i] += other.checked[i];
      failed[i] += other.failed[i];
    }
    return *this;
  }
  bool operator==(const InvariantCounts&) const = default;
};

[[nodiscard]] std::span<const InvariantRow> invariants();
[[nodiscard]] constexpr std::size_t index_of(Invariant invariant) {
  return static_cast<std::size_t>(invariant);
}
// Of row `i` of generation_invariants().
[[nodiscard]] std::size_t index_of_generation(std::size_t i);

}  // namespace kvcheck
