// SPDX-License-Identifier: MIT
// What a run of `kvcheck verify` is about: its models, and what is walked on each.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "verify/cli.h"
#include "verify/models.h"
#include "verify/suite.h"

namespace kvcheck {

// The models stay where they are: the runs refer to them.
struct Runs {
  std::deque<ModelData> models;
  std::vector<RandomRange> ranges;  // [models]
  std::vector<ModelRun> runs;       // [models]
};

// Throws Error for a model or prefixes that are no good. Goes on to no further model once `stop`
// is true.
[[nodiscard]] Runs load_runs(const VerifyArguments& arguments, const SuiteOptions& options,
                             const std::atomic<bool>& stop);

// What --operations and --cache-kind ask for. Throws Error for anything else.
[[nodiscard]] OperationChoice operation_choice(const VerifyArguments& arguments);

// The command that runs one random sequence of one model alone, as `arguments` ran it among others.
[[nodiscard]] std::string rerun_line(const VerifyArguments& arguments, const Case& subject,
                                     std::uint64_t number);

}  // namespace kvcheck
