// SPDX-License-Identifier: MIT
// Whatever the kind of cache, a sequence answers with the rows of a full forward, to the last bit
// in row arithmetic: after rolling back, copying, reordering, saving and loading, alone and in
// batches. And each kind keeps its own contract.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "engine/builtin.h"
#include "engine/error.h"
#include "engine/generated.h"
#include "engine/test_support.h"

namespace kvcheck {
namespace {

using Tokens = std::vector<int>;

// Rotary, context 16; layer 0 sees a window of 4, layer 1 everything.
Model<float> small_rotary() {
  Config config = tiny_config();
  config.vocabulary = 13;
  config.width = 8;
  config.layers = 2;
  config.query_heads = 2;
  config.kv_heads = 1;
  config.head_size = 4;
  config.mlp_width = 8;
  config.context = 16;
  config.positions = Positions::rotary;
  config.windows = {4, 0};
  return random_model(config, WeightScales{}, 3);
}

std::vector<CacheKind> kinds() {
  std::vector<CacheKind> kinds = cache_kinds();
  kinds.push_back(cache_kind("paged:1", "test"));
  kinds.push_back(cache_kind("paged:16", "test"));
  kinds.push_back(cache_kind("paged:3", "test"));
  return kinds;
}

// An engine beside the text of every sequence.
class Checked {
 public:
  explicit Checked(const CacheKind& kind) : engine_(small_rotary(), Arithmetic::row, kind) {}

  SequenceId open() { return note(engine_.open(), {}); }
  void feed(const std::vector<std::pair<SequenceId, int>>& counts, Rows rows = Rows::all) {
    std::vector<Tokens> tokens;
    for (const auto& [sequence, count] : counts) {
      tokens.emplace_back();
      for (int i = 0; i < count; ++i) tokens.back().push_back((7 * next_++ + 3) % 13);
    }
    feed_tokens(counts, tokens, rows);
  }
  void prompt(SequenceId sequence, const Tokens& tokens) {
    feed_tokens({{sequence, static_cast<int>(tokens.size())}}, {tokens}, Rows::last);
  }
  void truncate(SequenceId sequence, int length) {
    engine_.truncate(sequence, length);
    texts_.at(sequence).resize(static_cast<std::size_t>(length));
    look_at_all();
  }
  SequenceId fork(SequenceId sequence) { return note(engine_.fork(sequence), texts_.at(sequence)); }
  void reorder(const std::vector<SequenceId>& sequences, const std::vector<int>& from) {
    engine_.reorder(sequences, from);
    const auto before = texts_;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      texts_[sequences[i]] = before.at(sequences[static_cast<std::size_t>(from[i])]);
    }
    look_at_all();
  }
  SequenceId load(const State& state, const Tokens& text) {
    return note(engine_.load(state), text);
  }
  void close(SequenceId sequence) {
    engine_.close(sequence);
    texts_.erase(sequence);
    look_at_all();
  }

  Builtin<float>& engine() { return engine_; }
  const Tokens& text(SequenceId sequence) { return texts_.at(sequence); }

 private:
  SequenceId note(SequenceId sequence, Tokens text) {
    texts_[sequence] = std::move(text);
    look_at_all();
    return sequence;
  }

  void feed_tokens(const std::vector<std::pair<SequenceId, int>>& counts,
                   const std::vector<Tokens>& tokens, Rows rows) {
    std::vector<Feed> feeds;
    for (std::size_t i = 0; i < counts.size(); ++i) feeds.push_back({counts[i].first, tokens[i]});
    Logits found;
    engine_.batch(feeds, rows, found);
    int at = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      Tokens& text = texts_.at(counts[i].first);
      const int before = static_cast<int>(text.size());
      text.insert(text.end(), tokens[i].begin(), tokens[i].end());
      Logits expected;
      engine_.full({text}, Rows::all, expected);
      const int first = rows == Rows::all ? before : static_cast<int>(text.size()) - 1;
      for (int row = first; row < static_cast<int>(text.size()); ++row, ++at) {
        EXPECT_TRUE(std::ranges::equal(found.row(at), expected.row(row))) << "row " << row;
      }
    }
    EXPECT_EQ(at, found.rows());
    look_at_all();
  }

