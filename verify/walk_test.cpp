// SPDX-License-Identifier: MIT
// The walk asks an engine for just what it must: each prefix once, from its own tokens, on
// sequences that are closed again. The engine here answers with what it was asked.
#include "verify/walk.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "engine/error.h"

namespace kvcheck {
namespace {

using Tokens = std::vector<int>;

// A number that is different for every sequence of a test.
double code(std::span<const int> tokens) {
  double number = 1;
  for (const int token : tokens) number = number * 131 + token;
  return number;
}

// Rows are [code of the tokens, their number]; cached ones have half a unit more.
class ScriptedEngine final : public Engine {
 public:
  explicit ScriptedEngine(bool fork = true, bool batch = true) {
    hello_.vocabulary = 2;  // logits a row, whatever the tree walks over
    hello_.can.fork = fork;
    hello_.can.batch = batch;
  }

  const Hello& hello() const override { return hello_; }

  void full(const TokenBlock& block, Rows rows, Logits& out) override {
    out = {2, {}};
    if (rows == Rows::all) {
      EXPECT_EQ(block.sequences, 1);
      for (std::size_t n = 1; n <= block.tokens.size(); ++n) {
        answer({block.tokens.begin(), block.tokens.begin() + static_cast<std::ptrdiff_t>(n)}, 0,
               out);
      }
      whole.emplace_back(block.tokens.begin(), block.tokens.end());
      return;
    }
    widest = std::max(widest, block.sequences);
    std::vector<Tokens> block_tokens;
    for (int b = 0; b < block.sequences; ++b) {
      Tokens tokens;
      for (int t = 0; t < block.length(); ++t) {
        tokens.push_back(block.tokens[static_cast<std::size_t>(t * block.sequences + b)]);
      }
      answer(tokens, 0, out);
      if (tokens == fails_at) throw EngineError("out of paper");
      block_tokens.push_back(tokens);
      computed.push_back(std::move(tokens));
    }
    block_tokens.push_back({-1});  // to tell it from a batch
    blocks.insert(std::move(block_tokens));
  }

  SequenceId open() override { return add({}); }
  void close(SequenceId sequence) override { EXPECT_EQ(held_.erase(sequence), 1U); }

  void feed(SequenceId sequence, std::span<const int> tokens, Rows rows, Logits& out) override {
    const Feed one{sequence, tokens};
    batch(std::span(&one, 1), rows, out);
    --batches;
    ++fed;
  }

  void batch(std::span<const Feed> feeds, Rows, Logits& out) override {
    ++batches;
    out = {2, {}};
    std::vector<Tokens> fed_tokens;
    for (const Feed& feed : feeds) {
      Tokens& tokens = held_.at(feed.sequence);
      EXPECT_EQ(feed.tokens.size(), 1U);
      tokens.insert(tokens.end(), feed.tokens.begin(), feed.tokens.end());
      answer(tokens, 0.5, out);
      fed_tokens.push_back(tokens);
    }
    blocks.insert(std::move(fed_tokens));
  }

  void truncate(SequenceId, int) override { ++truncated; }
  SequenceId fork(SequenceId sequence) override {
    ++forked;
    return add(held_.at(sequence));
  }
  Held held(SequenceId) const override { return {}; }

  [[nodiscard]] std::size_t still_open() const { return held_.size(); }

  std::vector<Tokens> computed;          // by the oracle, one after the other
  std::set<std::vector<Tokens>> blocks;  // what was computed side by side, by either path
  Tokens fails_at;                       // the oracle does, whatever stands beside it
  std::vector<Tokens> whole;             // with all rows, likewise
  int widest = 0;                        // most sequences side by side
  int forked = 0;
  int truncated = 0;
  int batches = 0;
  int fed = 0;
  std::size_t most_open = 0;

 private:
  SequenceId add(Tokens tokens) {
    held_[next_] = std::move(tokens);
    most_open = std::max(most_open, held_.size());
    return next_++;
  }
  static void answer(const Tokens& tokens, double more, Logits& out) {
    out.values.push_back(code(tokens) + more);
    out.values.push_back(static_cast<double>(tokens.size()) + more);
  }

