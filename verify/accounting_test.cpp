// SPDX-License-Identifier: MIT
// The accountant checks every statement of a sequence, and that a refusal changes nothing.
#include <gtest/gtest.h>

#include "engine/error.h"
#include "verify/test_faults.h"

namespace kvcheck {
namespace {

struct Account {
  std::vector<int> tokens;
  Schedule schedule;
  int facts;
  std::string note;
  std::vector<int> positions;  // of the rows that were compared
  bool same_bits;              // in all of them
};

// What the probe says of the sequence [0, 1, 2] of the small model.
std::vector<Account> accounts(const EngineFactory& factory, std::vector<int> tokens = {0, 1, 2}) {
  const ModelData model = small_model();
  Bench bench = make_bench(model, {ScalarKind::f32, Arithmetic::row}, 1, factory);
  const PrefixTree tree = PrefixTree::of({std::move(tokens)}, 4);
  std::vector<Account> found;
  const auto failure =
      run_probe(probe_accounting, bench, {.tree = tree}, [&](const Measured& measured) {
        Account& account =
            found.emplace_back(Account{{measured.tokens.begin(), measured.tokens.end()},
                                       measured.schedule,
                                       measured.facts,
                                       measured.note,
                                       {},
                                       true});
        for (const MeasuredRow& row : measured.rows) {
          account.positions.push_back(row.position);
          account.same_bits = account.same_bits && row.comparison.same_bits;
        }
      });
  if (failure) found.push_back({failure->tokens, failure->schedule, 0, failure->what, {}, false});
  return found;
}

// The first wrong fact under the schedule 1+1+1, or of the one feed after which refusals are tried.
std::string note_of(Hooks hooks) { return accounts(hooked(std::move(hooks))).at(0).note; }
std::string refusal_of(Hooks hooks) { return accounts(hooked(std::move(hooks))).at(1).note; }

TEST(Accounting, the_built_in_engine_keeps_its_books) {
  const auto found = accounts(builtin_engine);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].schedule, (Schedule{1, 1, 1}));
  EXPECT_EQ(found[1].schedule, (Schedule{3}));
  for (const Account& account : found) {
    EXPECT_EQ(account.note, "");
    EXPECT_EQ(account.tokens, (std::vector<int>{0, 1, 2}));
    EXPECT_EQ(account.positions, (std::vector<int>{1, 2})) << "half of the rows is kept";
    EXPECT_TRUE(account.same_bits);
  }
  // Eight facts of what is held (of layers two) after open, nine for each feed (one more than the
  // schedule has), eight after the roll back; after a single feed, ten for each of four refusals.
  EXPECT_EQ(found[0].facts, 8 + 4 * 9 + 8);
  EXPECT_EQ(found[1].facts, 8 + 2 * 9 + 8 + 4 * 10);
}

// Counts alone would not tell: as many rows are held, of other contents.
TEST(Accounting, what_a_roll_back_or_a_refusal_does_to_the_rows_that_are_kept_shows_in_the_logits) {
  const auto seen = [](std::string_view id) {
    for (const PlantedFault& fault : planted_faults()) {
      if (fault.id == id) return accounts(fault.factory);
    }
    throw std::out_of_range("no such fault");
  };
  for (const Account& account : seen("roll-back-from-the-front")) {
    EXPECT_EQ(account.note, "");
    EXPECT_FALSE(account.same_bits) << to_text(account.schedule);
  }
  const auto refused = seen("row-lost-to-refusals");
  EXPECT_TRUE(refused.at(0).same_bits) << "nothing is refused under the schedule 1+1+1";
  EXPECT_EQ(refused.at(1).note,
            "invariant refusal-changes-nothing violated by an empty feed: changed");
  EXPECT_FALSE(refused.at(1).same_bits);
}

TEST(Accounting, one_token_has_one_schedule_and_the_whole_context_is_refused_more) {
  EXPECT_EQ(accounts(builtin_engine, {1}).size(), 1U);
  for (const Account& account : accounts(builtin_engine, {0, 1, 2, 2})) {
    EXPECT_EQ(account.note, "");
  }
}

TEST(Accounting, holds_in_float64_too) {
  const ModelData model = small_model();
  Bench bench = make_bench(model, {ScalarKind::f64, Arithmetic::matrix}, 1, builtin_engine);
  const PrefixTree tree = PrefixTree::of({{0, 1, 2}}, 4);
  int cases = 0;
  probe_accounting(bench, {.tree = tree}, [&](const Measured& measured) {
    EXPECT_EQ(measured.note, "");
    ++cases;
  });
  EXPECT_EQ(cases, 2);
}

Hooks holding(void (*change)(Held&)) {
  Hooks hooks;
  hooks.held = [change](const Engine& inner, SequenceId sequence) {
    Held held = inner.held(sequence);
    change(held);
    return held;
  };
  return hooks;
}

