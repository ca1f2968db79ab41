// SPDX-License-Identifier: MIT
// The files of a run of faults: the manifest before the first case, rows as they come, the summary
// at the end. A file has its name only when it is complete.
#pragma once

#include <filesystem>

#include "engine/files.h"
#include "reports/manifest_json.h"
#include "verify/kill_matrix.h"

namespace kvcheck {

class FaultsWriter {
 public:
  // Writes manifest.json. `folder` is what make_run_folder() gave.
  FaultsWriter(std::filesystem::path folder, const RunManifest& manifest);

  // Lines of faults.csv, in the order of the calls.
  void add_row(const MatrixRow& row);
  // Gives faults.csv and summary.json their names, the summary last. Called once; without it,
  // neither appears.
  void finish(const MatrixReport& report);

 private:
  std::filesystem::path folder_;
  OutputFile faults_;
};

}  // namespace kvcheck