  void look_at_all() {
    for (const auto& [sequence, text] : texts_) {
      const Held held = engine_.held(sequence);  // throws for guards, poison, references
      EXPECT_EQ(held.rows, static_cast<int>(text.size()));
      EXPECT_EQ(held.next_position, static_cast<int>(text.size()));
    }
  }

  Builtin<float> engine_;
  std::map<SequenceId, Tokens> texts_;
  int next_ = 0;
};

class CacheKinds : public testing::TestWithParam<CacheKind> {};
INSTANTIATE_TEST_SUITE_P(All, CacheKinds, testing::ValuesIn(kinds()), [](const auto& kind) {
  std::string text = name(kind.param);
  std::ranges::replace(text, ':', '_');
  std::ranges::replace(text, '-', '_');
  return text;
});

TEST_P(CacheKinds, feeds_by_ones_by_chunks_and_up_to_the_context) {
  Checked checked(GetParam());
  const SequenceId a = checked.open();
  for (const int count : {1, 1, 3, 5, 1, 4, 1}) checked.feed({{a, count}});
  EXPECT_EQ(error_of([&] {
              checked.feed({{a, 1}});
            }),
            "feed: past the context, expected at most 16 rows, got 17");
  const SequenceId b = checked.open();
  checked.feed({{b, 16}});
}

TEST_P(CacheKinds, goes_on_after_rolling_back_by_one_and_to_nothing) {
  Checked checked(GetParam());
  const SequenceId a = checked.open();
  checked.feed({{a, 7}});
  checked.truncate(a, 6);
  checked.feed({{a, 3}});
  checked.truncate(a, 8);
  checked.feed({{a, 1}});
  checked.truncate(a, 0);
  checked.feed({{a, 5}});
}

TEST_P(CacheKinds, copies_go_their_own_ways) {
  Checked checked(GetParam());
  const SequenceId parent = checked.open();
  checked.feed({{parent, 5}});
  const SequenceId child = checked.fork(parent);
  const SequenceId other = checked.fork(child);
  checked.feed({{child, 1}});
  checked.feed({{parent, 1}});
  checked.truncate(other, 4);
  checked.feed({{other, 3}});
  checked.close(parent);
  checked.feed({{child, 2}, {other, 1}});
}

TEST_P(CacheKinds, batches_of_unequal_rows_join_and_leave) {
  Checked checked(GetParam());
  const SequenceId a = checked.open();
  const SequenceId b = checked.open();
  checked.feed({{a, 5}, {b, 2}});
  checked.feed({{a, 1}, {b, 1}});
  const SequenceId c = checked.open();
  checked.feed({{c, 3}, {a, 1}});
  checked.close(b);
  for (int i = 0; i < 6; ++i) checked.feed({{a, 1}, {c, 1}});
  const SequenceId d = checked.open();
  checked.feed({{d, 16}});
  checked.feed({{c, 7}, {a, 1}});
}

TEST_P(CacheKinds, reorders_with_repeats) {
  Checked checked(GetParam());
  const SequenceId a = checked.open();
  const SequenceId b = checked.open();
  const SequenceId c = checked.open();
  checked.feed({{a, 3}, {b, 6}, {c, 1}});
  checked.reorder({a, b}, {1, 0});
  checked.feed({{a, 1}, {b, 1}, {c, 1}});
  checked.reorder({a, b, c}, {2, 2, 0});
  checked.feed({{a, 2}, {b, 1}, {c, 1}});
}

