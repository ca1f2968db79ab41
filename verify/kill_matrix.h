// SPDX-License-Identifier: MIT
// The kill matrix: every fault, planted in the built-in engine, under every check: kvcheck's own
// and the replicas of what other projects assert. Which check sees which fault?
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "verify/fault_trial.h"

namespace kvcheck {

// A column.
struct MatrixCheck {
  std::string_view id;
  bool own;                     // kvcheck's, not a replica
  std::string_view stands_for;  // whose test a replica is
};
// Own checks, then replicas.
[[nodiscard]] const std::vector<MatrixCheck>& matrix_checks();

// Seed of the smallest models: a fault is always shown on the same one.
inline constexpr std::uint64_t kTinySeed = 1;

// The variants that are tried on a model: of a deep one only those of all layers, the first and the
// last, and none of a layer whose window is its own row.
[[nodiscard]] std::vector<FaultVariant> matrix_variants(const Fault& fault, const Config& config);

// Random sequences of prefixes on a model that has too many.
inline constexpr int kMatrixSequences = 4;
// The prefixes that every fault is tried on.
[[nodiscard]] std::vector<SourceOfPrefixes> matrix_sources(const ModelData& model,
                                                           std::uint64_t seed);

// A fault that changes nothing: planting must not change anything either.
[[nodiscard]] const Fault& no_fault();
// A fault that every check sees on every model where it reads anything from a cache.
[[nodiscard]] const Fault& canary_fault();

struct MatrixOptions {
  std::vector<const Fault*> faults;  // rows of the table, each once
  const Fault* canary = &canary_fault();
  std::function<bool(const FaultVariant&)> wanted = {};  // empty: all
  std::vector<std::string_view> checks = {};             // ids of matrix_checks(); empty: all
  std::uint64_t seed = 1;
  int sequences = 64;  // of operations, in each arithmetic
  std::function<Operations(const OperationSpace&, std::uint64_t seed, std::uint64_t number)> draw;
  int jobs = 1;
};

// One fault on one model.
struct MatrixRow {
  FaultVariant variant;
  const ModelData& model;
  bool smallest;                 // the model is the smallest that can show the fault
  std::vector<TrialCell> cells;  // [checks that were asked for]; replicas have no first case
};

// How many cells, or variants, came to each Outcome.
using OutcomeCounts = std::array<std::int64_t, 5>;

// All variants of one row of the table, over all models.
struct FaultReport {
  const Fault* fault;
  // Variants by what the own checks made of them over all models: caught if any did, and so on in
  // the order of Outcome.
  OutcomeCounts variants = {};
  std::vector<Outcome> checks = {};  // [checks that were asked for], likewise
  std::vector<std::string> unexpected =
      {};          // variants that are not what the table expects: "ID: what"
  int models = 0;  // that the fault can be planted in, but the smallest
  std::vector<std::string> seen_on = {};  // of those, where an own check caught some variant
  bool seen_on_smallest = false;
  std::optional<CaseRecord> smallest = {};    // case that shows it
  std::optional<FaultVariant> shown_by = {};  // the variant of that case
  bool shrunk = false;                        // operations that were made as small as they would go
  double max_abs_difference = 0;
};

struct CheckReport {
  MatrixCheck check;
  OutcomeCounts cells = {};

  // Caught of those that it could have caught; none where there are none.
  [[nodiscard]] std::optional<double> kill_rate() const;
};

struct MatrixReport {
  std::vector<FaultReport> faults;
  std::vector<CheckReport> checks;        // those that were asked for
  std::vector<std::string> false_alarms;  // replicas that fail without a fault: "ID on MODEL"
  std::int64_t rows = 0;
  std::int64_t models = 0;
  bool interrupted = false;

  // Whether all is as the table expects.
  [[nodiscard]] bool as_expected() const;
  // Whether any check of kvcheck's own was run on a fault: replicas decide nothing.
  [[nodiscard]] bool judged() const;
  // diverge where something is not as expected; gave-up for a run that ended early or judged
  // nothing.
  [[nodiscard]] Verdict verdict() const;
};

// Told of everything as it happens, from one thread at a time.
class MatrixListener {
 public:
  virtual ~MatrixListener() = default;
  virtual void on_start(std::size_t rows) = 0;
  // In the stated order, whatever the number of threads: fault by fault, the smallest model first.
  virtual void on_row(const MatrixRow& row) = 0;
};

// Runs the checks without a fault first, and with one that they must see; throws EngineError if
// they do not agree, or do not see it: nothing else would mean anything. `stop` ends the run early
// when it becomes true; rows that were done until then are reported.
[[nodiscard]] MatrixReport run_kill_matrix(const MatrixOptions& options,
                                           const std::vector<ModelRun>& models,
                                           MatrixListener& listener, const std::atomic<bool>& stop);

}  // namespace kvcheck
