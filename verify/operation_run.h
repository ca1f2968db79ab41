// SPDX-License-Identifier: MIT
// Runs a sequence of operations on an engine, beside the log of what every sequence was fed: each
// row that is answered against the oracle's, and after each operation what every sequence holds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "verify/facts.h"
#include "verify/operation_space.h"
#include "verify/probes.h"
#include "verify/token_log.h"

namespace kvcheck {

// The oracle of a log, in the scalar and arithmetic of an engine.
class LogOracle {
 public:
  virtual ~LogOracle() = default;
  virtual void logits(std::span<const LoggedRow> log, int answered, Logits& out) = 0;
};
[[nodiscard]] std::unique_ptr<LogOracle> make_log_oracle(HeldModel model, ScalarKind scalar,
                                                         Arithmetic arithmetic);

// What was seen of one step, for those who want to see every one.
struct SeenStep {
  int step;  // from 0
  const Operation& operation;
  struct Sequence {
    int handle;
    Held held;
    Places places;
  };
  std::vector<Sequence> changed;
  std::span<const MeasuredRow> rows;
  std::string note;  // what is wrong, or why the engine refused
};

// One who sees every operation before the engine does, and after it. An exception ends the run and
// passes through it.
class OperationWitness {
 public:
  struct At {
    int step;  // from 0
    const Operation& operation;
    const OperationStep& meaning;
    const TokenLog& log;                    // of what is held after the operation
    const std::vector<SequenceId>& engine;  // [handle]: the engine's name, as far as it has one
    const Logits* answer = nullptr;         // to a feed, after it
  };
  virtual ~OperationWitness() = default;
  virtual void before(const At& at) = 0;
  virtual void after(const At& at) = 0;
};

// In longer contexts operations keep to the first positions: the log of what every row saw grows
// with the square of a sequence.
inline constexpr int kOperationPositionsMax = 128;

// The verbs that an engine offers, and what that leaves to be drawn on a model.
[[nodiscard]] VerbSet verbs_of(const Capabilities& can);
[[nodiscard]] OperationSpace operation_space(const Config& config, const CacheKind& kind,
                                             const Capabilities& can);

class OperationRunner {
 public:
  using Watcher = std::function<void(const SeenStep&)>;

  OperationRunner(const ModelData& model, const EngineSetup& setup, const Policy& policy,
                  std::uint64_t seed, const EngineFactory& factory,
                  Floors floors = Floors::measured);

  // On a new engine. The first step that diverges or breaks the engine ends it.
  [[nodiscard]] CaseResult run(const Operations& operations, const Watcher& watch = {});
  // Of the runs from now on; null: none. Refused operations are not shown.
  void show_to(OperationWitness* witness) { witness_ = witness; }
  // The worst row of the last run, with both rows of logits, and the scalar that decided.
  [[nodiscard]] const std::optional<MeasuredRow>& worst() const { return worst_; }
  [[nodiscard]] const OperationSpace& space() const { return space_; }
  [[nodiscard]] const Loss& loss() const { return loss_; }                 // of all runs so far
  [[nodiscard]] std::int64_t refusals() const { return refusals_; }        // likewise
  [[nodiscard]] std::int64_t reused_rows() const { return reused_rows_; }  // by prompts, likewise
  [[nodiscard]] const InvariantCounts& invariants() const { return invariants_; }  // likewise
  // What was asked for in the last run and not refused, up to the step that ended it.
  [[nodiscard]] const Operations& executed() const { return executed_; }

 private:
  struct Sequence {
    SequenceId id = 0;
    std::uint64_t fingerprint = 0;
    int peak = 0;  // most rows since it held none: what a ring has overwritten
  };
  struct Saved {
    State state;
    std::uint64_t fingerprint;
    int peak;
  };

