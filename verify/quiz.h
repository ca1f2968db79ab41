// SPDX-License-Identifier: MIT
// Questions about decoding with a cache: shapes, positions, memory, work, policies, generation and
// faults. Each kind is a table row that draws a small configuration and asks the engine for the
// answer, so that no answer can differ from what kvcheck does.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/random.h"

namespace kvcheck {

struct Question {
  std::string text;    // one line
  std::string answer;  // a whole number, numbers separated by blanks, or a word
  std::string why;     // one line

  bool operator==(const Question&) const = default;
};

struct QuizKind {
  std::string_view id;
  Question (*ask)(Draw& draw);
};
[[nodiscard]] std::span<const QuizKind> quiz_kinds();

struct QuizItem {
  std::string_view kind;
  Question question;

  bool operator==(const QuizItem&) const = default;
};
inline constexpr int kQuizMax = 10'000;
// The first `count` questions of a seed; every kind comes once before one comes again.
[[nodiscard]] std::vector<QuizItem> quiz(std::uint64_t seed, int count);

// Whether somebody who typed that means the answer: case does not matter, nor do blanks, commas and
// brackets between numbers, nor commas, blanks and underscores inside one.
[[nodiscard]] bool is_right(const Question& question, std::string_view given);

}  // namespace kvcheck