TEST_P(CacheKinds, loads_what_was_saved_into_a_fresh_a_dirty_and_a_fragmented_engine) {
  Checked checked(GetParam());
  const SequenceId a = checked.open();
  checked.feed({{a, 7}});
  const State state = checked.engine().save(a);
  const Tokens text = checked.text(a);
  checked.feed({{a, 2}});
  const SequenceId loaded = checked.load(state, text);
  checked.feed({{loaded, 2}, {a, 1}});
  checked.close(a);
  checked.truncate(loaded, 0);
  const SequenceId again = checked.load(state, text);
  checked.feed({{again, 9}});
  Builtin<float> fresh(small_rotary(), Arithmetic::row, GetParam());
  const SequenceId there = fresh.load(state);
  EXPECT_EQ(fresh.held(there).rows, 7);
  EXPECT_EQ(fresh.save(there), state);
}

TEST_P(CacheKinds, other_bytes_are_not_loaded) {
  Builtin<float> engine(small_rotary(), Arithmetic::row, GetParam());
  const SequenceId a = engine.open();
  Logits out;
  engine.feed(a, Tokens{1, 2, 3}, Rows::last, out);
  const State state = engine.save(a);
  for (std::size_t size = 0; size < state.size(); size += 7) {
    EXPECT_THROW((void)engine.load(std::span(state).first(size)), Error) << size;
  }
  for (std::size_t i = 0; i < 16; ++i) {
    State other = state;
    other[i] ^= std::byte{1};
    EXPECT_THROW((void)engine.load(other), Error) << i;
  }
  State longer = state;
  longer.push_back(std::byte{0});
  EXPECT_THROW((void)engine.load(longer), Error);
  EXPECT_EQ(engine.held(a).rows, 3);
  Builtin<double> wider(small_rotary(), Arithmetic::row, GetParam());
  EXPECT_THROW((void)wider.load(state), Error);
}

TEST_P(CacheKinds, a_fingerprint_changes_with_the_rows_and_only_with_them) {
  Builtin<float> engine(small_rotary(), Arithmetic::row, GetParam());
  Logits out;
  const SequenceId a = engine.open();
  const SequenceId b = engine.open();
  engine.feed(a, Tokens{1, 2, 3}, Rows::last, out);
  engine.feed(b, Tokens{1, 2}, Rows::last, out);
  const std::uint64_t before = engine.fingerprint(a);
  EXPECT_NE(before, engine.fingerprint(b));
  engine.feed(b, Tokens{3}, Rows::last, out);
  EXPECT_EQ(before, engine.fingerprint(a));
  EXPECT_EQ(before, engine.fingerprint(b)) << "the same rows";
  engine.truncate(a, 2);
  EXPECT_NE(before, engine.fingerprint(a));
  engine.feed(a, Tokens{4}, Rows::last, out);
  EXPECT_NE(before, engine.fingerprint(a));
}

// Rows 8 to 11 are held, the first row that is fed after a roll back sees three before it.
TEST(RingCache, refuses_to_roll_back_past_what_it_holds_and_is_then_as_it_was) {
  Checked checked(cache_kind("ring", "test"));
  const SequenceId a = checked.open();
  checked.feed({{a, 12}});
  const std::uint64_t before = checked.engine().fingerprint(a);
  for (const int length : {10, 4, 1}) {
    EXPECT_THROW(checked.engine().truncate(a, length), Error) << length;
    EXPECT_EQ(checked.engine().fingerprint(a), before);
  }
  checked.feed({{a, 1}});
  checked.truncate(a, 12);
  EXPECT_THROW(checked.engine().truncate(a, 11), Error) << "row 8 is overwritten";
  checked.feed({{a, 2}});
  checked.truncate(a, 0);
  checked.feed({{a, 4}});
  checked.truncate(a, 1);
  checked.feed({{a, 3}});
}

TEST(RingCache, holds_a_window_of_rows_in_layers_that_have_one) {
  Builtin<float> engine(small_rotary(), Arithmetic::row, cache_kind("ring", "test"));
  const SequenceId a = engine.open();
  Logits out;
  engine.feed(a, Tokens{1, 2, 3, 4, 5, 6}, Rows::last, out);
  EXPECT_EQ(engine.cache(a).store().slots(0), 4);
  EXPECT_EQ(engine.cache(a).store().slots(1), 16);
  EXPECT_EQ(engine.held(a).bytes, (4 + 6) * 2 * 4 * 4);
  EXPECT_FALSE(engine.hello().can.shift || engine.hello().can.evict);
}

