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
#include "verify/hooked_engine.h"
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
  bool on_generation = false;  // besides those that the prefixes show

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
