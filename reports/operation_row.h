// SPDX-License-Identifier: MIT
// operations.csv: one row for each sequence of operations, about the row of logits that differed
// most. To add a column, add a member, fill it in operation_row() and name it in kOperationColumns.
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

struct OperationRow {
  std::int64_t number = 0;  // of the case within its check
  std::string model;
  std::string engine;
  std::string cache_kind;
  ScalarKind scalar = ScalarKind::f32;
  Arithmetic arithmetic = Arithmetic::matrix;
  std::string check;
  std::optional<std::uint64_t> index;  // of a random sequence
  std::string operations;              // words joined by '.'
  std::optional<std::int64_t> step;    // from 1; none where nothing was compared
  std::optional<std::int64_t> position;
  std::optional<double> max_abs_difference;
  std::optional<double> ratio;
  Verdict verdict = Verdict::gave_up;
  Mark mark = Mark::none;
  std::string reproduce;  // a command

  bool operator==(const OperationRow&) const = default;
};

inline constexpr auto kOperationColumns = std::to_array<Column<OperationRow>>({
    {"case", &OperationRow::number},
    {"model", &OperationRow::model},
    {"engine", &OperationRow::engine},
    {"cache_kind", &OperationRow::cache_kind},
    {"scalar", &OperationRow::scalar},
    {"arithmetic", &OperationRow::arithmetic},
    {"check", &OperationRow::check},
    {"index", &OperationRow::index},
    {"operations", &OperationRow::operations},
    {"step", &OperationRow::step},
    {"position", &OperationRow::position},
    {"max_abs_difference", &OperationRow::max_abs_difference},
    {"ratio", &OperationRow::ratio},
    {"verdict", &OperationRow::verdict},
    {"mark", &OperationRow::mark},
    {"reproduce", &OperationRow::reproduce},
});

// `reproduce` is the whole command that runs the case again.
[[nodiscard]] OperationRow operation_row(const CaseRecord& record, std::string_view reproduce);

// Gives the rows of an operations.csv in the order of the file. Throws Error naming file and line.
void read_operations(const std::filesystem::path& path,
                     const std::function<void(OperationRow)>& each);

}  // namespace kvcheck
