// SPDX-License-Identifier: MIT
// What the tests of the harness share: small models, engines with planted faults, and a listener
// that writes down everything it is told.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/generated.h"
#include "verify/models.h"
#include "verify/suite.h"

namespace kvcheck {

// ---- Models

[[nodiscard]] ModelData model_of(std::string name, Model<float> weights);
// 2 layers, learned positions, 3 tokens, context 4: 3 + 9 + 27 + 81 = 120 prefixes.
[[nodiscard]] Config small_config();
[[nodiscard]] ModelData small_model();
// Wide enough for whole-matrix products whose order of adding depends on how many rows there are.
[[nodiscard]] ModelData wide_model();
// Embeddings that differ from 1 by little, so that the first norm scales their rounding up: every
// row is too ill-conditioned for float32.
[[nodiscard]] ModelData ill_conditioned_model();
[[nodiscard]] bool has_bundled(std::string_view name);

// All prefixes, or those of `count` random sequences of the seed 1.
[[nodiscard]] ModelRun whole_run(const ModelData& model);
[[nodiscard]] ModelRun random_run(const ModelData& model, int count);

// ---- Engines

// Called instead of a verb of the engine inside; an empty one leaves the verb as it is.
struct Hooks {
  std::function<SequenceId(Engine&)> open = {};
  std::function<void(Engine&, const TokenBlock&, Rows, Logits&)> full = {};
  std::function<void(Engine&, std::span<const Feed>, Rows, Logits&)> feed = {};  // and batch
  std::function<void(Engine&, SequenceId, int)> truncate = {};
  std::function<SequenceId(Engine&, SequenceId)> fork = {};
  std::function<void(Engine&, std::span<const SequenceId>, std::span<const int>)> reorder = {};
  std::function<SequenceId(Engine&, std::span<const std::byte>)> load = {};
  std::function<void(Engine&, SequenceId, int, int)> shift = {};
  std::function<void(Engine&, SequenceId, int, int)> evict = {};
  std::function<Held(const Engine&, SequenceId)> held = {};
  std::function<void(Capabilities&)> can = {};  // what it says of itself
};

class HookedEngine final : public Engine {
 public:
  HookedEngine(std::unique_ptr<Engine> inner, Hooks hooks)
      : inner_(std::move(inner)), hooks_(std::move(hooks)), hello_(inner_->hello()) {
    if (hooks_.can) hooks_.can(hello_.can);
  }

  [[nodiscard]] const Hello& hello() const override { return hello_; }
  void full(const TokenBlock& block, Rows rows, Logits& out) override;
  [[nodiscard]] SequenceId open() override;
  void close(SequenceId sequence) override { inner_->close(sequence); }
  void feed(SequenceId sequence, std::span<const int> tokens, Rows rows, Logits& out) override;
  void batch(std::span<const Feed> feeds, Rows rows, Logits& out) override;
  void truncate(SequenceId sequence, int length) override;
  [[nodiscard]] SequenceId fork(SequenceId sequence) override;
  void reorder(std::span<const SequenceId> sequences, std::span<const int> from) override;
  [[nodiscard]] State save(SequenceId sequence) override { return inner_->save(sequence); }
  [[nodiscard]] SequenceId load(std::span<const std::byte> state) override;
  void shift(SequenceId sequence, int from, int to) override;
  void evict(SequenceId sequence, int keep, int drop) override;
  [[nodiscard]] int lookup(std::span<const int> tokens) override { return inner_->lookup(tokens); }
  [[nodiscard]] Held held(SequenceId sequence) const override;
  [[nodiscard]] Places places(SequenceId sequence) const override {
    return inner_->places(sequence);
  }
  [[nodiscard]] std::uint64_t fingerprint(SequenceId sequence) const override {
    return inner_->fingerprint(sequence);
  }

 private:
  std::unique_ptr<Engine> inner_;
  Hooks hooks_;
  Hello hello_;
};

// The built-in engine with these hooks.
[[nodiscard]] EngineFactory hooked(Hooks hooks);
// The logit of token 0 of row `row` of an answer.
[[nodiscard]] double& first_logit(Logits& logits, int row);

// Positions one too large in every row but a sequence's first; they wrap at the context.
[[nodiscard]] EngineFactory positions_plus_one();
// Keys and values rounded to half precision before they are stored.
[[nodiscard]] EngineFactory half_precision_rows();

// A wrong engine, and who must see it. Checks that are not named must agree: a check that
// complains about everything is no check.
struct PlantedFault {
  std::string_view id;
  EngineFactory factory;
  bool on_prefixes;   // seen by the probe of single steps and all that re-judge it
  bool on_schedules;  // by the schedules
  bool on_causality;
  bool on_accounting;

  [[nodiscard]] bool seen_by(std::string_view check) const;
};
[[nodiscard]] std::vector<PlantedFault> planted_faults();

// ---- What a run says

// How a failing expectation shows it.
inline void PrintTo(Verdict verdict, std::ostream* out) { *out << name(verdict); }
inline void PrintTo(Mark mark, std::ostream* out) { *out << name(mark); }

// All that a value says, numbers in a form that tells all of their bits; without seconds.
[[nodiscard]] std::string describe(const CaseResult& result);
[[nodiscard]] std::string describe(const CaseRecord& record);
[[nodiscard]] std::string describe(const CheckSummary& summary);

class Collector final : public RunListener {
 public:
  void on_start(std::size_t checks) override { announced = checks; }
  void on_failure(const CaseRecord& record) override { failures.push_back(record); }
  void on_record(const CaseRecord& record) override;
  void on_check(const CheckSummary& summary) override;

  // Throws if the check was not reported.
  [[nodiscard]] const CheckSummary& summary(std::string_view check) const;
  [[nodiscard]] std::vector<CaseRecord> records_of(std::string_view check) const;

  std::size_t announced = 0;
  std::vector<CaseRecord> failures;
  std::vector<CaseRecord> records;
  std::vector<CheckSummary> summaries;
  std::string text;  // of the records and summaries in the order in which they came
};

// One thread, seed 1, this arithmetic.
[[nodiscard]] SuiteOptions options_for(Arithmetic arithmetic);
// Runs the suite, never stopped.
[[nodiscard]] RunResult run_on(const SuiteOptions& options, const ModelRun& run,
                               const EngineFactory& factory, Collector& collector);

}  // namespace kvcheck
