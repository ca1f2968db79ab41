// SPDX-License-Identifier: MIT
// Files appear complete or not at all.
#include "reports/run_writer.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <vector>

#include "engine/error.h"
#include "engine/test_support.h"
#include "reports/csv_writer.h"
#include "reports/operation_row.h"
#include "reports/prefix_row.h"
#include "reports/test_records.h"
#include "verify/suite.h"

namespace kvcheck {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

Names names_in(const fs::path& folder) {
  Names names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

RunSummary diverging_run() {
  RunResult result;
  result.verdict = Verdict::diverge;
  result.checks = {diverging_check()};
  return run_summary(result);
}

// While it lives, no file of this process grows beyond `bytes`.
class DiskFull {
 public:
  explicit DiskFull(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &limit_);
    const rlimit small{bytes, limit_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  ~DiskFull() {
    ::setrlimit(RLIMIT_FSIZE, &limit_);
    std::signal(SIGXFSZ, handler_);
  }
  DiskFull(const DiskFull&) = delete;
  DiskFull& operator=(const DiskFull&) = delete;

 private:
  void (*handler_)(int);
  rlimit limit_{};
};

TEST(RunWriter, the_manifest_is_there_before_the_first_case) {
  const TemporaryFolder folder;
  RunManifest manifest;
  manifest.version = "0.1.0";
  const RunWriter writer(folder.path(), manifest);
  EXPECT_EQ(read_bytes(folder / "manifest.json"), manifest_json(manifest));
}

TEST(RunWriter, a_finished_run_has_all_files) {
  const TemporaryFolder folder;
  RunWriter writer(folder.path(), {});
  writer.add_row(diverging_record(), "kvcheck repro kv1:x");
  writer.add_row(broken_record(), "kvcheck repro kv1:y");
  EXPECT_FALSE(fs::exists(folder / "prefixes.csv")) << "not before it is complete";
  writer.finish(diverging_run());
  EXPECT_EQ(names_in(folder.path()),
            (Names{"junit.xml", "manifest.json", "prefixes.csv", "summary.json"}));
  EXPECT_EQ(read_bytes(folder / "prefixes.csv"),
            csv_header(kPrefixColumns) +
                csv_line(kPrefixColumns, prefix_row(diverging_record(), "kvcheck repro kv1:x")) +
                csv_line(kPrefixColumns, prefix_row(broken_record(), "kvcheck repro kv1:y")));
  EXPECT_EQ(read_bytes(folder / "summary.json"), summary_json(diverging_run()));
  EXPECT_NE(read_bytes(folder / "junit.xml").find("; kvcheck repro kv1:x"), std::string::npos);
}

TEST(RunWriter, sequences_of_operations_have_a_file_of_their_own) {
  const TemporaryFolder folder;
  RunWriter writer(folder.path(), {});
  writer.add_row(diverging_record(), "kvcheck repro kv1:x");
  writer.add_row(operations_record(), "kvcheck repro kv1:o");
  EXPECT_FALSE(fs::exists(folder / "operations.csv")) << "not before it is complete";
  writer.finish(diverging_run());
  EXPECT_EQ(
      read_bytes(folder / "operations.csv"),
      csv_header(kOperationColumns) +
          csv_line(kOperationColumns, operation_row(operations_record(), "kvcheck repro kv1:o")));
  EXPECT_EQ(read_bytes(folder / "prefixes.csv").find("kv1:o"), std::string::npos);
}

TEST(RunWriter, an_unfinished_run_has_no_operations) {
  const TemporaryFolder folder;
  {
    RunWriter writer(folder.path(), {});
    writer.add_row(operations_record(), "kvcheck repro kv1:o");
  }
  EXPECT_EQ(names_in(folder.path()), Names{"manifest.json"});
}

TEST(RunWriter, a_run_without_cases_has_a_header) {
  const TemporaryFolder folder;
  RunWriter writer(folder.path(), {});
  writer.finish({});
  EXPECT_EQ(read_bytes(folder / "prefixes.csv"), csv_header(kPrefixColumns));
}

TEST(RunWriter, failures_are_written_at_once_and_numbered) {
  const TemporaryFolder folder;
  RunWriter writer(folder.path(), {});
  EXPECT_FALSE(fs::exists(folder / "failures"));
  EXPECT_EQ(writer.add_failure("{\"a\": 1}\n"), folder / "failures/1.json");
  EXPECT_EQ(writer.add_failure("{}\n"), folder / "failures/2.json");
  EXPECT_EQ(read_bytes(folder / "failures/1.json"), "{\"a\": 1}\n");
  EXPECT_EQ(names_in(folder / "failures"), (Names{"1.json", "2.json"}));
}

TEST(RunWriter, a_run_that_throws_leaves_the_manifest_and_its_failures) {
  const TemporaryFolder folder;
  try {
    RunWriter writer(folder.path(), {});
    writer.add_row(diverging_record(), "kvcheck repro kv1:x");
    (void)writer.add_failure("{}");
    throw EngineError("the engine is gone");
  } catch (const EngineError&) {
  }
  EXPECT_EQ(names_in(folder.path()), (Names{"failures", "manifest.json"}));
}

TEST(RunWriter, a_full_disk_is_an_error_and_leaves_no_half_file) {
  const TemporaryFolder folder;
  const std::string message = error_in(folder, [&] {
    RunWriter writer(folder.path(), {});
    const DiskFull full(10'000);
    for (int i = 0; i < 1000; ++i) writer.add_row(diverging_record(), "kvcheck repro kv1:x");
    writer.finish({});
  });
  EXPECT_EQ(message, "prefixes.csv: output, expected a place to write to, got file too large");
  EXPECT_EQ(names_in(folder.path()), Names{"manifest.json"});
}

TEST(RunWriter, a_disk_that_fills_at_the_end_leaves_none_of_the_last_files) {
  const TemporaryFolder folder;
  const std::string message = error_in(folder, [&] {
    RunWriter writer(folder.path(), {});
    const DiskFull full(400);  // enough for the rows, not for the summary
    RunSummary summary = diverging_run();
    summary.invariants.clear();  // which would fill it before
    writer.finish(summary);
  });
  EXPECT_EQ(message, "junit.xml: output, expected a place to write to, got file too large");
  EXPECT_EQ(names_in(folder.path()), Names{"manifest.json"});
}

TEST(RunWriter, a_failure_that_cannot_be_written_is_an_error) {
  const TemporaryFolder folder;
  RunWriter writer(folder.path(), {});
  write_bytes(folder / "failures", "in the way");
  EXPECT_EQ(error_in(folder, [&] { (void)writer.add_failure("{}"); }),
            "failures: output, expected a place to write to, got not a directory");
}

TEST(RunWriter, a_folder_that_is_gone_is_an_error) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_in(folder, [&] { const RunWriter writer(folder / "none", {}); }),
            "none/prefixes.csv: output, expected a place to write to, got no such file or "
            "directory");
}

}  // namespace
}  // namespace kvcheck