  // The rows of a step that one sequence was fed, and what their floors are measured from: the
  // tokens of the sequence, or its log if it is not plain.
  struct FedRows {
    std::size_t first;  // of the rows of the step
    std::size_t count;
    std::vector<int> tokens;
    std::vector<LoggedRow> log;
    double ratio_most = 0;  // at the smallest floors that the rows may have
  };
  // A step whose rows agree whatever the floors of some of them are. These are measured only where
  // one of them may be the worst row of the run.
  struct OpenStep {
    int index;
    int facts;
    std::vector<MeasuredRow> rows;
    std::vector<FedRows> unmeasured;
  };
  struct OpenRows {
    OpenStep* step;
    FedRows* fed;
  };
  // Rows first .. first + count - 1 of what an engine answered.
  struct AnsweredRows {
    const Logits& logits;
    int first;
    int count;
  };

  void take_step(int index, const Operation& operation, const Watcher& watch);
  bool refused(const Operation& operation);
  [[nodiscard]] bool must_refuse(int handle, int length);
  void end_with(Verdict verdict, Mark mark, std::string note, int step);
  void execute(const Operation& operation, const OperationStep& step);
  void feed(const OperationStep& step);
  void compare_feed(const FedTokens& fed, int first, int count);
  [[nodiscard]] FedRows compare(const TokenLog& log, int handle, const AnsweredRows& answered,
                                std::vector<MeasuredRow>& out);
  void reference(const FedRows& fed);
  void measure_floors(const FedRows& fed, std::span<MeasuredRow> rows,
                      const EnoughFloors& enough = {});
  [[nodiscard]] bool may_wait(FedRows& fed);
  void close_steps();
  [[nodiscard]] OpenRows most_open();
  void add_loss(const std::vector<int>& tokens, int count, int first);
  void new_facts();
  // `untouched`: of which invariant it is that what did not change did not.
  void look_at_sequences(const Operation& operation, const OperationStep& step,
                         Invariant untouched);
  void look_through_a_copy(int handle, Invariant untouched,
                           const std::function<std::string()>& when);
  // `before`: the operation's sequences as they were, in its order.
  void expect_copies(const Operation& operation, const OperationStep& step,
                     const std::vector<Sequence>& before);
  [[nodiscard]] std::vector<Sequence> sequences(const std::vector<int>& handles);
  [[nodiscard]] std::vector<SequenceId> sequence_ids() const;
  void carry_peaks(const Operation& operation, const OperationStep& step,
                   const std::vector<Sequence>& before);
  [[nodiscard]] Policy policy_of(bool renumbered) const;
  void judge_step(int index, bool renumbered);
  void take_result(CaseResult judged, std::optional<MeasuredRow> row, const Policy& policy);
  [[nodiscard]] std::optional<MeasuredRow> worst_of(const Policy& policy,
                                                    const Measured& measured) const;
  void finish(int steps);
  [[nodiscard]] Sequence& at(int handle) { return sequences_[static_cast<std::size_t>(handle)]; }

  const ModelData& model_;
  const EngineSetup setup_;
  const Policy policy_;
  const std::uint64_t seed_;
  const EngineFactory factory_;
  std::unique_ptr<NoiseMeter> noise_;
  std::unique_ptr<LogOracle> log_oracle_;
  std::unique_ptr<Engine> whole_;  // rounds nothing; only beside an engine that does
  OperationSpace space_;
  OperationWitness* witness_ = nullptr;

  // Of the run at hand.
  std::unique_ptr<Engine> engine_;
  std::optional<TokenLog> log_;
  std::vector<Sequence> sequences_;  // [handle]
  std::vector<Saved> saved_;
  Operations executed_;
  bool any_refused_ = false;
  CaseResult result_;
  std::optional<MeasuredRow> worst_;
  bool ended_ = false;
  bool watched_ = false;  // somebody wants to see the floors of every step
  std::vector<OpenStep> open_steps_;

  // Of the step at hand.
  Facts facts_;
  std::vector<MeasuredRow> rows_;
  std::vector<FedRows> unmeasured_;  // of them
  bool renumbered_ = false;          // some row of a feed saw keys that were rotated once more
  Logits answer_, expected_, unrounded_, probed_;
  std::vector<NoiseFloor> floors_;
  std::vector<Feed> feeds_;

  Loss loss_;
  std::int64_t refusals_ = 0;
  std::int64_t reused_rows_ = 0;
  InvariantCounts invariants_;  // but those of the step at hand
};

}  // namespace kvcheck
