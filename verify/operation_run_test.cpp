// SPDX-License-Identifier: MIT
// Operations on right engines agree; whatever else an engine does is said with the step at which it
// does it.
#include "verify/operation_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/builtin.h"
#include "verify/replay.h"
#include "verify/test_canaries.h"
#include "verify/test_faults.h"

namespace kvcheck {
namespace {

// Each verb that all kinds have, over the window of 4, the block of 2 and the end of the context.
constexpr std::string_view kEveryVerb =
    "open.feed:0x5.open.batch:0x1-1x3.fork:1.feed:2x2.reorder:0-2@1-0.feed:0x1.save:1.truncate:1x2."
    "feed:1x2.load:0.feed:3x1.close:1.open.prompt:4@3x4+1.reset:3.feed:3x16.batch:2x2-4x3";
constexpr std::string_view kMovingVerbs =
    "open.feed:0x6.shift:0x1-3.feed:0x2.evict:0x2-1.feed:0x1.fork:0.shift:1x0-1.batch:0x1-1x2";

CaseResult run(const Case& subject, const ModelData& model, const EngineFactory& factory) {
  return runner_of(subject, model, factory).run(subject.operations);
}

// On the model of two windows, in a flat cache.
CaseResult run(std::string_view operations, const EngineFactory& factory) {
  const ModelData model = two_window_model();
  return run(operations_case(model, {}, operations), model, factory);
}

CaseResult run_hooked(std::string_view operations, Hooks hooks) {
  return run(operations, hooked(std::move(hooks)));
}

TEST(OperationRun, agrees_on_every_kind_in_every_arithmetic_and_scalar) {
  const ModelData model = two_window_model();
  for (const CacheKind& kind : all_cache_kinds()) {
    for (const Arithmetic arithmetic : {Arithmetic::row, Arithmetic::matrix}) {
      for (const ScalarKind scalar : {ScalarKind::f32, ScalarKind::f64}) {
        Case subject = operations_case(model, kind, kEveryVerb, arithmetic);
        subject.scalar = scalar;
        // Rows of fewer bits are often too ill-conditioned for float32, and decided in float64.
        const CaseResult result = run_case(subject, model, builtin_engine).result;
        EXPECT_EQ(result.verdict, Verdict::agree)
            << name(kind) << " " << name(arithmetic) << " " << name(scalar) << " "
            << name(result.mark) << ": " << result.note;
        EXPECT_EQ(result.rows_compared, 5 + 4 + 2 + 1 + 2 + 1 + 1 + 16 + 5) << name(kind);
        if (!builtin_capabilities(model.weights.config, kind).shift) continue;
        subject.operations = parse_operations(kMovingVerbs, "test");
        const CaseResult moved = run_case(subject, model, builtin_engine).result;
        EXPECT_EQ(moved.verdict, Verdict::agree) << name(kind) << ": " << moved.note;
        EXPECT_EQ(moved.rows_compared, 12) << name(kind);
      }
    }
  }
}

// Somebody who watches sees every floor, so that all of them are measured; else only those of rows
// that may be the worst. Both tell of the same row, to the last bit.
TEST(OperationRun, finds_the_worst_row_without_measuring_every_floor) {
  const ModelData model = two_window_model();
  std::size_t differing = 0;
  for (const CacheKind& kind : all_cache_kinds()) {
    for (const ScalarKind scalar : {ScalarKind::f32, ScalarKind::f64}) {
      for (const std::string_view operations : {kEveryVerb, kMovingVerbs}) {
        const bool moves = builtin_capabilities(model.weights.config, kind).shift;
        if (operations == kMovingVerbs && !moves) continue;
        Case subject = operations_case(model, kind, operations, Arithmetic::matrix);
        subject.scalar = scalar;
        OperationRunner runner = runner_of(subject, model, builtin_engine);
        double most = 0;
        const CaseResult watched = runner.run(subject.operations, [&](const SeenStep& seen) {
          for (const MeasuredRow& row : seen.rows) {
            if (row.comparison.max_abs_difference == 0) continue;
            ++differing;
            ASSERT_TRUE(row.floor.has_value());
            most = std::max(most, row.comparison.max_abs_difference / row.floor->floor);
          }
        });
        const std::string of_worst = describe(watched);
        const CaseResult alone = runner.run(subject.operations);
        EXPECT_EQ(describe(alone), of_worst) << name(kind) << " " << name(scalar);
        if (alone.verdict != Verdict::agree) continue;  // gated
        EXPECT_EQ(alone.ratio, most) << name(kind) << " " << name(scalar);
        ASSERT_TRUE(runner.worst().has_value());
        EXPECT_EQ(runner.worst()->floor->floor, alone.noise->floor);
      }
    }
  }
  EXPECT_GT(differing, 100U);
}

TEST(OperationRun, of_nothing_gave_up) {
  const ModelData model = two_window_model();
  OperationRunner runner(model, {ScalarKind::f32, Arithmetic::row}, Exact{}, 1, builtin_engine);
  const CaseResult result = runner.run({});
  EXPECT_EQ(result.verdict, Verdict::gave_up);
  EXPECT_EQ(result.rows_compared, 0);
  EXPECT_EQ(result.step, std::nullopt);
}

// ---- Refusals

TEST(OperationRun, counts_what_a_ring_refuses_and_goes_on_from_the_state_before) {
  const ModelData model = two_window_model();
  const Case subject = operations_case(model, {.layout = CacheLayout::ring},
                                       "open.feed:0x6.truncate:0x2.feed:0x1.truncate:0x0.feed:0x2");
  OperationRunner runner = runner_of(subject, model, builtin_engine);
  std::vector<std::string> notes;
  std::vector<std::size_t> rows;
  const CaseResult result = runner.run(subject.operations, [&](const SeenStep& seen) {
    notes.push_back(seen.note);
    rows.push_back(seen.rows.size());
  });
  EXPECT_EQ(result.verdict, Verdict::agree) << result.note;
  EXPECT_EQ(runner.refusals(), 1);
  EXPECT_EQ(notes, (std::vector<std::string>{"", "", "refused", "", "", ""}));
  EXPECT_EQ(rows, (std::vector<std::size_t>{0, 6, 0, 1, 0, 2}));
}

TEST(OperationRun, sees_a_refusal_that_changes_something) {
  Hooks hooks;
  const ModelData model = two_window_model();
  const Case subject =
      operations_case(model, {.layout = CacheLayout::ring}, "open.feed:0x4.feed:0x1.truncate:0x2");
  EXPECT_EQ(run(subject, model, builtin_engine).verdict, Verdict::agree);
  hooks.truncate = [](Engine& inner, SequenceId sequence, int) {
    inner.truncate(sequence, 0);
    throw bad_input({"truncate", "refused", "anything", "nothing"});
  };
  const CaseResult result = run(subject, model, hooked(hooks));
  EXPECT_EQ(result.verdict, Verdict::diverge);
  EXPECT_EQ(result.step, 3);
  EXPECT_EQ(
      result.note,
      "invariant length-is-consumed violated by sequence 0 after truncate: expected 5, got 0");
}

TEST(OperationRun, takes_a_refusal_of_anything_else_for_a_divergence) {
  Hooks hooks;
  hooks.truncate = [](Engine&, SequenceId, int) {
    throw bad_input({"truncate", "refused", "anything", "nothing"});
  };
  const CaseResult truncated = run_hooked("open.feed:0x2.truncate:0x1", hooks);
  EXPECT_EQ(truncated.verdict, Verdict::diverge);
  EXPECT_EQ(truncated.step, 2);
  EXPECT_EQ(truncated.note, "refused: truncate: refused, expected anything, got nothing");
  hooks = {};
  hooks.fork = [](Engine&, SequenceId) -> SequenceId {
    throw bad_input({"fork", "refused", "anything", "nothing"});
  };
  EXPECT_EQ(run_hooked("open.feed:0x2.fork:0", hooks).verdict, Verdict::diverge);
}

TEST(OperationRun, is_broken_at_the_step_at_which_the_engine_fails) {
  Hooks hooks;
  hooks.fork = [](Engine&, SequenceId) -> SequenceId { throw EngineError("lost"); };
  const CaseResult result = run_hooked("open.feed:0x2.fork:0.feed:1x1", hooks);
  EXPECT_EQ(result.verdict, Verdict::broken);
  EXPECT_EQ(result.mark, Mark::crash);
  EXPECT_EQ(result.step, 2);
  EXPECT_EQ(result.note, "lost");
}

// ---- What is wrong without an exception

TEST(OperationRun, diverges_where_a_logit_is_not_a_number) {
  Hooks hooks;
  hooks.feed = [](Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
    inner.batch(feeds, rows, out);
    if (feeds[0].tokens.size() == 3) {
      first_logit(out, 1) = std::numeric_limits<double>::quiet_NaN();
    }
  };
  const CaseResult result = run_hooked("open.feed:0x2.feed:0x3.feed:0x1", hooks);
  EXPECT_EQ(result.verdict, Verdict::diverge);
  EXPECT_EQ(result.step, 1 + 1);
  EXPECT_EQ(result.position, 3);
  ASSERT_TRUE(result.row);
  EXPECT_FALSE(result.row->cached_finite);
}

// Which row of several is the worst, after a feed and in a batch.
TEST(OperationRun, names_the_step_and_the_position_of_the_worst_row) {
  Hooks hooks;
  hooks.feed = [](Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
    inner.batch(feeds, rows, out);
    if (feeds.size() == 2) first_logit(out, 2) += 1;  // first row of the second one
  };
  const CaseResult result = run_hooked("open.open.feed:1x4.batch:0x2-1x3", hooks);
  EXPECT_EQ(result.verdict, Verdict::diverge);
  EXPECT_EQ(result.step, 3);
  EXPECT_EQ(result.position, 4);
  EXPECT_EQ(result.rows_compared, 4 + 5);
}

// A feed to sequence 1 does something to the cache of sequence 0.
EngineFactory changing_the_first(const std::function<void(KvCache<float>&)>& change,
                                 const std::function<void(Capabilities&)>& can) {
  return [change, can](const ModelData& model, const EngineSetup& setup) {
    auto builtin = std::make_unique<Builtin<float>>(model.weights, setup.arithmetic);
    Hooks hooks;
    hooks.can = can;
    hooks.feed = [&engine = *builtin, change](Engine& inner, std::span<const Feed> feeds, Rows rows,
                                              Logits& out) {
      inner.batch(feeds, rows, out);
      if (feeds[0].sequence == 1) change(engine.cache(0));
    };
    return std::make_unique<HookedEngine>(std::move(builtin), std::move(hooks));
  };
}

void add_to_a_key(KvCache<float>& cache) { *cache.key(1, 0) += 1; }
void hide_the_bytes(Capabilities& can) { can.fingerprint = false; }

TEST(OperationRun, sees_a_sequence_change_that_nothing_was_done_to) {
  const CaseResult result =
      run("open.open.feed:0x2.feed:1x2.feed:0x1", changing_the_first(add_to_a_key, {}));
  EXPECT_EQ(result.verdict, Verdict::diverge);
  EXPECT_EQ(result.step, 3);
  EXPECT_EQ(result.note, "invariant others-untouched violated by sequence 0 after feed: changed");
}

// ---- Engines that do not tell their bytes

TEST(OperationRun, without_bytes_a_copy_tells_that_a_sequence_changed) {
  constexpr std::string_view kFeeds = "open.open.feed:0x2.feed:1x2.feed:0x1";
  const CaseResult result = run(kFeeds, changing_the_first(add_to_a_key, hide_the_bytes));
  EXPECT_EQ(result.verdict, Verdict::diverge);
  EXPECT_EQ(result.step, 3) << "before it is fed again";
  EXPECT_THAT(result.note, testing::MatchesRegex(
                               "invariant others-untouched violated: by sequence 0 after feed, one "
                               "token fed to a copy is answered wrong by 0[.][0-9]+"));
  const auto nan = [](KvCache<float>& cache) {
    *cache.key(1, 0) = std::numeric_limits<float>::quiet_NaN();
  };
  EXPECT_EQ(run(kFeeds, changing_the_first(nan, hide_the_bytes)).step, 3);
}

// Of what is not told nothing is claimed: the change shows when the sequence itself is fed.
TEST(OperationRun, without_bytes_and_copies_other_sequences_are_not_looked_at) {
  const ModelData model = two_window_model();
  const auto neither = [](Capabilities& can) { can.fingerprint = can.fork = false; };
  const Case subject = operations_case(model, {}, "open.open.feed:0x2.feed:1x2.feed:0x1");
  OperationRunner runner = runner_of(subject, model, changing_the_first(add_to_a_key, neither));
  const CaseResult result = runner.run(subject.operations);
  EXPECT_EQ(result.verdict, Verdict::diverge);
  EXPECT_EQ(result.step, 4);
  EXPECT_EQ(result.note, "");
  EXPECT_EQ(runner.invariants().checked[index_of(Invariant::others)], 0);
}

// Every kind of cache agrees, also where rows were dropped and keys rotated back; and the copies
// leave nothing behind.
TEST(OperationRun, copies_of_right_sequences_answer_right) {
  const ModelData model = two_window_model();
  Hooks hooks;
  hooks.can = hide_the_bytes;
  for (const CacheKind& kind : all_cache_kinds()) {
    for (const std::string_view operations : {kEveryVerb, kMovingVerbs}) {
      if (operations == kMovingVerbs && !builtin_capabilities(model.weights.config, kind).shift) {
        continue;
      }
      for (const Arithmetic arithmetic : {Arithmetic::row, Arithmetic::matrix}) {
        const Case subject = operations_case(model, kind, operations, arithmetic);
        OperationRunner runner = runner_of(subject, model, hooked(hooks));
        const CaseResult result = runner.run(subject.operations);
        const Verdict expected = kind.lossy() ? result.verdict : Verdict::agree;
        EXPECT_EQ(result.verdict, expected) << name(kind) << ": " << result.note;
        EXPECT_NE(result.verdict, Verdict::diverge) << name(kind) << ": " << result.note;
        EXPECT_GT(runner.invariants().checked[index_of(Invariant::others)], 1) << name(kind);
      }
    }
  }
}

// Of equal lengths, so that neither rows nor bytes tell.
TEST(OperationRun, expects_of_a_reordering_that_each_sequence_takes_what_its_source_held) {
  const EngineFactory ignored = canary("reorder-ignored", Tells::all).factory;
  const CaseResult result = run("open.open.batch:0x2-1x2.reorder:0-1@0-0.feed:1x1", ignored);
  EXPECT_EQ(result.verdict, Verdict::diverge);
  EXPECT_EQ(result.step, 3);
  EXPECT_EQ(result.note, "invariant copies-equal violated by sequence 1 after reorder: changed");
  EXPECT_EQ(run("open.open.batch:0x2-1x2.reorder:1-0@0-1", ignored).verdict, Verdict::agree);
}

TEST(OperationRun, looks_for_what_is_left_when_all_is_closed) {
  Hooks hooks;
  hooks.held = [opened = 0](const Engine& inner, SequenceId sequence) mutable {
    Held held = inner.held(sequence);
    if (held.rows == 0 && ++opened > 1) held.bytes = 64;
    return held;
  };
  const CaseResult result = run_hooked("open.feed:0x2", hooks);
  EXPECT_EQ(result.verdict, Verdict::diverge);
  EXPECT_EQ(
      result.note,
      "invariant nothing-left violated in bytes of a new sequence at the end: expected 0, got 64");
}

// ---- Loss

TEST(OperationRun, measures_what_fewer_bits_lose) {
  const ModelData model = two_window_model();
  for (const CacheKind& kind : all_cache_kinds()) {
    const Case subject = operations_case(model, kind, "open.feed:0x6.fork:0.feed:1x3");
    OperationRunner runner = runner_of(subject, model, builtin_engine);
    EXPECT_EQ(runner.run(subject.operations).verdict, Verdict::agree) << name(kind);
    const Loss& loss = runner.loss();
    EXPECT_EQ(loss.rows, kind.lossy() ? 9 : 0) << name(kind);
    EXPECT_EQ(loss.max_abs_difference > 0, kind.lossy()) << name(kind);
    EXPECT_EQ(loss.max_divergence > 0, kind.lossy()) << name(kind);
    EXPECT_LE(loss.same_choice, loss.rows) << name(kind);
    EXPECT_LT(loss.max_abs_difference, 1) << name(kind);
  }
}

// The largest divergence of many is infinite once there is a NaN.
TEST(OperationRun, a_nan_is_no_small_loss) {
  Hooks hooks;
  hooks.feed = [](Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
    inner.batch(feeds, rows, out);
    first_logit(out, 0) = std::numeric_limits<double>::quiet_NaN();
  };
  const ModelData model = two_window_model();
  const CacheKind rounded{.format = RowFormat::bf16};
  const Case subject = operations_case(model, rounded, "open.feed:0x2");
  OperationRunner runner = runner_of(subject, model, hooked(hooks));
  EXPECT_EQ(runner.run(subject.operations).verdict, Verdict::diverge);
  EXPECT_EQ(runner.loss().max_divergence, std::numeric_limits<double>::infinity());
}

// ---- What is offered

TEST(OperationRun, asks_for_no_verb_that_is_not_offered) {
  const ModelData model = two_window_model();
  Hooks hooks;
  hooks.can = [](Capabilities& can) { can = {.truncate = true}; };
  OperationRunner runner(model, {ScalarKind::f32, Arithmetic::row}, Exact{}, 1, hooked(hooks));
  const VerbSet verbs = runner.space().limits.verbs;
  const VerbSet offered{Verb::open,     Verb::feed,  Verb::prompt,
                        Verb::truncate, Verb::reset, Verb::close};
  EXPECT_TRUE(verbs == offered);
  EXPECT_EQ(runner.space().window, 4);
  EXPECT_EQ(runner.space().block, 0);
}

// ---- Witnesses

TEST(OperationRun, a_witness_sees_every_operation_before_and_after_it) {
  struct Witness final : OperationWitness {
    std::vector<std::string> seen;
    void note(std::string_view when, const At& at) {
      seen.push_back(std::string(when) + std::to_string(at.step) + " " + to_text(at.operation) +
                     " rows " + std::to_string(at.log.length(0)) + " of " +
                     std::to_string(at.engine.size()));
    }
    void before(const At& at) override { note("<", at); }
    void after(const At& at) override {
      note(">", at);
      if (at.step == 2) throw 7;
    }
  } witness;
  const ModelData model = two_window_model();
  const Case subject = operations_case(model, {}, "open.feed:0x2.fork:0.feed:1x1");
  OperationRunner runner = runner_of(subject, model, builtin_engine);
  runner.show_to(&witness);
  EXPECT_THROW((void)runner.run(subject.operations), int) << "what a witness throws passes";
  EXPECT_THAT(witness.seen,
              testing::ElementsAre("<0 open rows 0 of 0", ">0 open rows 0 of 1",
                                   "<1 feed:0x2 rows 2 of 1", ">1 feed:0x2 rows 2 of 1",
                                   "<2 fork:0 rows 2 of 1", ">2 fork:0 rows 2 of 2"));
  runner.show_to(nullptr);
  EXPECT_EQ(runner.run(subject.operations).verdict, Verdict::agree);
  EXPECT_EQ(witness.seen.size(), 6U);
}

}  // namespace
}  // namespace kvcheck
