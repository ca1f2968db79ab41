// SPDX-License-Identifier: MIT
// Writes the files of a run.
#include "reports/run_writer.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "reports/csv_writer.h"
#include "reports/operation_row.h"
#include "reports/prefix_row.h"

namespace kvcheck {
namespace fs = std::filesystem;

void write_whole(const fs::path& path, std::string_view text) {
  OutputFile file(path);
  file.write(text);
  file.finish();
  file.commit();
}

RunWriter::RunWriter(fs::path folder, const RunManifest& manifest)
    : folder_(std::move(folder)),
      prefixes_(folder_ / "prefixes.csv"),
      operations_(std::in_place, folder_ / "operations.csv") {
  write_whole(folder_ / "manifest.json", manifest_json(manifest));
  prefixes_.write(csv_header(kPrefixColumns));
  operations_->write(csv_header(kOperationColumns));
}

void RunWriter::add_row(const CaseRecord& record, std::string_view reproduce) {
  if (record.subject.operations.empty()) {
    prefixes_.write(csv_line(kPrefixColumns, prefix_row(record, reproduce)));
  } else {
    any_operations_ = true;
    operations_->write(csv_line(kOperationColumns, operation_row(record, reproduce)));
  }
  first_failures_.add(record, reproduce);
}

fs::path RunWriter::add_failure(std::string_view json) {
  const fs::path folder = folder_ / "failures";
  make_folder(folder);
  fs::path path = folder / fmt::format("{}.json", failures_ + 1);
  write_whole(path, json);
  ++failures_;
  return path;
}

void RunWriter::finish(const RunSummary& summary) {
  OutputFile junit(folder_ / "junit.xml");
  junit.write(junit_xml(summary, first_failures_));
  OutputFile json(folder_ / "summary.json");
  json.write(summary_json(summary));
  std::vector<OutputFile*> files{&prefixes_, &junit, &json};
  if (any_operations_) {
    files.insert(files.begin(), &*operations_);
  } else {
    operations_.reset();
  }
  for (OutputFile* file : files) file->finish();
  for (OutputFile* file : files) file->commit();
}

}  // namespace kvcheck