TEST(GrowingCache, doubles_its_capacity_up_to_the_context) {
  Checked checked(cache_kind("growing", "test"));
  const SequenceId a = checked.open();
  std::vector<int> seen;
  for (int i = 0; i < 16; ++i) {
    checked.feed({{a, 1}});
    const int capacity = checked.engine().cache(a).capacity();
    if (seen.empty() || seen.back() != capacity) seen.push_back(capacity);
  }
  EXPECT_EQ(seen, (std::vector<int>{1, 2, 4, 8, 16}));
}

TEST(PagedCache, a_prompt_takes_the_full_blocks_of_an_earlier_one_that_begins_so) {
  Checked checked(cache_kind("paged:2", "test"));
  const SequenceId a = checked.open();
  checked.prompt(a, {1, 2, 3, 4, 5});
  Builtin<float>& engine = checked.engine();
  EXPECT_EQ(engine.lookup(Tokens{1, 2, 3, 4, 5}), 4);
  EXPECT_EQ(engine.lookup(Tokens{1, 2, 3, 4}), 2) << "one row is left to be computed";
  EXPECT_EQ(engine.lookup(Tokens{1, 2, 3, 9}), 2);
  EXPECT_EQ(engine.lookup(Tokens{2, 3, 4, 5}), 0);
  EXPECT_EQ(engine.lookup(Tokens{9, 2, 3, 4, 5}), 0) << "the tokens before count";
  const SequenceId b = checked.open();
  checked.prompt(b, {1, 2, 3, 4, 9});
  EXPECT_EQ(engine.places(a).blocks[0], engine.places(b).blocks[0]);
  EXPECT_EQ(engine.places(a).blocks[1], engine.places(b).blocks[1]);
  EXPECT_NE(engine.places(a).blocks[2], engine.places(b).blocks[2]);
  checked.truncate(a, 3);
  checked.feed({{a, 2}});
  checked.feed({{b, 1}});
  EXPECT_NE(engine.places(a).blocks[1], engine.places(b).blocks[1]);
}

TEST(PagedCache, remembers_blocks_that_nobody_holds_until_they_are_taken) {
  Checked checked(cache_kind("paged:2", "test"));
  const SequenceId a = checked.open();
  checked.prompt(a, {1, 2, 3, 4, 5});
  checked.close(a);
  EXPECT_EQ(checked.engine().lookup(Tokens{1, 2, 3, 4, 5}), 4);
  const SequenceId b = checked.open();
  checked.prompt(b, {1, 2, 3, 4, 5, 6});
  checked.close(b);
  for (int i = 0; i < 4; ++i) checked.feed({{checked.open(), 16}});
  EXPECT_EQ(checked.engine().lookup(Tokens{1, 2, 3, 4, 5}), 0);
}

TEST(PagedCache, a_rolled_back_row_of_a_remembered_block_is_not_offered_changed) {
  Checked checked(cache_kind("paged:2", "test"));
  const SequenceId a = checked.open();
  checked.prompt(a, {1, 2, 3, 4, 5});
  checked.truncate(a, 3);
  checked.feed({{a, 1}});
  const SequenceId b = checked.open();
  checked.prompt(b, {1, 2, 3, 4, 6});
}

TEST(PaddedCache, moves_rows_together_when_the_columns_are_used_up) {
  for (const std::string_view kind : {"padded-left", "padded-right"}) {
    Checked checked(cache_kind(kind, "test"));
    const SequenceId a = checked.open();
    const SequenceId b = checked.open();
    checked.feed({{a, 3}, {b, 6}});
    const auto slots = checked.engine().places(a).slots;
    EXPECT_EQ(slots.front(), kind == "padded-left" ? 3 : 0);
    for (int i = 0; i < 40; ++i) {
      checked.feed({{b, 9}});
      checked.truncate(b, 6);
    }
    checked.feed({{a, 2}, {b, 1}});
  }
}

