// SPDX-License-Identifier: MIT
// From a report to its rows.
#include "reports/cost_row.h"

#include "engine/files.h"
#include "reports/csv_writer.h"

namespace kvcheck {
namespace {

CostRow row_of(const PhaseCost& cost, std::string_view phase, const Work& work, bool runnable) {
  return {.phase = std::string(phase),
          .length = cost.phase.length(),
          .sequences = cost.phase.sequences,
          .layer = std::nullopt,
          .projections = work.projections.digits(),
          .attention = work.attention.digits(),
          .mlp = work.mlp.digits(),
          .output = work.output.digits(),
          .other_operations = runnable ? work.rest.digits() : "",
          .counted = ""};
}

std::string counted_text(const Work& formula, const Work& counted) {
  return formula == counted ? "equal" : "different";
}

}  // namespace

std::vector<CostRow> cost_rows(const CostReport& report) {
  std::vector<CostRow> rows;
  for (const PhaseCost& cost : report.phases) {
    const std::string_view phase = !cost.phase.cached                ? "uncached"
                                   : &cost == &report.phases.front() ? "prefill"
                                                                     : "decode";
    for (std::size_t layer = 0; layer < cost.work.layers.size(); ++layer) {
      const Work& work = cost.work.layers[layer];
      rows.push_back(row_of(cost, phase, work, report.runnable));
      rows.back().layer = static_cast<std::int64_t>(layer);
      if (cost.counted) rows.back().counted = counted_text(work, cost.counted->layers[layer]);
    }
    rows.push_back(row_of(cost, phase, cost.work.outside, report.runnable));
    if (cost.counted) {
      rows.back().counted = counted_text(cost.work.outside, cost.counted->outside);
    }
  }
  return rows;
}

void write_cost_csv(const std::filesystem::path& path, const CostReport& report) {
  OutputFile file(path);
  file.write(csv_header(kCostColumns));
  for (const CostRow& row : cost_rows(report)) file.write(csv_line(kCostColumns, row));
  file.finish();
  file.commit();
}

}  // namespace kvcheck
