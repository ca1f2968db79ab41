// SPDX-License-Identifier: MIT
// What decoding costs, counted: the engine itself, in row arithmetic, runs a phase with numbers
// that note every operation (counted.h). cost.h says what the counts are and gives the formulas
// that they must equal.
#pragma once

#include <memory>
#include <vector>

#include "engine/cost.h"
#include "engine/model.h"

namespace kvcheck {

struct CountedPhase {
  PhaseWork work;
  RowTraffic rows;  // as the plan of the step has it
  std::vector<double> logits;
};

// Runs phases of one model with tokens of its own choice.
class WorkCounter {
 public:
  explicit WorkCounter(const Model<float>& model);
  ~WorkCounter();
  WorkCounter(const WorkCounter&) = delete;
  WorkCounter& operator=(const WorkCounter&) = delete;

  // Throws Error for a phase that does not fit the context.
  [[nodiscard]] CountedPhase count(const Phase& phase);

  // Token `index` of every sequence `sequence`.
  [[nodiscard]] int token(std::int64_t sequence, std::int64_t index) const;

 private:
  class Decoders;
  std::unique_ptr<Decoders> decoders_;
};

}  // namespace kvcheck
