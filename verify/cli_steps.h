// SPDX-License-Identifier: MIT
// A sequence of operations step by step, as `kvcheck repro` shows it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "verify/operation_run.h"

namespace kvcheck {

// What is shown of one step.
struct ShownStep {
  int step;  // from 0
  std::vector<SeenStep::Sequence> changed;
  std::size_t rows = 0;         // of logits that were compared
  double largest = 0;           // difference in them; NaN stays NaN
  std::optional<int> position;  // where it lies, if there is any
  std::string note;
};

// Takes down every step that it is shown.
class Steps {
 public:
  void add(const SeenStep& seen);
  [[nodiscard]] const std::vector<ShownStep>& shown() const { return shown_; }

 private:
  std::vector<ShownStep> shown_;
};

// Of a longer sequence, the first and the last steps are shown: what differs is at its end.
inline constexpr std::size_t kFirstSteps = 10;
inline constexpr std::size_t kLastSteps = 40;

// A line for each operation and each further sequence that it changed: rows held, the position of
// the next one, and where rows lie in a cache of this kind; what was compared, and what is wrong.
[[nodiscard]] std::string steps_text(const Operations& operations,
                                     const std::vector<ShownStep>& steps, const CacheKind& kind,
                                     const CaseResult& result);

}  // namespace kvcheck
