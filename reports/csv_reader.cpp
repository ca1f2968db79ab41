// SPDX-License-Identifier: MIT
// Parses single cells and translates the library's complaints.
#include "reports/csv_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <span>

namespace kvcheck {
namespace {

template <typename T>
bool is_number(std::string_view text, T& into) {
  const char* const end = text.data() + text.size();
  const auto [rest, code] = std::from_chars(text.data(), end, into);
  return code == std::errc() && rest == end;
}

}  // namespace

Error bad_cell(const CellPlace& place, std::string_view expected, std::string_view text) {
  return bad_input({place.where, fmt::format("column {}", place.column), expected,
                    text.empty() ? std::string("none") : in_quotes(text)});
}

void parse_cell(std::string_view text, const CellPlace& /*place*/, std::string& into) {
  into = text;
}

void parse_cell(std::string_view text, const CellPlace& place, std::int64_t& into) {
  if (!is_number(text, into)) throw bad_cell(place, "a whole number", text);
}

void parse_cell(std::string_view text, const CellPlace& place, std::uint64_t& into) {
  if (!is_number(text, into)) throw bad_cell(place, "a whole number of at least 0", text);
}

void parse_cell(std::string_view text, const CellPlace& place, double& into) {
  if (!is_number(text, into)) throw bad_cell(place, "a number", text);
}

void rethrow_as_error(std::string_view file, unsigned line) {
  const std::string where = fmt::format("{}:{}", file, line);
  try {
    throw;
  } catch (const io::error::header_missing&) {
    throw bad_input({file, "header", "the names of the columns", "an empty file"});
  } catch (const io::error::missing_column_in_header& error) {
    throw bad_input({where, "header", fmt::format("a column {}", error.column_name), "none"});
  } catch (const io::error::duplicated_column_in_header& error) {
    throw bad_input({where, "header", fmt::format("one column {}", error.column_name), "several"});
  } catch (const io::error::too_few_columns&) {
    throw bad_input({where, "row", "as many cells as the header has", "fewer"});
  } catch (const io::error::too_many_columns&) {
    throw bad_input({where, "row", "as many cells as the header has", "more"});
  } catch (const io::error::escaped_string_not_closed&) {
    throw bad_input({where, "quoted cell", "a closing quote on the same line", "none"});
  } catch (const io::error::base& error) {
    throw bad_input({where, "row", "a line that can be read", error.what()});
  }
}

CsvBytes::CsvBytes(const std::filesystem::path& path)
    : file_(path, std::numeric_limits<std::int64_t>::max()) {}

int CsvBytes::read(char* buffer, int size) {
  const std::int64_t count = std::min<std::int64_t>(size, file_.size() - at_);
  file_.read(at_, std::as_writable_bytes(std::span(buffer, static_cast<std::size_t>(count))));
  at_ += count;
  return static_cast<int>(count);
}

}  // namespace kvcheck
