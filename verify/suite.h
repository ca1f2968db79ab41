// SPDX-License-Identifier: MIT
// Running checks over models: what is run, in which order it is reported, and what the run came to.
// The same cases are run and reported in the same order whatever the number of threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "verify/checks.h"
#include "verify/operation_run.h"
#include "verify/replay.h"
#include "verify/smaller.h"

namespace kvcheck {

// Agreeing cases of each check that are recorded besides all that do not agree.
inline constexpr std::size_t kWorstKept = 1000;
// Failures of one part of a check that are run again to tell the flaky ones; further ones are taken
// as they are.
inline constexpr int kRerunsMax = 16;
// Failing sequences of operations of one part of a check that are made smaller.
inline constexpr int kSmallerMax = 2;
inline constexpr int kSmallerMaxOfRun = 10;

// Which sequences of operations are run.
struct OperationChoice {
  enum class Kind { none, random, exhaustive };
  Kind kind = Kind::none;
  int count = 0;            // of random sequences, for each model, kind of cache and arithmetic
  std::uint64_t first = 0;  // number of the first one
  int depth = 0;            // of exhaustive ones
  std::vector<CacheKind> caches = {};
  // Random sequence `number` of run `seed`.
  std::function<Operations(const OperationSpace&, std::uint64_t seed, std::uint64_t number)> draw;
};

// Multiply-adds of the forwards of all prefixes of a source, estimated, beyond which one forward of
// each sequence is the oracle: some seconds on one core.
inline constexpr double kWorkPerPrefixMax = 1e11;

// More sequences than this are not enumerated.
inline constexpr std::uint64_t kSequencesMax = 2'000'000;

struct SuiteOptions {
  std::vector<Arithmetic> arithmetics{Arithmetic::row, Arithmetic::matrix};
  ScalarKind scalar = ScalarKind::f32;
  std::optional<Policy> tolerance = {};  // replaces the policy in force
  bool prefixes = true;                  // run the checks of this group
  bool schedules = true;                 // likewise
  ScheduleChoice schedule_choice = ScheduleChoice::standard;
  std::uint64_t seed = 1;
  int jobs = 1;
  bool record_all = false;  // every case, not only the worst
  CacheKind cache = {};     // for all checks but operations
  // Of given and random sequences; none: by kWorkPerPrefixMax. Over a whole vocabulary siblings are
  // computed side by side, each from its own tokens.
  std::optional<OracleChoice> oracle = {};
  OperationChoice operations = {};
};

struct SourceOfPrefixes {
  Source source;
  PrefixTree tree;
};

// A model with what is to be walked on it.
struct ModelRun {
  const ModelData& model;
  std::vector<SourceOfPrefixes> sources;  // at least one
  std::vector<Case> stored;               // failures of earlier runs, to be run first
};

// Told of everything as it happens.
class RunListener {
 public:
  virtual ~RunListener() = default;
  // How many checks will be reported, if nothing stops the run.
  virtual void on_start(std::size_t checks) = 0;
  // At once, before anything else is done with the failure; from any thread, one at a time.
  virtual void on_failure(const CaseRecord& record) = 0;
  // A failing sequence of operations was made as small as it would go; likewise.
  virtual void on_smaller(const CaseRecord& /*record*/, const SmallerCase& /*smaller*/) {}
  // In the stated order, from one thread at a time.
  virtual void on_record(const CaseRecord& record) = 0;
  virtual void on_check(const CheckSummary& summary) = 0;
};

// For those who only want the result.
class SilentListener final : public RunListener {
 public:
  void on_start(std::size_t) override {}
  void on_failure(const CaseRecord&) override {}
  void on_record(const CaseRecord&) override {}
  void on_check(const CheckSummary&) override {}
};

struct RunResult {
  Verdict verdict = Verdict::gave_up;  // nothing compared: gave-up
  bool interrupted = false;
  std::vector<CheckSummary> checks;
};

// `stop` ends the run early when it becomes true; what was compared until then is reported.
[[nodiscard]] RunResult run_suite(const SuiteOptions& options, const std::vector<ModelRun>& models,
                                  const EngineFactory& factory, RunListener& listener,
                                  const std::atomic<bool>& stop);

}  // namespace kvcheck
