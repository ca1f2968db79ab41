// SPDX-License-Identifier: MIT
// Takes down what a run says, while it says it: on the terminal, in the files of the run, and for
// the next run.
#pragma once

#include <exception>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "reports/run_writer.h"
#include "verify/cli.h"
#include "verify/cli_runs.h"
#include "verify/progress.h"

namespace kvcheck {

class Recorder final : public RunListener {
 public:
  // `store`: keep failures for the next run.
  Recorder(RunWriter& writer, Progress& progress, const VerifyArguments& arguments,
           const Runs& runs, bool store)
      : writer_(writer), progress_(progress), arguments_(arguments), runs_(runs), store_(store) {}

  void on_start(std::size_t checks) override { progress_.start(checks); }
  void on_failure(const CaseRecord& record) override;
  void on_smaller(const CaseRecord& record, const SmallerCase& smaller) override;
  void on_record(const CaseRecord& record) override;
  void on_check(const CheckSummary& summary) override { progress_.check(summary.model); }

  // Throws the Error of the failure that could not get a file.
  void require_files() const;
  // The first case of each check that did not agree.
  [[nodiscard]] std::string first_failures() const;

 private:
  void file(const CaseRecord& record);
  void keep(const Case& subject);
  [[nodiscard]] std::string failure_text(const CaseRecord& record) const;

  RunWriter& writer_;
  Progress& progress_;
  const VerifyArguments& arguments_;
  const Runs& runs_;
  bool store_;
  mutable std::mutex mutex_;  // of the smaller ones, told of from any thread
  std::vector<std::string> smaller_;
  int failures_ = 0;
  int filed_ = 0;
  std::exception_ptr no_file_;
  int stored_ = 0;
  std::vector<std::pair<std::string, CaseRecord>> first_;
};

}  // namespace kvcheck
