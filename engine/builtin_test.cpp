// SPDX-License-Identifier: MIT
// Sequences of the built-in engine: opened, fed, rolled back, copied and closed without a trace of
// one in another, and nothing written where nothing should be.
#include "engine/builtin.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/error.h"
#include "engine/generated.h"
#include "engine/logged.h"
#include "engine/test_support.h"

namespace kvcheck {
namespace {

using Tokens = std::vector<int>;

// 8 layers, learned positions, context of at least 6. In row arithmetic whatever agrees must agree
// to the last bit.
Model<float> model() { return generate_model("gen:deep:1"); }

Logits fed(Engine& engine, SequenceId sequence, const Tokens& tokens, Rows rows = Rows::all) {
  Logits out;
  engine.feed(sequence, tokens, rows, out);
  return out;
}

Logits full(Engine& engine, const Tokens& tokens, Rows rows = Rows::all) {
  Logits out;
  engine.full({tokens}, rows, out);
  return out;
}

TEST(Builtin, says_what_it_is) {
  const Builtin<float> engine(model(), Arithmetic::row);
  EXPECT_EQ(engine.hello().name, "builtin");
  EXPECT_EQ(engine.hello().vocabulary, model().config.vocabulary);
  EXPECT_EQ(engine.hello().context, model().config.context);
  EXPECT_EQ(engine.hello().compute, ScalarKind::f32);
  EXPECT_TRUE(engine.hello().can.fork && engine.hello().can.batch);
}

TEST(Builtin, feeds_give_the_logits_of_full_forwards) {
  Builtin<float> engine(model(), Arithmetic::row);
  const Logits expected = full(engine, {1, 2, 3, 4});
  const SequenceId a = engine.open();
  EXPECT_EQ(fed(engine, a, {1, 2, 3, 4}).values, expected.values);
  const SequenceId b = engine.open();
  const Logits last = fed(engine, b, {1, 2, 3, 4}, Rows::last);
  ASSERT_EQ(last.rows(), 1);
  EXPECT_TRUE(std::ranges::equal(last.row(0), expected.row(3)));
  EXPECT_EQ(full(engine, {1, 2, 3, 4}, Rows::last).values, last.values);
}

TEST(Builtin, sequences_do_not_meet) {
  Builtin<float> engine(model(), Arithmetic::row);
  const SequenceId a = engine.open();
  const SequenceId b = engine.open();
  EXPECT_NE(a, b);
  (void)fed(engine, a, {1, 2});
  (void)fed(engine, b, {3});
  const Logits a_row = fed(engine, a, {4});
  const Logits b_row = fed(engine, b, {4});
  EXPECT_TRUE(std::ranges::equal(a_row.row(0), full(engine, {1, 2, 4}).row(2)));
  EXPECT_TRUE(std::ranges::equal(b_row.row(0), full(engine, {3, 4}).row(1)));
}

TEST(Builtin, a_batch_answers_feed_after_feed) {
  Builtin<float> engine(model(), Arithmetic::row);
  const SequenceId a = engine.open();
  const SequenceId b = engine.open();
  const Tokens one{1}, two{2, 3};
  Logits out;
  engine.batch(std::vector<Feed>{{b, two}, {a, one}}, Rows::all, out);
  ASSERT_EQ(out.rows(), 3);
  EXPECT_TRUE(std::ranges::equal(out.row(1), full(engine, two).row(1)));
  EXPECT_TRUE(std::ranges::equal(out.row(2), full(engine, one).row(0)));
  EXPECT_EQ(engine.held(a).rows, 1);
  EXPECT_EQ(engine.held(b).rows, 2);
}

TEST(Builtin, a_closed_sequence_is_opened_again_without_its_rows) {
  Builtin<float> engine(model(), Arithmetic::row);
  const SequenceId first = engine.open();
  (void)fed(engine, first, {1, 2, 3});
  engine.close(first);
  const SequenceId again = engine.open();
  EXPECT_EQ(again, first);
  EXPECT_EQ(engine.held(again).rows, 0);
  const KvCache<float>& cache = engine.cache(again);
  EXPECT_TRUE(std::isnan(cache.key(0, 0)[0]) && std::isnan(cache.value(7, 2)[0]));
  EXPECT_EQ(fed(engine, again, {4}).values, full(engine, {4}).values);
}

TEST(Builtin, an_open_sequence_is_not_opened_again) {
  Builtin<float> engine(model(), Arithmetic::row);
  const SequenceId a = engine.open();
  const SequenceId b = engine.open();
  engine.close(a);
  EXPECT_EQ(engine.open(), a);
  const SequenceId c = engine.open();
  EXPECT_NE(c, a);
  EXPECT_NE(c, b);
}

TEST(Builtin, a_fork_holds_the_same_rows_and_goes_its_own_way) {
  Builtin<float> engine(model(), Arithmetic::row);
  const SequenceId parent = engine.open();
  (void)fed(engine, parent, {1, 2});
  const SequenceId child = engine.fork(parent);
  EXPECT_EQ(engine.held(child).rows, 2);
  (void)fed(engine, parent, {5, 6});
  EXPECT_EQ(engine.held(child).rows, 2);
  const Logits row = fed(engine, child, {3});
  EXPECT_TRUE(std::ranges::equal(row.row(0), full(engine, {1, 2, 3}).row(2)));
  engine.close(child);
  const Logits parent_row = fed(engine, parent, {4});
  EXPECT_TRUE(std::ranges::equal(parent_row.row(0), full(engine, {1, 2, 5, 6, 4}).row(4)));
}

TEST(Builtin, a_fork_is_a_copy_even_where_a_cache_is_used_again) {
  Builtin<float> engine(model(), Arithmetic::row);
  const SequenceId parent = engine.open();
  const SequenceId used = engine.open();
  (void)fed(engine, parent, {1});
  (void)fed(engine, used, {4, 4, 4});
  engine.close(used);
  const SequenceId child = engine.fork(parent);
  EXPECT_EQ(child, used);
  EXPECT_EQ(engine.held(child).rows, 1);
  engine.close(parent);
  const Logits row = fed(engine, child, {2});
  EXPECT_TRUE(std::ranges::equal(row.row(0), full(engine, {1, 2}).row(1)));
}

TEST(Builtin, truncating_and_feeding_is_never_having_fed) {
  for (int length = 0; length <= 4; ++length) {
    Builtin<float> engine(model(), Arithmetic::row);
    const SequenceId sequence = engine.open();
    const Tokens tokens{1, 2, 3, 4};
    (void)fed(engine, sequence, tokens);
    engine.truncate(sequence, length);
    EXPECT_EQ(engine.held(sequence).rows, length);
    Tokens other(tokens.begin(), tokens.begin() + length);
    other.push_back(0);
    const Logits row = fed(engine, sequence, {0});
    EXPECT_TRUE(std::ranges::equal(row.row(0), full(engine, other).row(length))) << length;
  }
}

TEST(Builtin, truncation_to_more_than_is_held_is_refused) {
  Builtin<float> engine(model(), Arithmetic::row);
  const SequenceId sequence = engine.open();
  (void)fed(engine, sequence, {1, 2});
  EXPECT_EQ(error_of([&] { engine.truncate(sequence, 3); }),
            "truncate: length, expected 0 to 2, got 3");
  EXPECT_EQ(error_of([&] { engine.truncate(sequence, -1); }),
            "truncate: length, expected 0 to 2, got -1");
  EXPECT_EQ(engine.held(sequence).rows, 2);
}

TEST(Builtin, held_counts_rows_positions_and_bytes) {
  Builtin<float> engine(model(), Arithmetic::row);
  const SequenceId sequence = engine.open();
  EXPECT_EQ(engine.held(sequence).bytes, 0);
  (void)fed(engine, sequence, {1, 2, 3});
  const Held held = engine.held(sequence);
  EXPECT_EQ(held.rows, 3);
  EXPECT_EQ(held.next_position, 3);
  EXPECT_EQ(held.bytes, cache_bytes(model().config, 3, 4));
  Builtin<double> wide(model(), Arithmetic::row);
  const SequenceId other = wide.open();
  (void)fed(wide, other, {1});
  EXPECT_EQ(wide.held(other).bytes, cache_bytes(model().config, 1, 8));
}

TEST(Builtin, sequences_that_are_not_open_are_refused_by_every_verb) {
  Builtin<float> engine(model(), Arithmetic::row);
  const SequenceId closed = engine.open();
  engine.close(closed);
  for (const SequenceId sequence : {closed, 1, -1}) {
    const std::string expected =
        "sequence: not open, expected an open sequence, got " + std::to_string(sequence);
    EXPECT_EQ(error_of([&] { engine.close(sequence); }), expected);
    EXPECT_EQ(error_of([&] { (void)fed(engine, sequence, {1}); }), expected);
    EXPECT_EQ(error_of([&] { engine.truncate(sequence, 0); }), expected);
    EXPECT_EQ(error_of([&] { (void)engine.held(sequence); }), expected);
    EXPECT_EQ(error_of([&] { (void)engine.cache(sequence); }), expected);
    EXPECT_EQ(error_of([&] { (void)engine.fork(sequence); }), expected);
  }
}

TEST(Builtin, a_sequence_twice_in_a_batch_is_refused) {
  Builtin<float> engine(model(), Arithmetic::row);
  const SequenceId sequence = engine.open();
  const Tokens one{1};
  Logits out;
  const std::vector<Feed> twice{{sequence, one}, {sequence, one}};
  EXPECT_EQ(error_of([&] { engine.batch(twice, Rows::all, out); }),
            "batch: a sequence twice, expected each sequence once, got 0");
  EXPECT_EQ(engine.held(sequence).rows, 0);
}

TEST(Builtin, a_row_that_a_wrong_plan_wrote_anywhere_is_gone_when_the_cache_is_used_again) {
  Builtin<float> engine(model(), Arithmetic::row);
  engine.rewrite_plans([](StepPlan& plan, PlannedFeeds) { plan.rows.front().slot = 2; });
  const SequenceId first = engine.open();
  (void)fed(engine, first, {1});
  engine.close(first);
  EXPECT_EQ(engine.open(), first);
  EXPECT_TRUE(engine.cache(first).poison_intact());
}

TEST(Builtin, a_plan_that_leaves_the_context_breaks_the_engine_and_nothing_else) {
  for (const int beyond : {-1, 1000}) {
    Builtin<float> engine(model(), Arithmetic::row);
    const SequenceId sequence = engine.open();
    engine.rewrite_plans(
        [&](StepPlan& plan, PlannedFeeds) { plan.rows.front().position = beyond; });
    EXPECT_THROW((void)fed(engine, sequence, {1}), EngineError);
    engine.rewrite_plans(
        [&](StepPlan& plan, PlannedFeeds) { plan.views.front().slots.front() = beyond; });
    EXPECT_THROW((void)fed(engine, sequence, {1}), EngineError);
    EXPECT_EQ(engine.cache(sequence).length(), 0);
  }
}

TEST(Builtin, a_refused_batch_feeds_none_of_its_sequences) {
  Builtin<float> engine(model(), Arithmetic::row);
  const SequenceId sequence = engine.open();
  (void)fed(engine, sequence, {1});
  const Tokens one{1}, none;
  Logits out;
  const auto batch = [&](const std::vector<Feed>& feeds) {
    return error_of([&] { engine.batch(feeds, Rows::all, out); });
  };
  EXPECT_EQ(batch({{sequence, one}, {7, one}}),
            "sequence: not open, expected an open sequence, got 7");
  EXPECT_EQ(batch({{sequence, one}, {engine.open(), none}}),
            "feed: no tokens, expected at least 1, got 0");
  EXPECT_EQ(engine.held(sequence).rows, 1);
  const Logits row = fed(engine, sequence, {2});
  EXPECT_TRUE(std::ranges::equal(row.row(0), full(engine, {1, 2}).row(1)));
}

std::string engine_error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const EngineError& error) {
    return error.what();
  }
  return "no engine error";
}

