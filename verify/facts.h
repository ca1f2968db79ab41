// SPDX-License-Identifier: MIT
// Statements that are checked besides logits: how many, and the first wrong one.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace kvcheck {

struct Facts {
  int count = 0;
  std::string note = {};  // what, when, expected, got; empty if all are right

  void expect(std::string_view what, std::string_view when, std::int64_t expected,
              std::int64_t got) {
    ++count;
    if (expected == got || !note.empty()) return;
    note = fmt::format("{} {}: expected {}, got {}", what, when, expected, got);
  }
  // For numbers that say nothing to a reader.
  void expect_same(std::string_view what, std::string_view when, std::uint64_t before,
                   std::uint64_t after) {
    ++count;
    if (before != after && note.empty()) note = fmt::format("{} {}: changed", what, when);
  }
};

}  // namespace kvcheck
