// SPDX-License-Identifier: MIT
// Trials of generation: what is the same, what differs, what is a tie, and whose fault it is.
#include "verify/generation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "engine/error.h"
#include "engine/generated.h"
#include "verify/hooked_engine.h"
#include "verify/models.h"
#include "verify/test_faults.h"

namespace kvcheck {
namespace {

Bench bench_of(const ModelData& model, Arithmetic arithmetic,
               const EngineFactory& factory = builtin_engine) {
  return make_bench(model, {ScalarKind::f32, arithmetic}, 1, factory);
}

// What a feed answers, changed.
EngineFactory answering(const std::function<void(Logits&)>& change) {
  Hooks hooks;
  hooks.feed = [change](Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
    inner.batch(feeds, rows, out);
    change(out);
  };
  return hooked(hooks);
}

const GenerationRequest kRequest{.prompt = {0, 1}};

TEST(Generation, agrees_in_both_arithmetics) {
  const ModelData model = small_model();
  for (const Arithmetic arithmetic : {Arithmetic::row, Arithmetic::matrix}) {
    Bench bench = bench_of(model, arithmetic);
    const GenerationTrial trial = try_generation(bench, kRequest);
    EXPECT_EQ(trial.note, "");
    EXPECT_FALSE(trial.first);
    EXPECT_FALSE(trial.tied());
    EXPECT_EQ(trial.rows.size(), 3U);  // positions 1 to 3 of a context of 4
    EXPECT_EQ(trial.rows.back().position, 3);
    EXPECT_GT(trial.facts, 30);
    for (const MeasuredRow& row : trial.rows) {
      EXPECT_EQ(row.floor.has_value(), arithmetic == Arithmetic::matrix);
    }
  }
}

TEST(Generation, keeps_rows_only_when_asked) {
  const ModelData model = small_model();
  Bench bench = bench_of(model, Arithmetic::row);
  EXPECT_TRUE(try_generation(bench, kRequest).rows[0].cached.empty());
  bench.keep_rows = true;
  const GenerationTrial trial = try_generation(bench, kRequest);
  EXPECT_EQ(trial.rows[0].cached, trial.cached.logits[0]);
  EXPECT_EQ(trial.rows[0].uncached, trial.uncached.logits[0]);
}

// The tokens of the lowest logits are the largest ones.
TEST(Generation, that_differs_says_where_and_why) {
  const ModelData model = small_model();
  for (const Arithmetic arithmetic : {Arithmetic::row, Arithmetic::matrix}) {
    Bench bench = bench_of(model, arithmetic, answering([](Logits& out) {
                             for (double& logit : out.values) logit = -logit;
                           }));
    const GenerationTrial trial = try_generation(bench, kRequest);
    EXPECT_EQ(trial.first, 0);
    EXPECT_EQ(trial.rows.size(), 1U);
    EXPECT_EQ(trial.rows[0].floor.has_value(), true) << "measured where rows differ";
    ASSERT_TRUE(trial.decision);
    // In matrix arithmetic whoever judges the rows has to say it.
    EXPECT_EQ(trial.note.find("step 1: token "),
              arithmetic == Arithmetic::row ? 0 : trial.note.npos)
        << trial.note;
    const Measured measured{kRequest.prompt, {}, trial.rows, trial.facts, trial.note, trial.tied()};
    EXPECT_EQ(judge_case(NoiseLimit{}, measured, ScalarKind::f32).verdict, Verdict::diverge);
  }
}

// Two logits that a change of a millionth brings into another order.
TEST(Generation, in_matrix_arithmetic_may_differ_by_a_tie) {
  const ModelData model = small_model();
  Hooks hooks;
  hooks.full = [](Engine& inner, const TokenBlock& block, Rows rows, Logits& out) {
    inner.full(block, rows, out);
    first_logit(out, 0) = 10;
    out.values[1] = 10 - 1e-6;
  };
  hooks.feed = [](Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
    inner.batch(feeds, rows, out);
    out.values[0] = 10 - 1e-6;
    out.values[1] = 10;
  };
  Bench matrix = bench_of(model, Arithmetic::matrix, hooked(hooks));
  matrix.noise = nullptr;
  const GenerationTrial tie = try_generation(matrix, kRequest);
  EXPECT_EQ(tie.note, "");
  EXPECT_EQ(tie.first, 0);
  EXPECT_TRUE(tie.tied());
  static const Schedule none;
  const Measured measured{kRequest.prompt, none, tie.rows, tie.facts, tie.note, tie.tied()};
  const CaseResult result = judge_case(AbsLimit{1}, measured, ScalarKind::f32);
  EXPECT_EQ(result.verdict, Verdict::agree);
  EXPECT_EQ(result.mark, Mark::tie);
  Bench row = bench_of(model, Arithmetic::row, hooked(hooks));
  row.noise = nullptr;
  EXPECT_FALSE(try_generation(row, kRequest).tied());
}

TEST(Generation, whose_cached_row_is_no_row_of_logits_differs) {
  const ModelData model = small_model();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Bench bench = bench_of(model, Arithmetic::row, answering([=](Logits& out) {
                           for (double& logit : out.values) logit = nan;
                         }));
  const GenerationTrial trial = try_generation(bench, kRequest);
  EXPECT_EQ(trial.note,
            "with the cache: logits: NaN or +inf, from which no token can be chosen; not so "
            "without");
  // Of the oracle it is the engine that is broken.
  Hooks hooks;
  hooks.full = [=](Engine& inner, const TokenBlock& block, Rows rows, Logits& out) {
    inner.full(block, rows, out);
    out.values[0] = nan;
  };
  Bench broken = bench_of(model, Arithmetic::row, hooked(hooks));
  EXPECT_THROW((void)try_generation(broken, kRequest), BadLogits);
}

TEST(Generation, whose_accounts_are_wrong_names_the_invariant) {
  const ModelData model = small_model();
  Hooks hooks;
  hooks.held = [](const Engine& inner, SequenceId sequence) {
    Held held = inner.held(sequence);
    ++held.next_position;
    return held;
  };
  Bench bench = bench_of(model, Arithmetic::row, hooked(hooks));
  EXPECT_EQ(try_generation(bench, kRequest).note,
            "with a cache: invariant next-position-is-length violated at step 1: next position = "
            "rows in the cache, expected 2, got 3");
}

// ---- What is drawn

TEST(DrawnRequest, depends_on_prompt_and_seed_and_is_of_every_kind) {
  const Config config = small_model().weights.config;
  const std::vector<int> prompt{0, 1};
  EXPECT_EQ(drawn_request(config, prompt, 1), drawn_request(config, prompt, 1));
  std::set<std::string> policies;
  int eos = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const GenerationRequest request = drawn_request(config, prompt, seed);
    validate(request, config, "drawn");
    policies.insert(to_text(request.policy));
    eos += request.eos ? 1 : 0;
  }
  EXPECT_GT(policies.size(), 100U);
  for (const char* part : {"greedy", "top-k", "top-p", "min-p", "penalty", "temperature"}) {
    EXPECT_TRUE(std::ranges::any_of(policies, [&](const std::string& policy) {
      return policy.find(part) != policy.npos;
    })) << part;
  }
  EXPECT_GT(eos, 100);
  EXPECT_LT(eos, 300);
}

TEST(RandomGeneration, is_a_line_that_says_everything) {
  GenerationRequest request{.prompt = {0, 2}, .steps = 3, .eos = 1, .seed = 7};
  request.policy = parse_decoding("top-k:3", 8, "test");
  EXPECT_EQ(generate_line("gen:plain:2", {ScalarKind::f64, Arithmetic::matrix, {}}, request),
            "kvcheck generate gen:plain:2 --tokens 0,2 --policy temperature:1,top-k:3 --seed 7 "
            "--eos 1 --steps 3 --arithmetic matrix --scalar f64 --cache-kind flat");
}

TEST(RandomGeneration, agrees_on_two_hundred_of_them) {
  std::set<std::string> models;
  for (std::uint64_t index = 0; index < 200; ++index) {
    const RandomGeneration random = random_generation(1, index);
    models.insert(random.model);
    Bench bench = make_bench(random.data, random.setup, 1, builtin_engine);
    bench.noise = nullptr;
    const GenerationTrial trial = try_generation(bench, random.request);
    EXPECT_EQ(trial.note, "") << generate_line(random.model, random.setup, random.request);
  }
  EXPECT_GT(models.size(), 190U);
}

// ---- The check

TEST(ProbeGeneration, takes_some_prefixes_of_many_and_the_very_one_that_is_asked_for) {
  const ModelData model = load_model("chapter8");
  const PrefixTree tree = PrefixTree::all(model.weights.config);
  Bench bench = bench_of(model, Arithmetic::row);
  std::vector<std::vector<int>> prompts;
  const Sink sink = [&](const Measured& measured) {
    prompts.emplace_back(measured.tokens.begin(), measured.tokens.end());
    EXPECT_EQ(measured.schedule, single_schedule(static_cast<int>(measured.tokens.size())));
    EXPECT_FALSE(measured.rows.empty());
  };
  probe_generation(bench, {.tree = tree}, sink);
  EXPECT_GT(prompts.size(), 10U);
  EXPECT_LT(prompts.size(), 50U);
  const auto all = prompts;
  prompts.clear();
  probe_generation(bench, {.tree = tree, .scope = {.path = {0, 2, 4}, .path_only = true}}, sink);
  EXPECT_EQ(prompts, (std::vector<std::vector<int>>{{0, 2, 4}}));
  // Of one long sequence some, and the first token.
  prompts.clear();
  const ModelData longer = load_model("gen:plain:1:context200");
  Bench of_longer = bench_of(longer, Arithmetic::row);
  const std::vector<int> sequence = random_tokens(longer.weights.config.vocabulary, 200, 1, 0);
  const PrefixTree line = PrefixTree::of({sequence}, 200);
  probe_generation(of_longer, {.tree = line}, sink);
  EXPECT_GE(prompts.size(), 2U);
  EXPECT_LT(prompts.size(), 15U);
  EXPECT_EQ(prompts.front().size(), 1U);
  // The parts of a walk are the whole.
  prompts.clear();
  for (int token = 0; token < 8; ++token) {
    probe_generation(bench, {.tree = tree, .scope = {.path = {token}}}, sink);
  }
  EXPECT_EQ(prompts, all);
}

TEST(ProbeGeneration, of_an_engine_that_fails_says_at_which_prompt) {
  const ModelData model = small_model();
  const PrefixTree tree = PrefixTree::of({{2, 1}}, 4);
  Hooks hooks;
  hooks.feed = [](Engine&, std::span<const Feed>, Rows, Logits&) { throw EngineError("gone"); };
  Bench bench = bench_of(model, Arithmetic::row, hooked(hooks));
  const auto failure =
      run_probe(probe_generation, bench, {.tree = tree}, [](const Measured&) { FAIL(); });
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->tokens, std::vector<int>{2});
  EXPECT_EQ(failure->what, "gone");
}

}  // namespace
}  // namespace kvcheck
