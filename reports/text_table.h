// SPDX-License-Identifier: MIT
// A table for people: as wide as its cells, the first column to the left, numbers to the right.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace kvcheck {

class TextTable {
 public:
  // The first `left` columns are aligned to the left. Each line begins with `indent`.
  explicit TextTable(std::size_t left = 1, std::string indent = "  ")
      : left_(left), indent_(std::move(indent)) {}

  // Missing cells at the end are empty. A line of a single cell runs over the columns.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  [[nodiscard]] std::string text() const;

 private:
  [[nodiscard]] std::vector<std::size_t> widths() const;

  std::size_t left_;
  std::string indent_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace kvcheck
