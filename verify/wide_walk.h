// SPDX-License-Identifier: MIT
// The cases of a probe once more in float64: what was too ill-conditioned for float32, or differs
// by rounding, is decided there. A few cases are run alone faster; many are answered by one walk.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "verify/probes.h"
#include "verify/shared_oracle.h"

namespace kvcheck {

class WideWalk {
 public:
  // Cases asked for that are left to be run alone.
  static constexpr int kAlone = 16;

  // What `function` probes of `tree` by `setup`, but in float64; each case is judged by each of the
  // policies. `oracle` may be null.
  struct Plan {
    const ModelData& model;
    EngineSetup setup;
    std::uint64_t seed = 1;
    EngineFactory factory;
    SharedOracle* oracle = nullptr;
    ProbeFunction function = nullptr;
    const PrefixTree& tree;
    std::vector<Policy> policies;
  };
  explicit WideWalk(Plan plan) : plan_(std::move(plan)) {}

  // What one of the policies says of a case; null if it should be run alone: one of the first
  // kAlone, or one that the walk did not come to, because the engine failed before.
  [[nodiscard]] const CaseResult* find(const Policy& policy, const Measured& measured);

 private:
  void walk();

  const Plan plan_;
  int asked_ = 0;
  // [policies], once the walk was made.
  std::optional<std::map<std::pair<std::vector<int>, Schedule>, std::vector<CaseResult>>> results_;
};

}  // namespace kvcheck
