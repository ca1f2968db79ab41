// SPDX-License-Identifier: MIT
// Which known fault a wrong engine has: the case that shows it is run on the built-in engine with
// each fault of the table, and those that answer as the wrong engine does explain it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "verify/fault.h"
#include "verify/transcript.h"

namespace kvcheck {

// A fault that explains what was observed.
struct Explanation {
  FaultVariant fault;
  // Largest difference between what it answers and what was observed, in units of the rounding that
  // the same fault shows between two scalars.
  double error = 0;
};

struct Diagnosis {
  // All that match within the noise limit; they share the first rank. Empty: no known fault
  // explains it.
  std::vector<Explanation> explains;
  int candidates = 0;  // variants that were simulated
  int cases = 0;       // that they were compared on: the one given, and those that part them
  bool right = false;  // the engine without a fault answers as was observed, on all of them
};

struct DiagnosisOptions {
  // Most further cases that the engine is asked for, to part the candidates.
  int further = 24;
  // Random sequences of operations for them; empty: only prefixes.
  std::function<Operations(const OperationSpace&, std::uint64_t seed, std::uint64_t number)> draw =
      {};
};

// `subject` diverges on engines of `factory`. They are simulated in the other arithmetic and in
// double precision only, so that nothing but the fault can make them alike.
[[nodiscard]] Diagnosis diagnose(const Case& subject, const ModelData& model,
                                 const EngineFactory& factory, const DiagnosisOptions& options);

// Whether engines of `factory` answer the case as the built-in one does, but for rounding.
[[nodiscard]] bool answers_rightly(const Case& subject, const ModelData& model,
                                   const EngineFactory& factory);

// One line a fault, or that there is none.
[[nodiscard]] std::string to_text(const Diagnosis& diagnosis);

}  // namespace kvcheck
