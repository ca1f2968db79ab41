// SPDX-License-Identifier: MIT
// Statements that are checked besides logits: how often each invariant was, and the first wrong
// one.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

#include "verify/invariants.h"

namespace kvcheck {

struct Facts {
  int count = 0;
  std::string note = {};  // the invariant, when, expected, got; empty if all are right
  InvariantCounts counts = {};

  // `when` is a text, or gives one: words are made for what is wrong only.
  template <typename When>
  void expect(Invariant what, const When& when, std::int64_t expected, std::int64_t got) {
    if (holds(what, expected == got)) return;
    tell(what, fmt::format(" {}: expected {}, got {}", text_of(when), expected, got));
  }
  // For numbers that say nothing to a reader.
  template <typename When>
  void expect_same(Invariant what, const When& when, std::uint64_t before, std::uint64_t after) {
    if (!holds(what, before == after)) tell(what, fmt::format(" {}: changed", text_of(when)));
  }

  // `complaint`: what is wrong, empty if nothing.
  void expect(Invariant what, std::string_view complaint) {
    if (!holds(what, complaint.empty())) tell(what, fmt::format(": {}", complaint));
  }

 private:
  bool holds(Invariant what, bool right) {
    ++count;
    counts.add(index_of(what), right);
    return right;
  }
  void tell(Invariant what, const std::string& how) {
    if (!note.empty()) return;
    note = fmt::format("invariant {} violated{}", invariants()[index_of(what)].id, how);
  }
  template <typename When>
  static std::string text_of(const When& when) {
    if constexpr (std::invocable<When>) {
      return std::string(when());
    } else {
      return std::string(when);
    }
  }
};

}  // namespace kvcheck