TEST(Builtin, a_write_around_the_cache_is_an_engine_failure) {
  Builtin<float> engine(model(), Arithmetic::row);
  (void)engine.open();
  const SequenceId sequence = engine.open();
  engine.cache(sequence).value(0, 0)[-1] = 0;
  const std::string expected = "builtin: sequence 1: memory around the cache was overwritten";
  EXPECT_EQ(engine_error_of([&] { (void)fed(engine, sequence, {1}); }), expected);
  EXPECT_EQ(engine_error_of([&] { (void)engine.held(sequence); }), expected);
  EXPECT_EQ(engine_error_of([&] { (void)engine.held(0); }), "no engine error");
}

TEST(Builtin, a_write_to_a_row_that_is_not_held_is_an_engine_failure) {
  Builtin<float> engine(model(), Arithmetic::row);
  const SequenceId sequence = engine.open();
  (void)fed(engine, sequence, {1});
  engine.cache(sequence).key(7, 1)[0] = 0;
  EXPECT_EQ(engine_error_of([&] { (void)engine.held(sequence); }),
            "builtin: sequence 0: a row that is not held was written");
}

TEST(Builtin, an_observer_sees_the_cached_decoder_only) {
  Builtin<float> engine(model(), Arithmetic::row);
  int seen = 0;
  engine.observe_cached([&](const SiteTensor<float>&) { ++seen; });
  (void)full(engine, {1, 2});
  EXPECT_EQ(seen, 0);
  (void)fed(engine, engine.open(), {1});
  EXPECT_EQ(seen, 2 + 8 * 13 + 2);
}