  Hello hello_;
  SequenceId next_ = 0;
  std::map<SequenceId, Tokens> held_;
};

// Its floors are the codes of the sequences.
class ScriptedMeter final : public NoiseMeter {
 public:
  void floors(const TokenBlock& block, const Logits& uncached, std::uint64_t seed,
              std::vector<NoiseFloor>& out, const EnoughFloors&) override {
    ++calls;
    out.clear();
    if (uncached.rows() == 0) {
      whole.emplace_back(block.tokens.begin(), block.tokens.end());
      for (std::size_t n = 1; n <= block.tokens.size(); ++n) {
        out.push_back({code(block.tokens.first(n)), static_cast<double>(seed)});
      }
      return;
    }
    measured += block.sequences;
    for (int b = 0; b < block.sequences; ++b) {
      Tokens tokens;
      for (int t = 0; t < block.length(); ++t) {
        tokens.push_back(block.tokens[static_cast<std::size_t>(t * block.sequences + b)]);
      }
      EXPECT_EQ(uncached.row(b)[0], code(tokens));
      out.push_back({code(tokens), static_cast<double>(seed)});
    }
  }
  void floors(std::span<const LoggedRow>, const Logits&, std::uint64_t, std::vector<NoiseFloor>&,
              const EnoughFloors&) override {
    throw InternalError("a walk has no logs");
  }

