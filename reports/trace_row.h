// SPDX-License-Identifier: MIT
// The trace of an audit: one row for each value that both decoders computed. Steps count from 1, as
// in operations.csv; all other indices from 0.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "engine/files.h"
#include "reports/csv_column.h"
#include "verify/audit.h"

namespace kvcheck {

struct TraceRow {
  std::int64_t step = 0;
  std::int64_t sequence = 0;
  std::optional<std::int64_t> layer;  // none outside the layers
  std::string site;
  std::int64_t row = 0;                // of the sequence's log
  std::optional<std::int64_t> key;     // row of the log that is read
  std::optional<std::int64_t> head;    // query head, at keys and values K/V head
  std::optional<std::int64_t> column;  // within the head, or the row
  std::optional<double> uncached;
  std::optional<double> cached;
  std::optional<std::uint64_t> ulps;
  std::optional<double> floor;
  std::optional<double> ratio;

  bool operator==(const TraceRow&) const = default;
};

inline constexpr auto kTraceColumns = std::to_array<Column<TraceRow>>({
    {"step", &TraceRow::step},
    {"sequence", &TraceRow::sequence},
    {"layer", &TraceRow::layer},
    {"site", &TraceRow::site},
    {"row", &TraceRow::row},
    {"key", &TraceRow::key},
    {"head", &TraceRow::head},
    {"column", &TraceRow::column},
    {"uncached", &TraceRow::uncached},
    {"cached", &TraceRow::cached},
    {"ulps", &TraceRow::ulps},
    {"floor", &TraceRow::floor},
    {"ratio", &TraceRow::ratio},
});

[[nodiscard]] TraceRow trace_row(int step, Site site, int layer, const AuditValue& value);

// Writes rows as they come; the file gets its name at commit().
class TraceWriter {
 public:
  explicit TraceWriter(const std::filesystem::path& path);
  void add(const TraceRow& row);
  void commit();

 private:
  OutputFile file_;
};

// Gives the rows of a trace in the order of the file. Throws Error naming file and line.
void read_trace(const std::filesystem::path& path, const std::function<void(TraceRow)>& each);

}  // namespace kvcheck
