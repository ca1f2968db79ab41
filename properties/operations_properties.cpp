// SPDX-License-Identifier: MIT
// What is true of all sequences of operations on all models: every kind of cache answers as the
// oracle of what was fed, and what a run draws reaches all that there is to reach.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/builtin.h"
#include "engine/generated.h"
#include "properties/gen.h"
#include "properties/operations_gen.h"
#include "verify/models.h"
#include "verify/operation_coverage.h"
#include "verify/test_canaries.h"
#include "verify/test_faults.h"

namespace kvcheck {
namespace {

using ::testing::IsEmpty;

ModelData any_small_model() {
  if (*rc::gen::arbitrary<bool>()) return load_model((*any_model().as("model")).name());
  const Config config = *any_config().as("config");
  return model_of("any", random_model(config, WeightScales{}, *any_seed().as("weights")));
}

CacheKind any_cache_kind(const Config& config) {
  std::vector<std::string> names{"paged:1", fmt::format("paged:{}", config.context)};
  for (const CacheKind& kind : all_cache_kinds()) names.push_back(name(kind));
  return cache_kind(*rc::gen::elementOf(names).as("cache kind"), "test");
}

// Four sequences each, as most of the time goes into making the model.
RC_GTEST_PROP(Operations, agree_on_any_model_in_any_kind_of_cache, ()) {
  const ModelData model = any_small_model();
  const CacheKind kind = any_cache_kind(model.weights.config);
  const bool row = *rc::gen::arbitrary<bool>().as("row arithmetic");
  Case subject = operations_case(model, kind, "open", row ? Arithmetic::row : Arithmetic::matrix);
  if (*rc::gen::arbitrary<bool>().as("float64")) subject.scalar = ScalarKind::f64;
  OperationRunner runner = runner_of(subject, model, builtin_engine);
  for (int i = 0; i < 4; ++i) {
    subject.operations = *any_operations(runner.space()).as("operations");
    CaseResult result = runner.run(subject.operations);
    // What is too ill-conditioned is decided as a run would.
    if (result.mark == Mark::gated) result = run_case(subject, model, builtin_engine).result;
    const bool undecided = result.verdict == Verdict::gave_up && result.mark == Mark::gated;
    RC_CLASSIFY(undecided, "undecided");
    if (undecided || result.verdict == Verdict::agree) continue;
    RC_FAIL(to_text(subject.operations) + " in " + name(kind) + ": " + result.note);
  }
}

// ---- What a run reaches. Names that are missing here are never checked.

// As many as `kvcheck verify` runs on its 22 models.
constexpr std::uint64_t kSequences = 22 * 16;

OperationCoverage coverage_of_run(const OperationSpace& space, std::uint64_t count) {
  OperationCoverage sum;
  for (std::uint64_t index = 0; index < count; ++index) {
    sum += coverage_of(random_operations(space, 1, index), space);
  }
  return sum;
}

class CoverageOf : public ::testing::TestWithParam<CacheKind> {
 protected:
  const Config config_ = two_window_model().weights.config;
  const OperationSpace space_ =
      operation_space(config_, GetParam(), builtin_capabilities(config_, GetParam()));
};

TEST_P(CoverageOf, is_whole_after_as_many_sequences_as_a_run_has) {
  EXPECT_THAT(missing(coverage_of_run(space_, kSequences), space_), IsEmpty());
}

// No verb and no edge that can be reached is seldom: one in a hundred operations, one in fifty
// sequences.
TEST_P(CoverageOf, has_its_share_of_everything) {
  const OperationCoverage c = coverage_of_run(space_, kSequences);
  for (int i = 0; i < kVerbs; ++i) {
    const Verb verb = static_cast<Verb>(i);
    if (!possible(verb, space_)) continue;
    EXPECT_GE(c.of(verb) * 100, c.operations) << name(verb);
  }
  for (int i = 0; i < kEdges; ++i) {
    const Edge edge = static_cast<Edge>(i);
    if (!possible(edge, space_)) continue;
    EXPECT_GE(c.of(edge) * 50, c.sequences) << name(edge);
  }
}

// The space of a kind holds the edges that are its own.
TEST_P(CoverageOf, is_about_the_edges_of_the_kind) {
  EXPECT_EQ(space_.window, 4);
  EXPECT_EQ(possible(Edge::at_block, space_),
            GetParam().layout == CacheLayout::paged && GetParam().block < config_.context);
  EXPECT_EQ(possible(Verb::shift, space_),
            GetParam().layout != CacheLayout::ring && !GetParam().lossy());
}

INSTANTIATE_TEST_SUITE_P(All, CoverageOf, ::testing::ValuesIn(all_cache_kinds()),
                         [](const auto& param) {
                           std::string text = name(param.param);
                           std::ranges::replace(text, ':', '_');
                           std::ranges::replace(text, '-', '_');
                           return text;
                         });

}  // namespace
}  // namespace kvcheck
