// SPDX-License-Identifier: MIT
// The list of invariants.
#include "verify/invariants.h"

#include <algorithm>

#include "engine/error.h"
#include "verify/generation_invariants.h"

namespace kvcheck {
namespace {

constexpr std::string_view kHeld = "accounting, operations";
constexpr std::string_view kEverywhere = "accounting, generation, operations";

// In the order of Invariant.
constexpr auto kOfSequences = std::to_array<InvariantRow>({
    {"rows-answered", "a feed answers one row of logits for each token", "accounting"},
    {"length-is-consumed", "rows in the cache = tokens consumed, less those dropped since",
     kEverywhere},
    {"next-position-is-length", "next position = rows in the cache, unless some were dropped",
     kEverywhere},
    {"layers-hold-alike",
     "every layer holds a key and a value of each of these rows, a ring of the last ones", kHeld},
    {"positions-contiguous",
     "held rows lie at the positions at which they were consumed, without a gap unless some were "
     "dropped",
     kHeld},
    {"slots-distinct", "no two rows of a sequence lie in one slot", kHeld},
    {"bytes-are-rows", "bytes held = rows of each layer x what a key and a value take", kHeld},
    {"memory-guarded", "slots that hold no row and the memory around them are as they were laid",
     kHeld},
    {"refused-when-due",
     "what has no room, no tokens or unknown ones is refused, and so is a roll "
     "back to rows that are gone",
     kHeld},
    {"refusal-changes-nothing", "what was refused leaves all bytes as they were, or all answers",
     kHeld},
    {"others-untouched",
     "sequences that an operation is not about keep all their bytes; where an engine does not tell "
     "them, a copy answers as the sequence must",
     "operations"},
    {"copies-equal", "a fork, a loaded and a reordered sequence hold the bytes that were copied",
     "operations"},
    {"reuse-leaves-one", "a prompt finds no more rows computed than all but its last",
     "operations"},
    {"nothing-left", "once all sequences are closed, a new one holds nothing", "operations"},
});
static_assert(kOfSequences.size() == index_of(Invariant::nothing_left) + 1);

struct List {
  std::vector<InvariantRow> rows{kOfSequences.begin(), kOfSequences.end()};
  std::vector<std::size_t> of_generation;
};

List make_list() {
  List list;
  for (const GenerationInvariant& invariant : generation_invariants()) {
    const auto found = std::ranges::find(list.rows, invariant.name, &InvariantRow::id);
    list.of_generation.push_back(static_cast<std::size_t>(found - list.rows.begin()));
    if (found != list.rows.end()) continue;
    list.rows.push_back({invariant.name, invariant.claim, "generation"});
  }
  require(list.rows.size() <= kInvariantsMax, "there is a count for each invariant");
  return list;
}

const List& list() {
  static const List made = make_list();
  return made;
}

}  // namespace

std::span<const InvariantRow> invariants() { return list().rows; }

std::size_t index_of_generation(std::size_t i) { return list().of_generation.at(i); }

}  // namespace kvcheck
