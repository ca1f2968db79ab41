// SPDX-License-Identifier: MIT
// Lines of CSV. Numbers are written in the shortest form that reads back to the same bits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "reports/csv_column.h"
#include "reports/names.h"

namespace kvcheck {

// Quoted only where a reader would otherwise take it for something else. Line breaks and NUL become
// blanks: the reader's library knows no cell of several lines, and ends a line at a NUL.
void append_cell(std::string& line, std::string_view text);
void append_cell(std::string& line, std::int64_t number);
void append_cell(std::string& line, std::uint64_t number);
void append_cell(std::string& line, double number);  // also nan, inf, -inf

template <Named Enum>
void append_cell(std::string& line, Enum value) {
  append_cell(line, name(value));
}

template <typename T>
void append_cell(std::string& line, const std::optional<T>& number) {
  if (number) append_cell(line, *number);
}

template <typename Row, std::size_t N>
[[nodiscard]] std::string csv_header(const std::array<Column<Row>, N>& columns) {
  std::string line;
  for (const Column<Row>& column : columns) {
    if (!line.empty()) line += ',';
    append_cell(line, column.name);
  }
  return line + '\n';
}

template <typename Row, std::size_t N>
[[nodiscard]] std::string csv_line(const std::array<Column<Row>, N>& columns, const Row& row) {
  std::string line;
  for (const Column<Row>& column : columns) {
    if (&column != &columns.front()) line += ',';
    std::visit([&](auto member) { append_cell(line, row.*member); }, column.member);
  }
  return line + '\n';
}

}  // namespace kvcheck