TEST(Builtin, a_rewritten_plan_is_executed_and_can_be_read) {
  Builtin<float> engine(model(), Arithmetic::row);
  const SequenceId sequence = engine.open();
  engine.rewrite_plans([](StepPlan& plan, PlannedFeeds) { ++plan.rows[0].position; });
  EXPECT_NE(fed(engine, sequence, {1}).values, full(engine, {1}).values);
  EXPECT_EQ(engine.plan().rows[0].position, 1);
  engine.rewrite_plans({});
  engine.truncate(sequence, 0);
  EXPECT_EQ(fed(engine, sequence, {1}).values, full(engine, {1}).values);
}

// A plan that gives the first token position 1 leaves position 2 to the next, as long as the row is
// held.
TEST(Builtin, the_next_position_follows_the_last_planned_one) {
  Builtin<float> engine(model(), Arithmetic::row);
  const SequenceId sequence = engine.open();
  engine.rewrite_plans([](StepPlan& plan, PlannedFeeds) { ++plan.rows[0].position; });
  (void)fed(engine, sequence, {1});
  EXPECT_EQ(engine.held(sequence).next_position, 2);
  const SequenceId child = engine.fork(sequence);
  EXPECT_EQ(engine.held(child).next_position, 2);
  engine.close(sequence);
  EXPECT_EQ(engine.held(engine.open()).next_position, 0);
  engine.truncate(child, 0);
  EXPECT_EQ(engine.held(child).next_position, 0);
}

