// SPDX-License-Identifier: MIT
// faults.csv: one row for each fault, check and model. To add a column, add a member, fill it in
// fault_rows() and name it in kFaultColumns.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "reports/csv_column.h"
#include "verify/kill_matrix.h"

namespace kvcheck {

struct FaultRow {
  std::string fault;                  // id
  std::optional<std::int64_t> layer;  // none: in every layer
  std::optional<std::int64_t> onset;  // rows held from which on it is at work; none: 1
  std::optional<std::int64_t> amount;
  std::string model;
  std::string check;
  std::string outcome;
  std::string first_failing;  // "prefix 3" or "operation 2"; empty unless an own check caught it
  std::optional<double> max_abs_difference;  // over all cases of the check that were run
  std::optional<double> ratio;               // likewise, in noise floors
  std::string reproduce;                     // a command that runs the first failing case

  bool operator==(const FaultRow&) const = default;
};

inline constexpr auto kFaultColumns = std::to_array<Column<FaultRow>>({
    {"fault", &FaultRow::fault},
    {"layer", &FaultRow::layer},
    {"onset", &FaultRow::onset},
    {"amount", &FaultRow::amount},
    {"model", &FaultRow::model},
    {"check", &FaultRow::check},
    {"outcome", &FaultRow::outcome},
    {"first_failing", &FaultRow::first_failing},
    {"max_abs_difference", &FaultRow::max_abs_difference},
    {"ratio", &FaultRow::ratio},
    {"reproduce", &FaultRow::reproduce},
});

// Where a case first fails: "prefix 3" or "operation 2".
[[nodiscard]] std::string first_failing(const CaseRecord& record);

// A row for each cell.
[[nodiscard]] std::vector<FaultRow> fault_rows(const MatrixRow& row);

// Gives the rows of a faults.csv in the order of the file. Throws Error naming file and line.
void read_faults(const std::filesystem::path& path, const std::function<void(FaultRow)>& each);

}  // namespace kvcheck
