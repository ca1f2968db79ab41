// SPDX-License-Identifier: MIT
// From a value to its row, and from the file back to rows.
#include "reports/trace_row.h"

#include <utility>

#include "reports/csv_reader.h"
#include "reports/csv_writer.h"

namespace kvcheck {
namespace {

// -1 is how an index says that there is none.
std::optional<std::int64_t> index_of(int index) {
  return index < 0 ? std::nullopt : std::optional<std::int64_t>(index);
}

}  // namespace

TraceRow trace_row(int step, Site site, int layer, const AuditValue& value) {
  TraceRow row;
  row.step = step + 1;
  row.sequence = value.sequence;
  row.layer = index_of(layer);
  row.site = name(site);
  row.row = value.at.row;
  row.key = index_of(value.at.key);
  row.head = index_of(value.at.head);
  row.column = index_of(value.at.column);
  row.uncached = value.uncached;
  row.cached = value.cached;
  row.ulps = value.ulps;
  row.floor = value.floor;
  row.ratio = value.ratio;
  return row;
}

TraceWriter::TraceWriter(const std::filesystem::path& path) : file_(path) {
  file_.write(csv_header(kTraceColumns));
}

void TraceWriter::add(const TraceRow& row) { file_.write(csv_line(kTraceColumns, row)); }

void TraceWriter::commit() {
  file_.finish();
  file_.commit();
}

void read_trace(const std::filesystem::path& path, const std::function<void(TraceRow)>& each) {
  CsvReader reader(path, kTraceColumns);
  while (std::optional<TraceRow> row = reader.next()) each(std::move(*row));
}

}  // namespace kvcheck
