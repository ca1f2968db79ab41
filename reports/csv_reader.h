// SPDX-License-Identifier: MIT
// Reads CSV reports back, by column name. Cells are parsed here and not by the library, whose
// numbers are wrong in the last digits and which takes an empty cell for 0.
#pragma once

// A thread that reads ahead would gain nothing here, and an exception in it would be lost.
#define CSV_IO_NO_THREAD
#include <libfccp/csv.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "engine/echo.h"
#include "engine/error.h"
#include "engine/files.h"
#include "reports/csv_column.h"
#include "reports/names.h"

namespace kvcheck {

struct CellPlace {
  std::string_view where;  // file and line
  std::string_view column;
};

// "<file>:<line>: column <name>, expected <expected>, got <text>"
[[nodiscard]] Error bad_cell(const CellPlace& place, std::string_view expected,
                             std::string_view text);

// Each throws Error unless the whole of `text` is such a value.
void parse_cell(std::string_view text, const CellPlace& place, std::string& into);
void parse_cell(std::string_view text, const CellPlace& place, std::int64_t& into);
void parse_cell(std::string_view text, const CellPlace& place, std::uint64_t& into);
void parse_cell(std::string_view text, const CellPlace& place, double& into);

template <Named Enum>
void parse_cell(std::string_view text, const CellPlace& place, Enum& into) {
  const std::optional<Enum> value = from_name<Enum>(text);
  if (!value) throw bad_cell(place, expected_names<Enum>(), text);
  into = *value;
}

template <typename T>
void parse_cell(std::string_view text, const CellPlace& place, std::optional<T>& into) {
  into.reset();
  if (!text.empty()) parse_cell(text, place, into.emplace());
}

// The library's exception that is being handled, as an Error that names file and line.
[[noreturn]] void rethrow_as_error(std::string_view file, unsigned line);

// A regular file of any size as the library's source of bytes.
class CsvBytes : public io::ByteSourceBase {
 public:
  explicit CsvBytes(const std::filesystem::path& path);
  int read(char* buffer, int size) override;

 private:
  InputFile file_;
  std::int64_t at_ = 0;
};

// Rows of a file that has at least the given columns, in any order.
template <typename Row, std::size_t N>
class CsvReader {
 public:
  CsvReader(const std::filesystem::path& path, const std::array<Column<Row>, N>& columns)
      : file_(path_text(path)),
        columns_(columns),
        reader_(file_, std::make_unique<CsvBytes>(path)) {
    guarded([this] { read_header(std::make_index_sequence<N>()); });
  }

  // The next row; none after the last.
  [[nodiscard]] std::optional<Row> next() {
    std::array<const char*, N> cells{};
    bool found = false;
    guarded([&] { std::apply([&](auto&... cell) { found = reader_.read_row(cell...); }, cells); });
    return found ? std::optional(parsed(cells)) : std::nullopt;
  }

 private:
  template <std::size_t... I>
  void read_header(std::index_sequence<I...> /*columns*/) {
    reader_.read_header(io::ignore_extra_column, std::string(columns_[I].name)...);
  }

  Row parsed(const std::array<const char*, N>& cells) const {
    const std::string where = file_ + ":" + std::to_string(reader_.get_file_line());
    Row row;
    for (std::size_t i = 0; i < N; ++i) {
      const CellPlace place{where, columns_[i].name};
      std::visit([&](auto member) { parse_cell(cells[i], place, row.*member); },
                 columns_[i].member);
    }
    return row;
  }

  template <typename Action>
  void guarded(Action action) {
    try {
      action();
    } catch (const io::error::base&) {
      rethrow_as_error(file_, reader_.get_file_line());
    }
  }

  std::string file_;
  std::array<Column<Row>, N> columns_;
  io::CSVReader<static_cast<unsigned>(N), io::trim_chars<>, io::double_quote_escape<',', '"'>>
      reader_;
};

}  // namespace kvcheck
