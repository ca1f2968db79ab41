// SPDX-License-Identifier: MIT
// A part of the operations check: some of its sequences, run one after the other, and what becomes
// of those that fail.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "verify/assignments.h"
#include "verify/tally.h"

namespace kvcheck {

[[nodiscard]] Case operations_case(const Assignment& assignment, std::uint64_t seed,
                                   const Operations& operations);

class OperationUnit {
 public:
  // What it needs of the run that it belongs to.
  struct Context {
    const SuiteOptions& options;
    const EngineFactory& factory;
    const std::atomic<bool>& stop;
    std::function<void(const CaseRecord&)> tell;  // a failure, at once
    std::function<bool()> may_shrink;             // whether the run has time for one more
    std::function<void(const CaseRecord&, const SmallerCase&)> tell_smaller;
  };

  OperationUnit(const Context& context, const Assignment& assignment, Tally& tally)
      : context_(context), assignment_(assignment), tally_(tally) {}

  // The sequences first .. first + count - 1 of the assignment.
  void run(std::size_t first, std::size_t count);

  [[nodiscard]] const OperationCoverage& coverage() const { return coverage_; }
  [[nodiscard]] const Loss& loss() const { return loss_; }

 private:
  void each(OperationSpace space, std::size_t first, std::size_t count,
            const std::function<void(const Operations&, std::optional<std::uint64_t>)>& visit);
  void take(OperationRunner& runner, const Operations& operations,
            std::optional<std::uint64_t> number);
  [[nodiscard]] CaseResult look_again(CaseRecord record);
  [[nodiscard]] CaseResult decide_wide(const Case& subject, CaseResult narrow);
  void record_no_engine(const std::string& why);

  const Context& context_;
  const Assignment& assignment_;
  Tally& tally_;
  OperationCoverage coverage_;
  Loss loss_;
  int failures_ = 0;
  std::optional<OperationRunner> wide_;  // in float64, from the first case on that needs it
};

}  // namespace kvcheck
