// SPDX-License-Identifier: MIT
// The cases of a probe once more in float64: what was too ill-conditioned for float32, or differs
// by rounding, is decided there. A few cases are run alone faster; many are answered by one walk.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "verify/probes.h"
#include "verify/shared_oracle.h"

namespace kvcheck {

class WideWalk {
 public:
  // A case alone, on an engine of its own, takes the time of some 250 cases of a walk (0.5 ms
  // against 2 us on the frozen models): a walk pays once one in so many is asked for.
  static constexpr std::int64_t kAloneShare = 256;
  static constexpr std::int64_t kAloneMin = 16;
  // Of more prefixes no walk is made, which would hold a result for each.
  static constexpr std::int64_t kPrefixesOfWalkMax = 20'000;

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
  explicit WideWalk(Plan plan);

  // What one of the policies says of a case; null if it should be run alone: one of the first few
  // that are asked for, or one that the walk did not come to, because the engine failed before.
  [[nodiscard]] const CaseResult* find(const Policy& policy, const Measured& measured);

 private:
  void walk();
  void walk_on(Bench& bench);

  const Plan plan_;
  std::int64_t alone_;  // questions that are still left to be answered alone
  // [policies], once the walk was made.
  std::optional<std::map<std::pair<std::vector<int>, Schedule>, std::vector<CaseResult>>> results_;
};

}  // namespace kvcheck
