// SPDX-License-Identifier: MIT
// prefixes.csv: one row for each case of each check, about the row of logits that differed most.
// To add a column, add a member, fill it in prefix_row() and name it in kPrefixColumns.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "reports/csv_column.h"
#include "verify/case.h"

namespace kvcheck {

struct PrefixRow {
  std::int64_t index = 0;
  std::string model;
  std::string engine;
  ScalarKind scalar = ScalarKind::f32;
  Arithmetic arithmetic = Arithmetic::matrix;
  std::string check;
  std::int64_t prefix_length = 0;
  std::string tokens;                    // ids joined by blanks
  std::string schedule;                  // "2+1+1"; empty: the cached path was not run
  std::optional<std::int64_t> position;  // down to argmax_cached: none where nothing was compared
  std::optional<double> max_abs_difference;
  std::optional<std::int64_t> token_at_max;
  std::optional<double> uncached;
  std::optional<double> cached;
  std::optional<std::uint64_t> ulps;
  std::optional<double> noise_floor;
  std::optional<double> ratio;
  std::optional<double> kappa;
  std::optional<std::int64_t> argmax_uncached;
  std::optional<std::int64_t> argmax_cached;
  Verdict verdict = Verdict::gave_up;
  Mark mark = Mark::none;
  std::string reproduce;  // a command

  bool operator==(const PrefixRow&) const = default;
};

inline constexpr auto kPrefixColumns = std::to_array<Column<PrefixRow>>({
    {"case", &PrefixRow::index},
    {"model", &PrefixRow::model},
    {"engine", &PrefixRow::engine},
    {"scalar", &PrefixRow::scalar},
    {"arithmetic", &PrefixRow::arithmetic},
    {"check", &PrefixRow::check},
    {"prefix_length", &PrefixRow::prefix_length},
    {"tokens", &PrefixRow::tokens},
    {"schedule", &PrefixRow::schedule},
    {"position", &PrefixRow::position},
    {"max_abs_difference", &PrefixRow::max_abs_difference},
    {"token_at_max", &PrefixRow::token_at_max},
    {"uncached", &PrefixRow::uncached},
    {"cached", &PrefixRow::cached},
    {"ulps", &PrefixRow::ulps},
    {"noise_floor", &PrefixRow::noise_floor},
    {"ratio", &PrefixRow::ratio},
    {"kappa", &PrefixRow::kappa},
    {"argmax_uncached", &PrefixRow::argmax_uncached},
    {"argmax_cached", &PrefixRow::argmax_cached},
    {"verdict", &PrefixRow::verdict},
    {"mark", &PrefixRow::mark},
    {"reproduce", &PrefixRow::reproduce},
});

// `reproduce` is the whole command that runs the case again.
[[nodiscard]] PrefixRow prefix_row(const CaseRecord& record, std::string_view reproduce);

// Gives the rows of a prefixes.csv in the order of the file. Throws Error naming file and line.
void read_prefixes(const std::filesystem::path& path, const std::function<void(PrefixRow)>& each);

}  // namespace kvcheck