// Four answers that differ, by rounding; those of float are floats.
TEST(Builtin, is_made_for_both_scalars_and_both_arithmetics) {
  const Model<float> wide = generate_model("gen:wide:1");
  std::vector<std::vector<double>> found;
  for (const ScalarKind scalar : {ScalarKind::f32, ScalarKind::f64}) {
    for (const Arithmetic arithmetic : {Arithmetic::row, Arithmetic::matrix}) {
      const std::unique_ptr<Engine> engine = make_builtin(wide, scalar, arithmetic);
      EXPECT_EQ(engine->hello().compute, scalar);
      const Logits logits = fed(*engine, engine->open(), {1});
      const bool floats = std::ranges::all_of(
          logits.values, [](double v) { return v == double{static_cast<float>(v)}; });
      EXPECT_EQ(floats, scalar == ScalarKind::f32);
      for (const auto& other : found) {
        EXPECT_NE(other, logits.values);
        EXPECT_NEAR(other[0], logits.values[0], 1e-4);
      }
      found.push_back(logits.values);
    }
  }
}

// ---- ALiBi after rows were dropped, and what tells states apart

Logits answered(const Model<float>& model, std::span<const LoggedRow> log, int rows) {
  Logits out;
  copy_rows(Logged<float>(model, row_ops<float>()).logits(log, rows), out);
  return out;
}

// Six tokens; rows 1 and 2 go; two more tokens.
TEST(Builtin, alibi_goes_on_after_rows_were_dropped) {
  const Model<float> alibi = generate_model("gen:alibi:1");
  for (const auto* kind : {"flat", "growing", "paged:2", "padded-left", "padded-right"}) {
    for (const bool shift : {false, true}) {
      Builtin<float> engine(alibi, Arithmetic::row, cache_kind(kind, "test"));
      const SequenceId sequence = engine.open();
      (void)fed(engine, sequence, {0, 1, 2, 3, 4, 0});
      if (shift) engine.shift(sequence, 1, 3);
      if (!shift) engine.evict(sequence, 1, 2);
      const Logits found = fed(engine, sequence, {1, 2});
      std::vector<LoggedRow> log = plain_log(Tokens{0, 1, 2, 3, 4, 0, 1, 2});
      for (int row : {6, 7}) {
        LoggedRow& logged = log[static_cast<std::size_t>(row)];
        logged.sees.erase(logged.sees.begin() + 1, logged.sees.begin() + 3);
        if (!shift) continue;
        logged.position -= 2;
        for (SeenRow& seen : logged.sees) seen.position -= seen.row > 2 ? 2 : 0;
      }
      EXPECT_EQ(found.values, answered(alibi, log, 2).values) << kind << " " << shift;
      EXPECT_NE(found.values, answered(alibi, plain_log(Tokens{0, 1, 2, 3, 4, 0, 1, 2}), 2).values);
    }
  }
}

TEST(Builtin, a_state_belongs_to_every_constant_of_its_model) {
  const Model<float> first = generate_model("gen:two-bases:1");
  Builtin<float> engine(first, Arithmetic::row);
  const SequenceId sequence = engine.open();
  (void)fed(engine, sequence, {0, 1});
  const State state = engine.save(sequence);
  void (*const changes[])(Config&) = {
      [](Config& c) { c.rotary_base_windowed = 17; }, [](Config& c) { c.rotary_dimensions = 2; },
      [](Config& c) { c.attention_cap = 50; },        [](Config& c) { c.logit_cap = 50; },
      [](Config& c) { c.embedding_scale = 2; },
  };
  const auto loaded = [&](const Model<float>& other) {
    Builtin<float> reader(other, Arithmetic::row);
    return error_of([&] { (void)reader.load(state); });
  };
  EXPECT_EQ(loaded(first), "no error");
  for (const auto& change : changes) {
    Model<float> other = first;
    change(other.config);
    EXPECT_EQ(loaded(other),
              "load: state, expected bytes that this engine saved, got the state of another model, "
              "scalar or kind of cache");
  }
}

}  // namespace
}  // namespace kvcheck
