// SPDX-License-Identifier: MIT
// Walking a probe in float64.
#include "verify/wide_walk.h"

#include <algorithm>
#include <limits>

#include "engine/error.h"
#include "verify/measure.h"

namespace kvcheck {

WideWalk::WideWalk(Plan plan) : plan_(std::move(plan)) {
  const std::int64_t prefixes = plan_.tree.count();
  alone_ = prefixes > kPrefixesOfWalkMax ? std::numeric_limits<std::int64_t>::max()
                                         : std::max(kAloneMin, prefixes / kAloneShare);
}

const CaseResult* WideWalk::find(const Policy& policy, const Measured& measured) {
  const auto asked = std::ranges::find(plan_.policies, policy);
  require(asked != plan_.policies.end(), "a policy of the walk");
  if (alone_ > 0) {
    --alone_;
    return nullptr;
  }
  if (!results_) walk();
  const auto found =
      results_->find({{measured.tokens.begin(), measured.tokens.end()}, measured.schedule});
  if (found == results_->end()) return nullptr;
  return &found->second[static_cast<std::size_t>(asked - plan_.policies.begin())];
}

void WideWalk::walk() {
  results_.emplace();
  EngineSetup setup = plan_.setup;
  setup.scalar = ScalarKind::f64;
  try {
    Bench bench = make_bench(plan_.model, setup, plan_.seed, plan_.factory);
    if (plan_.oracle) bench.noise = plan_.oracle->around(std::move(bench.noise), setup);
    walk_on(bench);
  } catch (const EngineError&) {
    // An engine that does not start fails in each case that is run alone.
  }
}

void WideWalk::walk_on(Bench& bench) {
  // A failure ends the walk: what comes after it is run alone, and fails there.
  (void)run_probe(plan_.function, bench, {.tree = plan_.tree}, [&](const Measured& measured) {
    std::vector<CaseResult>& results =
        (*results_)[{{measured.tokens.begin(), measured.tokens.end()}, measured.schedule}];
    for (const Policy& policy : plan_.policies) {
      results.push_back(judge_case(policy, measured, ScalarKind::f64));
    }
  });
}

}  // namespace kvcheck
