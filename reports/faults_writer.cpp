// SPDX-License-Identifier: MIT
// Writes the files of a run of faults.
#include "reports/faults_writer.h"

#include <utility>

#include "reports/csv_writer.h"
#include "reports/fault_row.h"
#include "reports/faults_json.h"
#include "reports/run_writer.h"

namespace kvcheck {

FaultsWriter::FaultsWriter(std::filesystem::path folder, const RunManifest& manifest)
    : folder_(std::move(folder)), faults_(folder_ / "faults.csv") {
  write_whole(folder_ / "manifest.json", manifest_json(manifest));
  faults_.write(csv_header(kFaultColumns));
}

void FaultsWriter::add_row(const MatrixRow& from) {
  for (const FaultRow& row : fault_rows(from)) faults_.write(csv_line(kFaultColumns, row));
}

void FaultsWriter::finish(const MatrixReport& report) {
  OutputFile summary(folder_ / "summary.json");
  summary.write(faults_json(report));
  faults_.finish();
  summary.finish();
  faults_.commit();
  summary.commit();
}

}  // namespace kvcheck
