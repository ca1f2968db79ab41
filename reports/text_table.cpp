// SPDX-License-Identifier: MIT
// Lays out cells.
#include "reports/text_table.h"

#include <algorithm>

#include "engine/text_width.h"

namespace kvcheck {

std::vector<std::size_t> TextTable::widths() const {
  std::vector<std::size_t> widths;
  for (const auto& row : rows_) {
    if (row.size() < 2) continue;
    if (widths.size() < row.size()) widths.resize(row.size(), 0);
    for (std::size_t c = 0; c < row.size(); ++c)
      widths[c] = std::max(widths[c], text_width(row[c]));
  }
  return widths;
}

std::string TextTable::text() const {
  const std::vector<std::size_t> wide = widths();
  std::string text;
  for (const auto& row : rows_) {
    std::string line = indent_;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::size_t width = row.size() < 2 ? 0 : wide[c];
      if (c > 0) line += "  ";
      line += c < left_ ? padded_right(row[c], width) : padded_left(row[c], width);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace kvcheck