TEST(Accounting, every_number_of_a_sequence_is_checked) {
  EXPECT_EQ(note_of(holding([](Held& h) { h.rows += 1; })),
            "invariant length-is-consumed violated after open: expected 0, got 1");
  EXPECT_EQ(note_of(holding([](Held& h) { h.next_position += 1; })),
            "invariant next-position-is-length violated after open: expected 0, got 1");
  EXPECT_EQ(note_of(holding([](Held& h) { h.bytes += 8; })),
            "invariant bytes-are-rows violated after open: expected 0, got 8");
  // 2 layers, keys and values, 2 heads of 4 floats: 128 bytes a row.
  EXPECT_EQ(note_of(holding([](Held& h) { h.bytes *= 2; })),
            "invariant bytes-are-rows violated after a feed: expected 128, got 256");
  EXPECT_EQ(note_of(holding([](Held& h) { h.next_position = std::min(h.next_position, 2); })),
            "invariant next-position-is-length violated after a feed: expected 3, got 2");
}

TEST(Accounting, a_feed_answers_one_row_a_token) {
  Hooks hooks;
  hooks.feed = [](Engine& inner, std::span<const Feed> feeds, Rows, Logits& out) {
    inner.batch(feeds, Rows::last, out);
  };
  const auto found = accounts(hooked(hooks));
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[1].note, "invariant rows-answered violated by a feed: expected 3, got 1");
}

TEST(Accounting, a_roll_back_forgets_just_what_it_should) {
  Hooks keeps;
  keeps.truncate = [](Engine&, SequenceId, int) {};
  EXPECT_EQ(note_of(keeps),
            "invariant length-is-consumed violated after a roll back: expected 1, got 3");
  Hooks forgets;
  forgets.truncate = [](Engine& inner, SequenceId sequence, int) { inner.truncate(sequence, 0); };
  EXPECT_EQ(note_of(forgets),
            "invariant length-is-consumed violated after a roll back: expected 1, got 0");
}

// An engine that answers nothing instead of refusing feeds of this kind.
Hooks accepting(bool (*kind)(const Engine&, const Feed&)) {
  Hooks hooks;
  hooks.feed = [kind](Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
    if (kind(inner, feeds[0])) return;
    inner.batch(feeds, rows, out);
  };
  return hooks;
}

TEST(Accounting, what_must_be_refused_is_refused) {
  const auto past = [](const Engine& engine, const Feed& feed) {
    return engine.held(feed.sequence).rows + static_cast<int>(feed.tokens.size()) > 4;
  };
  EXPECT_EQ(refusal_of(accepting([](const Engine&, const Feed& f) { return f.tokens.empty(); })),
            "invariant refused-when-due violated by an empty feed: expected 1, got 0");
  EXPECT_EQ(
      refusal_of(accepting(
          [](const Engine&, const Feed& f) { return !f.tokens.empty() && f.tokens[0] > 2; })),
      "invariant refused-when-due violated by an id outside the vocabulary: expected 1, got 0");
  EXPECT_EQ(refusal_of(accepting(
                [](const Engine&, const Feed& f) { return !f.tokens.empty() && f.tokens[0] < 0; })),
            "invariant refused-when-due violated by a negative id: expected 1, got 0");
  EXPECT_EQ(refusal_of(accepting(past)),
            "invariant refused-when-due violated by a feed past the context: expected 1, got 0");
}

TEST(Accounting, a_refusal_changes_nothing) {
  Hooks hooks;
  hooks.feed = [](Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
    try {
      inner.batch(feeds, rows, out);
    } catch (const Error&) {
      inner.truncate(feeds[0].sequence, 0);
      throw;
    }
  };
  EXPECT_EQ(refusal_of(hooks),
            "invariant refusal-changes-nothing violated by an empty feed: changed");
}

// The roll back is what is wrong, not the engine: to say "broken" would lose what was found.
TEST(Accounting, a_wrong_fact_is_told_even_if_the_engine_refuses_later_on) {
  Hooks hooks;
  hooks.truncate = [](Engine& inner, SequenceId sequence, int length) {
    inner.truncate(sequence, length + 1);
  };
  const ModelData model = small_model();
  Bench bench = make_bench(model, {ScalarKind::f32, Arithmetic::row}, 1, hooked(hooks));
  const PrefixTree tree = PrefixTree::of({{0, 1, 2, 0}}, 4);
  std::vector<std::string> notes;
  const auto failure = run_probe(probe_accounting, bench, {.tree = tree},
                                 [&](const Measured& m) { notes.push_back(m.note); });
  EXPECT_FALSE(failure.has_value()) << failure->what;
  ASSERT_FALSE(notes.empty());
  EXPECT_EQ(notes[0], "invariant length-is-consumed violated after a roll back: expected 2, got 3");
}

TEST(Accounting, is_done_for_the_longest_prefixes_or_the_one_that_is_asked_for) {
  const ModelData model = small_model();
  Bench bench = make_bench(model, {ScalarKind::f32, Arithmetic::row}, 1, builtin_engine);
  const PrefixTree tree = PrefixTree::of({{0, 1, 2}, {0, 1}}, 4);
  std::vector<std::size_t> lengths;
  const Sink sink = [&](const Measured& measured) { lengths.push_back(measured.tokens.size()); };
  probe_accounting(bench, {.tree = tree}, sink);
  EXPECT_EQ(lengths, (std::vector<std::size_t>{3, 3}));
  lengths.clear();
  probe_accounting(
      bench,
      {.tree = tree, .scope = {.path = {0, 1}, .path_only = true}, .only_schedule = Schedule{2}},
      sink);
  EXPECT_EQ(lengths, (std::vector<std::size_t>{2}));
}

}  // namespace
}  // namespace kvcheck
