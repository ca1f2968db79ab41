// SPDX-License-Identifier: MIT
// From a row of the kill matrix to the rows of the file, and back.
#include "reports/fault_row.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "engine/echo.h"
#include "reports/csv_reader.h"
#include "verify/case_text.h"

namespace kvcheck {

std::string first_failing(const CaseRecord& record) {
  const Case& subject = record.subject;
  if (subject.operations.empty()) return fmt::format("prefix {}", subject.tokens.size());
  return fmt::format("operation {}", record.result.step.value_or(0) + 1);
}

std::vector<FaultRow> fault_rows(const MatrixRow& from) {
  std::vector<FaultRow> rows;
  for (const TrialCell& cell : from.cells) {
    FaultRow& row = rows.emplace_back();
    row.fault = from.variant.fault->id;
    row.layer = from.variant.at.layer;
    row.onset = from.variant.at.onset;
    row.amount = from.variant.at.amount;
    row.model = one_line(from.model.name, std::numeric_limits<std::size_t>::max());
    row.check = cell.check;
    row.outcome = name(cell.outcome);
    if (cell.cases > 0) {
      row.max_abs_difference = cell.max_abs_difference;
      row.ratio = cell.max_ratio;
    }
    if (cell.first) {
      row.first_failing = first_failing(*cell.first);
      row.reproduce = repro_line(cell.first->subject);
    }
  }
  return rows;
}

void read_faults(const std::filesystem::path& path, const std::function<void(FaultRow)>& each) {
  CsvReader reader(path, kFaultColumns);
  while (std::optional<FaultRow> row = reader.next()) each(std::move(*row));
}

}  // namespace kvcheck
