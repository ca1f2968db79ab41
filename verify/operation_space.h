// SPDX-License-Identifier: MIT
// Which sequences of operations a model and an engine can be asked for.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "verify/operations.h"

namespace kvcheck {

class VerbSet {
 public:
  constexpr VerbSet() = default;
  constexpr VerbSet(std::initializer_list<Verb> verbs) {
    for (const Verb verb : verbs) bits_ |= bit(verb);
  }
  [[nodiscard]] static constexpr VerbSet all() {
    VerbSet set;
    set.bits_ = (1U << kVerbs) - 1;
    return set;
  }
  [[nodiscard]] constexpr bool has(Verb verb) const { return (bits_ & bit(verb)) != 0; }
  [[nodiscard]] constexpr VerbSet without(VerbSet other) const {
    VerbSet set = *this;
    set.bits_ &= ~other.bits_;
    return set;
  }
  bool operator==(const VerbSet&) const = default;

 private:
  static constexpr std::uint32_t bit(Verb verb) { return 1U << static_cast<unsigned>(verb); }

  std::uint32_t bits_ = 0;
};

// What decides whether an operation is valid.
struct OperationLimits {
  int vocabulary = 1;
  int context = 1;                 // every position is below it
  bool learned_positions = false;  // rows cannot move: no shift, and no gaps: no evict
  VerbSet verbs = VerbSet::all();  // what the engine offers

  [[nodiscard]] constexpr bool allows(Verb verb) const {
    const bool moves = verb == Verb::shift || verb == Verb::evict;
    return verbs.has(verb) && !(moves && learned_positions);
  }
};

// What is drawn from, or walked through.
struct OperationSpace {
  OperationLimits limits;
  int window = 0;  // rows that some layer's ring holds; 0: none
  int block = 0;   // rows of a page; 0: none
  int operations_max = 24;
  int live_max = 4;  // sequences open at once
};

}  // namespace kvcheck
