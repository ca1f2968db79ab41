// SPDX-License-Identifier: MIT
// Stored logits of every prefix by a program that shares no code with this one: a third vote, that
// says which side is off.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "engine/config.h"

namespace kvcheck {

// golden.f64: little-endian float64, [prefixes, vocabulary], prefixes by length, then by token ids.
class GoldenLogits {
 public:
  GoldenLogits(int vocabulary, int context, std::vector<double> values);

  // Of the last token of the prefix.
  [[nodiscard]] std::span<const double> row(std::span<const int> prefix) const;

 private:
  int vocabulary_;
  std::vector<std::size_t> first_;  // [length - 1]: index of the first prefix of that length
  std::vector<double> values_;
};

// Throws Error for a file that is missing, of the wrong size, or holds what is no finite number.
[[nodiscard]] GoldenLogits read_golden(const std::filesystem::path& path, const Config& config);

}  // namespace kvcheck
