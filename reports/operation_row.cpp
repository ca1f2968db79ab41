// SPDX-License-Identifier: MIT
// From a case's record to its row, and from the file back to rows.
#include "reports/operation_row.h"

#include <limits>
#include <utility>

#include "engine/echo.h"
#include "reports/csv_reader.h"

namespace kvcheck {

OperationRow operation_row(const CaseRecord& record, std::string_view reproduce) {
  const Case& subject = record.subject;
  const CaseResult& result = record.result;
  OperationRow row;
  row.number = record.index;
  row.model = one_line(subject.model, std::numeric_limits<std::size_t>::max());
  row.engine = subject.engine;
  row.cache_kind = name(subject.cache_kind);
  row.scalar = subject.scalar;
  row.arithmetic = subject.arithmetic;
  row.check = record.check();
  row.index = record.number;
  row.operations = to_text(subject.operations);
  if (result.step) row.step = *result.step + 1;
  if (result.row) {
    row.position = result.position;
    row.max_abs_difference = result.row->max_abs_difference;
  }
  row.ratio = result.ratio;
  row.verdict = result.verdict;
  row.mark = result.mark;
  row.reproduce = reproduce;
  return row;
}

void read_operations(const std::filesystem::path& path,
                     const std::function<void(OperationRow)>& each) {
  CsvReader reader(path, kOperationColumns);
  while (std::optional<OperationRow> row = reader.next()) each(std::move(*row));
}

}  // namespace kvcheck
