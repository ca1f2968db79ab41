// SPDX-License-Identifier: MIT
// Spells single cells.
#include "reports/csv_writer.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace kvcheck {
namespace {

template <typename T>
void append_number(std::string& line, T number) {
  std::array<char, 32> text{};  // the longest, -2.2250738585072014e-308, takes 24
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
  line.append(text.data(), end);
}

bool is_blank(char c) { return c == ' ' || c == '\t'; }

bool needs_quotes(std::string_view text) {
  return !text.empty() && (is_blank(text.front()) || is_blank(text.back()) ||
                           text.find_first_of(",\"") != text.npos);
}

}  // namespace

void append_cell(std::string& line, std::string_view text) {
  std::string cell(text);
  std::replace_if(
      cell.begin(), cell.end(), [](char c) { return c == '\n' || c == '\r' || c == '\0'; }, ' ');
  if (!needs_quotes(cell)) {
    line += cell;
    return;
  }
  line += '"';
  for (const char c : cell) {
    if (c == '"') line += '"';
    line += c;
  }
  line += '"';
}

void append_cell(std::string& line, std::int64_t number) { append_number(line, number); }

void append_cell(std::string& line, std::uint64_t number) { append_number(line, number); }

void append_cell(std::string& line, double number) {
  // The sign of a NaN depends on the machine and would make equal reports differ.
  if (std::isnan(number)) {
    line += "nan";
  } else {
    append_number(line, number);
  }
}

}  // namespace kvcheck
