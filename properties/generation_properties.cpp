// SPDX-License-Identifier: MIT
// What is true of every generation: a cache changes neither the tokens nor why they end, and
// neither does the company in which a request is generated.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "engine/generated.h"
#include "properties/gen.h"
#include "verify/checks.h"
#include "verify/generation.h"
#include "verify/measure.h"

namespace kvcheck {
namespace {

// What a property has looked at so far.
struct Seen {
  int generations = 0;
  int sampled = 0;  // of them
};

CacheKind any_cache() { return *rc::gen::elementOf(cache_kinds()).as("cache"); }

ModelData drawn_model() {
  ModelData model;
  model.name = (*any_model().as("model")).name();
  model.weights = generate_model(model.name);
  return model;
}

// Fails with the line that shows the two runs.
void must_agree(Arithmetic arithmetic, Seen& seen) {
  const ModelData model = drawn_model();
  const EngineSetup setup{ScalarKind::f32, arithmetic, any_cache()};
  const GenerationRequest request = drawn_request(
      model.weights.config, *any_tokens(model.weights.config).as("prompt"), *any_seed().as("seed"));
  Bench bench = make_bench(model, setup, 1, builtin_engine);
  const GenerationTrial trial = try_generation(bench, request);
  static const Schedule none;
  const Measured measured{request.prompt, none, trial.rows, trial.facts, trial.note, trial.tied()};
  const CaseResult result =
      judge_case(default_policy(model, arithmetic, setup.cache.lossy()), measured, setup.scalar);
  ++seen.generations;
  seen.sampled += request.policy.greedy() ? 0 : 1;
  RC_CLASSIFY(trial.tied(), "decided by rounding");
  RC_CLASSIFY(trial.uncached.stop == Stop::eos, "stopped by EOS");
  RC_CLASSIFY(trial.uncached.stop == Stop::context, "stopped by the context");
  if (result.verdict == Verdict::diverge) {
    RC_FAIL(result.note + "; " + generate_line(model.name, setup, request));
  }
}

void every_generation_must_agree(Arithmetic arithmetic) {
  Seen seen;
  EXPECT_TRUE(rc::check([&] { must_agree(arithmetic, seen); }));
  EXPECT_GE(seen.generations, 100);
  EXPECT_GT(seen.sampled, 30);
}

TEST(Generation, is_the_same_with_a_cache_in_row_arithmetic) {
  every_generation_must_agree(Arithmetic::row);
}

TEST(Generation, differs_by_ties_only_in_matrix_arithmetic) {
  every_generation_must_agree(Arithmetic::matrix);
}

RC_GTEST_PROP(Generation, is_the_same_alone_and_in_a_batch, ()) {
  const ModelData model = drawn_model();
  const Config& config = model.weights.config;
  const EngineSetup setup{ScalarKind::f32, Arithmetic::row, any_cache()};
  std::vector<GenerationRequest> requests;
  const int count = *rc::gen::inRange(1, 6).as("requests");
  for (int i = 0; i < count; ++i) {
    requests.push_back(drawn_request(config, *any_tokens(config).as("prompt"), *any_seed()));
    requests.back().join = *rc::gen::inRange(0, 5).as("join");
  }
  Bench bench = make_bench(model, setup, 1, builtin_engine);
  const auto together = generate_batch(*bench.engine, requests, KeepLogits::yes);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const GenerationTrial trial = compare_generation(bench, requests[i], together[i]);
    RC_ASSERT(trial.note == "");
    RC_ASSERT(!trial.first);
  }
}

}  // namespace
}  // namespace kvcheck