  int calls = 0;
  int measured = 0;           // rows of several sequences
  std::vector<Tokens> whole;  // sequences of which it computed every row itself
};

PrefixTree whole(int vocabulary, int context) {
  Config config;
  config.vocabulary = vocabulary;
  config.context = context;
  return PrefixTree::all(config);
}

using Steps = PrefixWalk::CachedSteps;

// The prefixes that are visited, after looking at every row that the walk holds at each.
std::vector<Tokens> walk(const PrefixTree& tree, ScriptedEngine& engine, Steps steps,
                         const Scope& scope = {}) {
  std::vector<Tokens> visited;
  PrefixWalk walk(tree, engine, steps);
  walk.run(scope, [&](PrefixWalk& at) {
    const std::span<const int> prefix = at.prefix();
    visited.emplace_back(prefix.begin(), prefix.end());
    for (std::size_t n = 1; n <= prefix.size(); ++n) {
      EXPECT_EQ(at.reference(static_cast<int>(n))[0], code(prefix.first(n)));
      EXPECT_EQ(at.reference(static_cast<int>(n))[1], static_cast<double>(n));
    }
    if (steps == Steps::along) {
      EXPECT_EQ(at.cached()[0], code(prefix) + 0.5);
      EXPECT_EQ(at.cached()[1], static_cast<double>(prefix.size()) + 0.5);
    }
  });
  EXPECT_EQ(engine.still_open(), 0U);
  return visited;
}

std::string text_of(const std::vector<Tokens>& prefixes) {
  std::string text;
  for (const Tokens& prefix : prefixes) text += fmt::format("{} ", fmt::join(prefix, ""));
  return text;
}

TEST(PrefixWalk, visits_every_sequence_once_depth_first) {
  for (const Steps steps : {Steps::none, Steps::along}) {
    ScriptedEngine engine;
    EXPECT_EQ(text_of(walk(whole(2, 3), engine, steps)),
              "0 00 000 001 01 010 011 1 10 100 101 11 110 111 ");
  }
}

TEST(PrefixWalk, visits_given_sequences_once_depth_first) {
  for (const Steps steps : {Steps::none, Steps::along}) {
    ScriptedEngine engine;
    const PrefixTree tree = PrefixTree::of({{1, 2, 3}, {1, 2, 4}, {1, 5}, {0}, {1, 2}}, 3);
    EXPECT_EQ(text_of(walk(tree, engine, steps)), "0 1 12 123 124 15 ");
  }
}

TEST(PrefixWalk, the_oracle_computes_each_prefix_once_from_its_own_tokens) {
  ScriptedEngine engine;
  (void)walk(whole(3, 4), engine, Steps::along);
  EXPECT_EQ(engine.computed.size(), 120U);
  EXPECT_EQ(std::set(engine.computed.begin(), engine.computed.end()).size(), 120U);
  ScriptedEngine given;
  (void)walk(PrefixTree::of({{0, 1, 2}, {0, 1, 1}, {2}}, 3), given, Steps::along);
  EXPECT_EQ(text_of(given.computed), "0 01 011 012 2 ");
  EXPECT_EQ(given.widest, 1);
}

TEST(PrefixWalk, over_a_vocabulary_siblings_are_copies_that_step_together) {
  ScriptedEngine engine;
  (void)walk(whole(3, 4), engine, Steps::along);
  EXPECT_EQ(engine.forked, 120);
  EXPECT_EQ(engine.fed, 0);
  EXPECT_EQ(engine.truncated, 0);
}

TEST(PrefixWalk, children_of_several_parents_are_computed_together_as_the_walk_goes_on) {
  ScriptedEngine engine;
  (void)walk(whole(8, 4), engine, Steps::along);
  EXPECT_EQ(engine.widest, 64);
  // The first tokens; behind each its second ones; third ones after 0, 1, 2 3 and 4 to 7; fourth
  // ones of the first eight parents likewise, and then of eight at once.
  EXPECT_EQ(engine.batches, 1 + 8 * (1 + 4 + (4 + 7)));
}

TEST(PrefixWalk, a_restricted_walk_computes_what_is_computed_together_without_it) {
  for (const int vocabulary : {2, 3, 8, 21, 33, 65}) {
    const PrefixTree tree = whole(vocabulary, vocabulary < 9 ? 4 : vocabulary < 65 ? 3 : 2);
    ScriptedEngine all;
    const std::vector<Tokens> prefixes = walk(tree, all, Steps::along);
    const auto& blocks = all.blocks;
    for (std::size_t i = 0; i < prefixes.size(); i += 1 + prefixes.size() / 100) {
      ScriptedEngine one;
      (void)walk(tree, one, Steps::along, {.path = prefixes[i], .path_only = true});
      EXPECT_EQ(one.blocks.size(), 2 * prefixes[i].size()) << "of the oracle, and batches";
      for (const auto& block : one.blocks) EXPECT_TRUE(blocks.contains(block)) << i;
    }
  }
}

TEST(PrefixWalk, an_engine_that_cannot_copy_is_fed_each_prefix_again) {
  ScriptedEngine engine(false, true);
  (void)walk(whole(8, 3), engine, Steps::along);
  EXPECT_EQ(engine.forked, 0);
  EXPECT_EQ(engine.widest, 32);
  EXPECT_EQ(engine.batches, 1 + 8 * (1 + 4));
  EXPECT_EQ(engine.fed, 64 * 1 + 512 * 2);
}

TEST(PrefixWalk, an_engine_that_feeds_one_sequence_at_a_time_is_fed_so) {
  ScriptedEngine engine(true, false);
  (void)walk(whole(8, 3), engine, Steps::along);
  EXPECT_EQ(engine.forked, 8 + 64 + 512);
  EXPECT_EQ(engine.batches, 0);
  EXPECT_EQ(engine.fed, 8 + 64 + 512);
}

TEST(PrefixWalk, an_engine_that_can_do_neither_is_fed_each_prefix_again_one_by_one) {
  ScriptedEngine engine(false, false);
  (void)walk(whole(8, 3), engine, Steps::along);
  EXPECT_EQ(engine.forked, 0);
  EXPECT_EQ(engine.batches, 0);
  EXPECT_EQ(engine.fed, 8 * 1 + 64 * 2 + 512 * 3);
}

TEST(PrefixWalk, given_sequences_are_fed_and_never_copied_or_rolled_back) {
  ScriptedEngine engine;
  (void)walk(PrefixTree::of({{1, 2, 3}, {1, 2, 4}, {1, 5, 6}}, 3), engine, Steps::along);
  EXPECT_EQ(engine.forked, 0);
  EXPECT_EQ(engine.truncated, 0);
  EXPECT_EQ(engine.batches, 0);
  EXPECT_EQ(engine.fed, 3 + (2 + 1) + (1 + 1 + 1)) << "further children are fed again";
}

TEST(PrefixWalk, without_cached_steps_no_sequence_is_opened) {
  ScriptedEngine engine;
  (void)walk(whole(3, 3), engine, Steps::none);
  EXPECT_EQ(engine.most_open, 0U);
}

TEST(PrefixWalk, holds_no_more_sequences_than_siblings_at_every_depth) {
  ScriptedEngine engine;
  (void)walk(whole(2, 12), engine, Steps::along);
  EXPECT_LE(engine.most_open, 1U + 12U * static_cast<unsigned>(kSiblingsMax));
  EXPECT_GE(engine.most_open, static_cast<unsigned>(kSiblingsMax));
  ScriptedEngine given;
  std::vector<Tokens> sequences;
  for (int i = 0; i < 64; ++i) sequences.push_back({i % 4, i / 4 % 4, i / 16});
  (void)walk(PrefixTree::of(sequences, 3), given, Steps::along);
  EXPECT_LE(given.most_open, 1U + 3U);
}

TEST(PrefixWalk, many_siblings_are_computed_in_portions) {
  for (const int vocabulary : {kSiblingsMax, kSiblingsMax + 1, 2 * kSiblingsMax + 5}) {
    ScriptedEngine engine;
    const auto visited = walk(whole(vocabulary, 2), engine, Steps::along);
    EXPECT_EQ(static_cast<int>(visited.size()), vocabulary + vocabulary * vocabulary);
    EXPECT_EQ(std::set(visited.begin(), visited.end()).size(), visited.size());
    EXPECT_EQ(engine.widest, kSiblingsMax);
    EXPECT_LE(engine.most_open, 1U + 2U * static_cast<unsigned>(kSiblingsMax));
  }
}

TEST(PrefixWalk, a_path_restricts_it_to_what_begins_so) {
  for (const bool given : {false, true}) {
    const PrefixTree tree =
        given ? PrefixTree::of({{0, 0}, {1, 0, 1}, {1, 1, 0}, {1, 1, 1}}, 3) : whole(2, 3);
    ScriptedEngine engine;
    EXPECT_EQ(text_of(walk(tree, engine, Steps::along, {.path = {1, 1}})), "11 110 111 ");
    ScriptedEngine one;
    EXPECT_EQ(text_of(walk(tree, one, Steps::along, {.path = {1}})),
              given ? "1 10 101 11 110 111 " : "1 10 100 101 11 110 111 ");
  }
}

TEST(PrefixWalk, path_only_visits_one_prefix) {
  for (const Steps steps : {Steps::none, Steps::along}) {
    ScriptedEngine engine;
    const Scope scope{.path = {2, 0}, .path_only = true};
    EXPECT_EQ(text_of(walk(whole(3, 4), engine, steps, scope)), "20 ");
    EXPECT_EQ(engine.computed.size(), 6U) << "its siblings and those of its parent";
    ScriptedEngine given;
    EXPECT_EQ(text_of(walk(PrefixTree::of({{2, 0, 1}, {2, 1}}, 4), given, steps, scope)), "20 ");
    EXPECT_EQ(text_of(given.computed), "2 20 ");
  }
}

TEST(PrefixWalk, a_path_that_is_not_in_the_tree_visits_nothing) {
  ScriptedEngine engine;
  EXPECT_TRUE(walk(PrefixTree::of({{0, 1}}, 4), engine, Steps::along, {.path = {1}}).empty());
  EXPECT_TRUE(walk(PrefixTree::of({}, 4), engine, Steps::along).empty());
}

TEST(PrefixWalk, tells_leaves_from_what_goes_on) {
  ScriptedEngine engine;
  const PrefixTree tree = PrefixTree::of({{1, 2, 3}, {1, 5}}, 3);
  std::string leaves;
  PrefixWalk walk(tree, engine, Steps::none);
  walk.run({}, [&](PrefixWalk& at) {
    leaves += fmt::format("{}{} ", fmt::join(at.prefix(), ""), at.leaf() ? "." : "");
  });
  EXPECT_EQ(leaves, "1 12 123. 15. ");
}

TEST(PrefixWalk, measures_floors_once_for_siblings_and_only_when_asked) {
  ScriptedEngine engine;
  ScriptedMeter meter;
  const PrefixTree tree = whole(3, 2);
  PrefixWalk walk(tree, engine, Steps::none);
  walk.run({}, [&](PrefixWalk& at) {
    if (at.prefix()[0] == 2) return;
    const int length = static_cast<int>(at.prefix().size());
    for (int n = 1; n <= length; ++n) {
      const NoiseFloor floor = at.floor(n, meter, 9);
      EXPECT_EQ(floor.floor, code(at.prefix().first(static_cast<std::size_t>(n))));
      EXPECT_EQ(floor.kappa, 9);
    }
  });
  EXPECT_EQ(meter.calls, 3) << "the first tokens together, and what follows 0 and 1";
}

TEST(PrefixWalk, measures_floors_of_the_siblings_only_where_more_stand_side_by_side) {
  ScriptedEngine engine;
  ScriptedMeter meter;
  const PrefixTree tree = whole(8, 3);
  PrefixWalk walk(tree, engine, Steps::none);
  walk.run({.path = {2, 5}}, [&](PrefixWalk& at) {
    const int length = static_cast<int>(at.prefix().size());
    EXPECT_EQ(at.floor(length, meter, 9).floor, code(at.prefix()));
  });
  EXPECT_EQ(engine.widest, 32);
  EXPECT_EQ(meter.calls, 2) << "those of [2 5], and of its children";
  EXPECT_EQ(meter.measured, 16);
}

TEST(PrefixWalk, a_failure_is_found_among_those_that_stand_side_by_side) {
  for (const Steps steps : {Steps::none, Steps::along}) {
    ScriptedEngine engine;
    engine.fails_at = {1, 6, 3};
    const PrefixTree tree = whole(8, 3);
    PrefixWalk walk(tree, engine, steps);
    Tokens last;
    EXPECT_THROW(walk.run({},
                          [&](PrefixWalk& at) {
                            last.assign(at.prefix().begin(), at.prefix().end());
                            EXPECT_EQ(at.reference(static_cast<int>(last.size()))[0], code(last));
                            if (steps == Steps::along) {
                              EXPECT_EQ(at.cached()[0], code(last) + 0.5);
                            }
                          }),
                 EngineError);
    EXPECT_EQ(last, (Tokens{1, 6})) << "all that come before were visited";
    EXPECT_EQ(Tokens(walk.prefix().begin(), walk.prefix().end()), (Tokens{1, 6, 0}));
  }
}

// After a failure the walk tells at which prefix it was, the first one of the siblings.
// 0 1 2 ... of the given length, behind a first token.
Tokens counting(int first, int length) {
  Tokens tokens{first};
  for (int i = 1; i < length; ++i) tokens.push_back(i);
  return tokens;
}

TEST(PrefixWalk, measures_the_floors_of_a_long_way_in_one_forward) {
  ScriptedEngine engine;
  ScriptedMeter meter;
  const int length = kBranchRowsMin + 3;
  const PrefixTree tree = PrefixTree::of({counting(7, length)}, 100);
  PrefixWalk walk(tree, engine, Steps::none);
  int visited = 0;
  walk.run({}, [&](PrefixWalk& at) {
    const int n = static_cast<int>(at.prefix().size());
    EXPECT_EQ(at.floor(n, meter, 5).floor, code(at.prefix()));
    ++visited;
  });
  EXPECT_EQ(visited, length);
  EXPECT_EQ(meter.whole, std::vector<Tokens>{counting(7, length)});
  EXPECT_EQ(meter.calls, 1);
  EXPECT_TRUE(engine.whole.empty()) << "no answer of the engine is in its floors";
  EXPECT_EQ(engine.computed.size(), static_cast<std::size_t>(length)) << "rows are still their own";
}

TEST(PrefixWalk, measures_no_floor_of_another_way) {
  ScriptedEngine engine;
  ScriptedMeter meter;
  const int length = kBranchRowsMin + 8;
  Tokens other = counting(7, length);
  for (std::size_t i = 5; i < other.size(); ++i) other[i] += 50;
  const PrefixTree tree = PrefixTree::of({counting(7, length), other, counting(8, length)}, 100);
  PrefixWalk walk(tree, engine, Steps::none);
  int visited = 0;
  walk.run({}, [&](PrefixWalk& at) {
    // All of them, from the longest to the shortest and back.
    const int end = static_cast<int>(at.prefix().size());
    for (int n = end; n >= 1; --n) {
      EXPECT_EQ(at.floor(n, meter, 5).floor, code(at.prefix().first(static_cast<std::size_t>(n))));
    }
    ++visited;
  });
  EXPECT_EQ(visited, 3 * length - 5);
  EXPECT_EQ(meter.whole.size(), 3U);
}

TEST(PrefixWalk, floors_asked_for_at_the_end_are_measured_in_one_forward_too) {
  ScriptedEngine engine;
  ScriptedMeter meter;
  const int length = kBranchRowsMin + 2;
  const PrefixTree tree = PrefixTree::of({counting(7, length)}, 100);
  PrefixWalk walk(tree, engine, Steps::none);
  walk.run({}, [&](PrefixWalk& at) {
    if (!at.leaf()) return;
    for (int n = 1; n <= length; ++n) {
      EXPECT_EQ(at.floor(n, meter, 5).floor, code(at.prefix().first(static_cast<std::size_t>(n))));
    }
  });
  EXPECT_EQ(meter.calls, 1);
}

TEST(PrefixWalk, a_full_oracle_computes_whole_sequences_and_samples) {
  ScriptedEngine engine;
  const int length = 40;
  const PrefixTree tree = PrefixTree::of({counting(7, length)}, 100);
  PrefixWalk walk(tree, engine, Steps::along, OracleChoice::full);
  walk.run({}, [&](PrefixWalk& at) {
    const int n = static_cast<int>(at.prefix().size());
    EXPECT_EQ(at.reference(n)[0], code(at.prefix()));
    EXPECT_EQ(at.cached()[0], code(at.prefix()) + 0.5);
  });
  std::vector<std::size_t> alone;
  for (const Tokens& tokens : engine.computed) alone.push_back(tokens.size());
  // The last ones are too few for one forward.
  EXPECT_EQ(alone, (std::vector<std::size_t>{1, 2, 4, 8, 16, 32}));
  EXPECT_EQ(engine.whole, std::vector<Tokens>{counting(7, length)});
}

TEST(PrefixWalk, a_sampled_oracle_leaves_the_others_out) {
  ScriptedEngine engine;
  const PrefixTree tree = PrefixTree::of({counting(7, 11)}, 100);
  PrefixWalk walk(tree, engine, Steps::none, OracleChoice::sampled);
  std::vector<int> found;
  walk.run({}, [&](PrefixWalk& at) {
    const int n = static_cast<int>(at.prefix().size());
    if (at.reference(n).empty()) return;
    EXPECT_EQ(at.reference(n)[0], code(at.prefix()));
    found.push_back(n);
  });
  EXPECT_EQ(found, (std::vector<int>{1, 2, 4, 8, 11}));
  EXPECT_TRUE(engine.whole.empty());
}

TEST(PrefixWalk, visits_only_the_lengths_of_its_scope_and_feeds_the_shorter_ones) {
  ScriptedEngine engine;
  const PrefixTree tree = PrefixTree::of({counting(7, 9), counting(8, 4)}, 100);
  PrefixWalk walk(tree, engine, Steps::along);
  std::vector<Tokens> visited;
  walk.run({.path = {}, .shortest = 4, .longest = 6}, [&](PrefixWalk& at) {
    visited.emplace_back(at.prefix().begin(), at.prefix().end());
    EXPECT_EQ(at.cached()[0], code(at.prefix()) + 0.5);
    EXPECT_EQ(at.reference(static_cast<int>(at.prefix().size()))[0], code(at.prefix()));
  });
  EXPECT_EQ(visited,
            (std::vector<Tokens>{counting(7, 4), counting(7, 5), counting(7, 6), counting(8, 4)}));
  EXPECT_EQ(engine.computed, visited) << "nothing else is recomputed";
  EXPECT_EQ(engine.fed, 6 + 4);
  EXPECT_EQ(engine.still_open(), 0U);
}

TEST(PrefixWalk, tells_where_the_engine_failed) {
  class Failing final : public NoiseMeter {
    void floors(const TokenBlock&, const Logits&, std::uint64_t, std::vector<NoiseFloor>&,
                const EnoughFloors&) override {
      throw EngineError("no");
    }
    void floors(std::span<const LoggedRow>, const Logits&, std::uint64_t, std::vector<NoiseFloor>&,
                const EnoughFloors&) override {}
  };
  ScriptedEngine engine;
  Failing meter;
  const PrefixTree tree = whole(2, 3);
  PrefixWalk walk(tree, engine, Steps::along);
  const auto fail = [&](PrefixWalk& at) {
    if (at.prefix().size() == 2) (void)at.floor(2, meter, 1);
  };
  EXPECT_THROW(walk.run({.path = {1}}, fail), EngineError);
  EXPECT_EQ(Tokens(walk.prefix().begin(), walk.prefix().end()), (Tokens{1, 0}));
}

TEST(PrefixWalk, can_be_run_again) {
  ScriptedEngine engine;
  const PrefixTree tree = whole(2, 2);
  PrefixWalk walk(tree, engine, Steps::along);
  for (int i = 0; i < 2; ++i) {
    int visits = 0;
    walk.run({}, [&](PrefixWalk& at) {
      EXPECT_EQ(at.cached()[0], code(at.prefix()) + 0.5);
      ++visits;
    });
    EXPECT_EQ(visits, 6);
  }
}

}  // namespace
}  // namespace kvcheck