// The rows that are stored in fewer bits give other logits than whole ones, and the oracle that
// rounds as they do gives the same.
TEST(ReducedCache, loses_something_and_the_oracle_loses_the_same) {
  Builtin<float> whole(small_rotary(), Arithmetic::row);
  Logits expected;
  whole.full({Tokens{1, 2, 3, 4, 5}}, Rows::all, expected);
  for (const std::string_view kind : {"bf16", "f16", "int8"}) {
    Builtin<float> engine(small_rotary(), Arithmetic::row, cache_kind(kind, "test"));
    Logits found;
    engine.feed(engine.open(), Tokens{1, 2, 3, 4, 5}, Rows::all, found);
    EXPECT_NE(found.values, expected.values) << kind;
    for (std::size_t i = 0; i < found.values.size(); ++i) {
      EXPECT_NEAR(found.values[i], expected.values[i], 0.2) << kind;
    }
    EXPECT_LT(engine.held(0).bytes, 5 * 2 * 2 * 4 * 4);
  }
}

// One layer: a row's keys and values depend on its own token only, so the rows that are kept are
// those of the shortened text, at the positions that they had.
TEST(DroppedRows, of_one_layer_are_as_if_they_had_never_been) {
  Config config = small_rotary().config;
  config.layers = 1;
  config.windows = {0};
  const Model<float> model = random_model(config, WeightScales{}, 4);
  for (const CacheKind& kind : kinds()) {
    Builtin<float> engine(model, Arithmetic::row, kind);
    if (!engine.hello().can.shift) continue;
    Logits found, expected;
    const SequenceId a = engine.open();
    engine.feed(a, Tokens{1, 2, 3, 4, 5}, Rows::last, found);
    const SequenceId sharer = engine.fork(a);
    const std::uint64_t before = engine.fingerprint(sharer);
    engine.shift(a, 1, 3);
    EXPECT_EQ(engine.held(a).next_position, 3);
    EXPECT_EQ(engine.fingerprint(sharer), before);
    engine.feed(a, Tokens{6}, Rows::last, found);
    engine.full({Tokens{1, 4, 5, 6}}, Rows::last, expected);
    for (std::size_t i = 0; i < found.values.size(); ++i) {
      EXPECT_NEAR(found.values[i], expected.values[i], 1e-5) << name(kind);
    }
    engine.evict(a, 0, 1);
    EXPECT_EQ(engine.held(a).next_position, 4);
    EXPECT_EQ(engine.held(a).rows, 3);
    EXPECT_EQ(engine.places(a).positions, (std::vector<int>{1, 2, 3}));
    engine.feed(a, Tokens{7}, Rows::last, found);
    engine.full({Tokens{4, 5, 6, 7}}, Rows::last, expected);  // rotary: only distances matter
    for (std::size_t i = 0; i < found.values.size(); ++i) {
      EXPECT_NEAR(found.values[i], expected.values[i], 1e-5) << name(kind);
    }
  }
}

TEST(CacheKind, has_a_name_that_is_read_back) {
  for (const CacheKind& kind : kinds()) EXPECT_EQ(cache_kind(name(kind), "test"), kind);
  EXPECT_EQ(name(cache_kind("paged", "test")), "paged:2");
  EXPECT_EQ(error_of([] { (void)cache_kind("paged:0", "--cache-kind"); }),
            "--cache-kind: rows of a block, expected a number from 1 to 65536, got \"0\"");
  EXPECT_EQ(error_of([] { (void)cache_kind("flat:2", "--cache-kind"); }),
            "--cache-kind: unknown cache kind, expected flat, growing, ring, paged[:B], "
            "padded-left, padded-right, bf16, f16 or int8, got \"flat:2\"");
}

}  // namespace
}  // namespace kvcheck
