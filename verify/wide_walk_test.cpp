// SPDX-License-Identifier: MIT
// What the walk says of a case is what the case comes to when it is run alone in float64.
#include "verify/wide_walk.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/error.h"
#include "engine/generated.h"
#include "verify/hooked_engine.h"
#include "verify/measure.h"
#include "verify/replay.h"
#include "verify/test_faults.h"

namespace kvcheck {
namespace {

constexpr EngineSetup kNarrow{ScalarKind::f32, Arithmetic::matrix};

// Wrong by `more` in the first row of each batch whose first sequence then holds two tokens.
EngineFactory moved_by(double more) {
  return [more](const ModelData& model, const EngineSetup& setup) {
    Hooks hooks;
    hooks.feed = [more](Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
      inner.batch(feeds, rows, out);
      if (inner.held(feeds[0].sequence).rows == 2) first_logit(out, 0) += more;
    };
    return std::make_unique<HookedEngine>(builtin_engine(model, setup), std::move(hooks));
  };
}

WideWalk walk_of(const ModelData& model, const PrefixTree& tree, const EngineFactory& factory,
                 std::vector<Policy> policies) {
  return WideWalk({.model = model,
                   .setup = kNarrow,
                   .factory = factory,
                   .function = probe_prefixes,
                   .tree = tree,
                   .policies = std::move(policies)});
}

struct Asked {
  std::vector<int> tokens;
  std::optional<CaseResult> found;
};

// Asks for every case of the probe, in its order.
std::vector<Asked> ask(const ModelData& model, const EngineFactory& factory) {
  const PrefixTree tree = PrefixTree::all(model.weights.config);
  WideWalk wide = walk_of(model, tree, factory, {Exact{}, NoiseLimit{}});
  Bench bench = make_bench(model, kNarrow, 1, builtin_engine);
  std::vector<Asked> asked;
  probe_prefixes(bench, {.tree = tree}, [&](const Measured& measured) {
    const CaseResult* const found = wide.find(NoiseLimit{}, measured);
    asked.push_back({{measured.tokens.begin(), measured.tokens.end()},
                     found ? std::optional(*found) : std::nullopt});
  });
  return asked;
}

TEST(WideWalk, says_what_a_case_comes_to_alone) {
  const ModelData model = small_model();
  for (const double more : {0.0, 1e-3}) {
    const EngineFactory factory = moved_by(more);
    int failed = 0;
    int found = 0;
    for (const Asked& one : ask(model, factory)) {
      const Case subject{.check = "noise",
                         .model = model.name,
                         .model_hash = short_hash(model),
                         .scalar = ScalarKind::f64,
                         .arithmetic = Arithmetic::matrix,
                         .policy = NoiseLimit{},
                         .siblings = true,
                         .tokens = one.tokens,
                         .schedule = Schedule(one.tokens.size(), 1)};
      if (!one.found) continue;
      ++found;
      const CaseResult alone = run_case(subject, model, factory).result;
      EXPECT_EQ(describe(*one.found), describe(alone));
      if (alone.verdict == Verdict::diverge) ++failed;
    }
    EXPECT_EQ(found, 120 - WideWalk::kAloneMin);
    EXPECT_EQ(failed > 0, more > 0);
  }
}

TEST(WideWalk, leaves_the_first_cases_to_be_run_alone) {
  const std::vector<Asked> asked = ask(small_model(), builtin_engine);
  ASSERT_EQ(asked.size(), 120U);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    EXPECT_EQ(asked[i].found.has_value(), static_cast<std::int64_t>(i) >= WideWalk::kAloneMin) << i;
  }
}

TEST(WideWalk, what_it_did_not_come_to_is_run_alone) {
  const EngineFactory breaks = [](const ModelData& model, const EngineSetup& setup) {
    Hooks hooks;
    hooks.full = [](Engine& inner, const TokenBlock& block, Rows rows, Logits& out) {
      if (block.length() == 4 && block.tokens[0] == 2) throw EngineError("out of paper");
      inner.full(block, rows, out);
    };
    return std::make_unique<HookedEngine>(builtin_engine(model, setup), std::move(hooks));
  };
  const std::vector<Asked> asked = ask(small_model(), breaks);
  EXPECT_TRUE(asked[79].found) << "the last one that begins with 1";
  EXPECT_FALSE(asked.back().found);
}

TEST(WideWalk, an_engine_that_does_not_start_in_float64_is_run_alone) {
  const EngineFactory narrow_only = [](const ModelData& model, const EngineSetup& setup) {
    if (setup.scalar == ScalarKind::f64) throw EngineError("no float64");
    return builtin_engine(model, setup);
  };
  for (const Asked& one : ask(small_model(), narrow_only)) EXPECT_FALSE(one.found);
}

// How often it leaves a case to be run alone, of 1,000 questions, over so many tokens of context.
int left_alone(int context) {
  Config config = small_config();
  config.context = context;
  const ModelData model = model_of("longer", random_model(config, {}, 1));
  const PrefixTree tree = PrefixTree::all(config);
  WideWalk wide = walk_of(model, tree, builtin_engine, {Exact{}});
  const std::vector<int> tokens{0};
  const Schedule schedule{1};
  int alone = 0;
  while (alone < 1000 && wide.find(Exact{}, {tokens, schedule, {}}) == nullptr) ++alone;
  return alone;
}

TEST(WideWalk, leaves_more_cases_to_be_run_alone_the_longer_it_would_take) {
  EXPECT_EQ(left_alone(4), 16) << "of 120 prefixes";
  EXPECT_EQ(left_alone(8), 38) << "of 9,840: one in 256";
  EXPECT_EQ(left_alone(9), 1000) << "of 29,523, which are too many";
}

TEST(WideWalk, knows_its_policies_only) {
  const ModelData model = small_model();
  const PrefixTree tree = PrefixTree::all(model.weights.config);
  WideWalk wide = walk_of(model, tree, builtin_engine, {Exact{}});
  const Schedule schedule;
  EXPECT_THROW((void)wide.find(NoiseLimit{}, {{}, schedule, {}}), InternalError);
}

}  // namespace
}  // namespace kvcheck
