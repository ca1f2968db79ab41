// SPDX-License-Identifier: MIT
// One fault on one model under kvcheck's own checks: which of them see it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "verify/fault.h"
#include "verify/shared_oracle.h"
#include "verify/suite.h"

namespace kvcheck {

enum class Outcome {
  caught,
  missed,          // it changed something, and the check did not see it
  inert,           // it changed nothing while the check ran
  equivalent,      // the table says why nobody can see it, and nobody did
  not_applicable,  // the check cannot be run on this model or this kind of cache
};
[[nodiscard]] std::string_view name(Outcome outcome);

// One fault under one check on one model.
struct TrialCell {
  std::string_view check;
  Outcome outcome = Outcome::not_applicable;
  std::int64_t cases = 0;
  // The first case that shows it: the shortest prefix, the first sequence of operations.
  std::optional<CaseRecord> first = {};
  double max_abs_difference = 0;         // over all cases of the check that were run
  std::optional<double> max_ratio = {};  // likewise
  // The engine failed: for a check that judges logits by a policy of its own, that is no statement.
  bool crashed = false;
};

struct TrialOptions {
  std::uint64_t seed = 1;
  int sequences = 64;  // random sequences of operations, in each arithmetic
  std::function<Operations(const OperationSpace&, std::uint64_t seed, std::uint64_t number)> draw =
      {};
  // Ids of trial_checks() that are run; none: all.
  std::optional<std::vector<std::string_view>> checks = {};
  SharedOracle* oracle = nullptr;  // of the model; null: every engine is measured anew
};

// An engine that is put to the checks.
struct TrialSubject {
  EngineFactory factory;
  std::shared_ptr<const FaultTrace> trace;  // of what is planted in it
  CacheKind cache;
  std::string fault = {};  // as its cases name it
  Expected expected = Expected::caught;
  int rarity = 1;  // times as many sequences of operations
};

// The checks of a trial, in the order of the cells. All prefixes (or those of random sequences,
// where a model has too many) in both arithmetics; `exact`: row arithmetic to the last bit;
// `noise` and `noise-f64`: matrix arithmetic in units of the noise floor, in either scalar.
[[nodiscard]] std::span<const std::string_view> trial_checks();

// A cell for each of trial_checks() that was asked for. `run` has the sources of prefixes of its
// model.
[[nodiscard]] std::vector<TrialCell> try_engine(const TrialSubject& subject, const ModelRun& run,
                                                const TrialOptions& options);

// Likewise; not applicable where the fault cannot be planted. `run` has the sources of prefixes of
// its model.
[[nodiscard]] std::vector<TrialCell> try_fault(const FaultVariant& variant, const ModelRun& run,
                                               const TrialOptions& options);

}  // namespace kvcheck
