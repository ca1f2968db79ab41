// SPDX-License-Identifier: MIT
// The files of a run: the manifest before the first case, failures and rows as they come, the rest
// at the end. A file has its name only when it is complete.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include "engine/files.h"
#include "reports/junit.h"
#include "reports/manifest_json.h"
#include "reports/summary_json.h"
#include "verify/case.h"

namespace kvcheck {

// A file of a run, under its name only once it is complete.
void write_whole(const std::filesystem::path& path, std::string_view text);

class RunWriter {
 public:
  // Writes manifest.json. `folder` is what make_run_folder() gave.
  RunWriter(std::filesystem::path folder, const RunManifest& manifest);

  // A line of prefixes.csv, or of operations.csv, which exists if there is one; they stand there in
  // the order of the calls.
  void add_row(const CaseRecord& record, std::string_view reproduce);
  // Writes failures/1.json, failures/2.json, ... at once and gives the path. May be called from
  // another thread than add_row().
  std::filesystem::path add_failure(std::string_view json);
  // Gives prefixes.csv, junit.xml and summary.json their names, the summary last: where it is, the
  // run is complete. Called once; without it, none of the three appears.
  void finish(const RunSummary& summary);

 private:
  std::filesystem::path folder_;
  OutputFile prefixes_;
  // Opened at once, so that what cannot be opened is told before anything is run.
  std::optional<OutputFile> operations_;
  bool any_operations_ = false;
  FirstFailures first_failures_;
  int failures_ = 0;
};

}  // namespace kvcheck
