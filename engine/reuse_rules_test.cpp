// SPDX-License-Identifier: MIT
// The right answers about the reuse of rows, and what wrong ones lead to.
#include "engine/reuse_rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/builtin.h"
#include "engine/error.h"
#include "engine/generated.h"
#include "engine/test_support.h"

namespace kvcheck {
namespace {

constexpr CacheKind kPaged{.layout = CacheLayout::paged, .block = 2};
const std::vector<int> kPrompt{1, 2, 3, 4, 5, 6, 7};

Model<float> small_model(std::uint64_t seed = 3) {
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
  return random_model(config, WeightScales{}, seed);
}

std::vector<double> answer(Builtin<float>& engine, std::span<const int> prompt) {
  Logits found;
  engine.feed(engine.open(), prompt, Rows::last, found);
  return found.values;
}

std::vector<double> expected(Builtin<float>& engine, std::span<const int> prompt) {
  Logits found;
  engine.full({prompt, 1}, Rows::last, found);
  return found.values;
}

TEST(ReuseRules, leave_a_token_to_be_computed) {
  EXPECT_EQ(rows_provided({.known = 4, .tokens = 5, .block = 2}), 4);
  EXPECT_EQ(rows_provided({.known = 4, .tokens = 4, .block = 2}), 2);
  EXPECT_EQ(rows_provided({.known = 2, .tokens = 5, .block = 2}), 2);
  EXPECT_EQ(rows_provided({.known = 3, .tokens = 3, .block = 1}), 2);
  EXPECT_EQ(rows_provided({.known = 0, .tokens = 0, .block = 1}), 0);
}

TEST(ReuseRules, know_a_block_by_model_beginning_and_tokens) {
  const std::vector<int> tokens{1, 2};
  const std::vector<int> others{2, 1};
  const std::uint64_t key = key_of_block(key_before_first(1), tokens);
  EXPECT_EQ(key_of_block(key_before_first(1), tokens), key);
  EXPECT_NE(key_of_block(key_before_first(2), tokens), key);
  EXPECT_NE(key_of_block(key, tokens), key);
  EXPECT_NE(key_of_block(key_before_first(1), others), key);
}

TEST(ReuseRules, are_asked_for_paged_memory_only) {
  Builtin<float> flat(small_model(), Arithmetic::row);
  EXPECT_THROW(flat.reuse_rules({}), Unsupported);
  EXPECT_THROW(make_pool<float>(small_model().config, {})->reuse_rules({}), InternalError);
}

// Inside a block, at its end, and none: whatever is taken, the rest is computed.
TEST(ReuseRules, may_provide_any_number_of_the_known_rows) {
  for (int most = 0; most <= 6; ++most) {
    Builtin<float> engine(small_model(), Arithmetic::row, kPaged);
    ReuseRules rules;
    rules.provided = [most](const Hit& hit) { return std::min(rows_provided(hit), most); };
    engine.reuse_rules(rules);
    const std::vector<double> right = expected(engine, kPrompt);
    EXPECT_EQ(answer(engine, kPrompt), right);
    EXPECT_EQ(engine.lookup(kPrompt), most);
    engine.close(0);  // the blocks are free when the next one takes them
    for (int again = 0; again < 3; ++again) EXPECT_EQ(answer(engine, kPrompt), right) << most;
    EXPECT_NO_THROW((void)engine.held(0)) << "blocks are counted as they are held";
  }
}

TEST(ReuseRules, say_what_the_table_of_a_sequence_holds) {
  Builtin<float> engine(small_model(), Arithmetic::row, kPaged);
  ReuseRules rules;
  rules.stored = [](int block) { return block & 3; };
  engine.reuse_rules(rules);
  const SequenceId sequence = engine.open();
  Logits unwanted;
  for (const std::size_t tokens : {7U, 2U, 1U}) {
    engine.feed(sequence, std::span(kPrompt).first(tokens), Rows::all, unwanted);
  }
  const Places places = engine.places(sequence);
  ASSERT_EQ(places.blocks.size(), 5U);
  EXPECT_GT(std::ranges::max(places.blocks), 3);
  for (std::size_t row = 0; row < places.slots.size(); ++row) {
    EXPECT_EQ(places.slots[row] / 2, places.blocks[row / 2] & 3) << row;
  }
}

TEST(ReuseRules, that_provide_more_than_is_known_are_a_mistake) {
  Builtin<float> engine(small_model(), Arithmetic::row, kPaged);
  ReuseRules rules;
  rules.provided = [](const Hit& hit) { return hit.known + 1; };
  engine.reuse_rules(rules);
  EXPECT_THROW((void)engine.lookup(kPrompt), InternalError);
  rules.provided = rows_provided;
  rules.taken = [](std::vector<int> known) {
    for (int& block : known) block += 1000;
    return known;
  };
  engine.reuse_rules(rules);
  (void)answer(engine, kPrompt);
  EXPECT_THROW((void)answer(engine, kPrompt), InternalError);
}

// Two equal prompts in one step: neither has rows yet that the other could take.
TEST(ReuseRules, remember_a_block_when_its_rows_are_written) {
  for (const Remembered when : {Remembered::once_written, Remembered::once_reserved}) {
    Builtin<float> engine(small_model(), Arithmetic::row, kPaged);
    ReuseRules rules;
    rules.remembered = when;
    engine.reuse_rules(rules);
    const std::vector<double> right = expected(engine, kPrompt);
    const std::vector<Feed> feeds{{engine.open(), kPrompt}, {engine.open(), kPrompt}};
    Logits found;
    engine.batch(feeds, Rows::last, found);
    ASSERT_EQ(found.rows(), 2);
    EXPECT_TRUE(std::ranges::equal(found.row(0), right));
    if (when == Remembered::once_written) {
      EXPECT_TRUE(std::ranges::equal(found.row(1), right));
      EXPECT_EQ(engine.lookup(kPrompt), 6) << "but the next one has";
    } else {
      EXPECT_TRUE(std::isnan(found.row(1)[0])) << "rows that were never written";
    }
  }
}

// ---- Two models in one memory

TEST(TwoEnginesInOneMemory, take_no_rows_of_each_other) {
  Builtin<float> one(small_model(3), Arithmetic::row, kPaged);
  Builtin<float> other(small_model(4), one);
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(answer(one, kPrompt), expected(one, kPrompt));
    EXPECT_EQ(one.lookup(kPrompt), 6);
    EXPECT_EQ(other.lookup(kPrompt), round == 0 ? 0 : 6);
    EXPECT_EQ(answer(other, kPrompt), expected(other, kPrompt));
  }
  EXPECT_NO_THROW((void)one.held(0));
  EXPECT_NO_THROW((void)other.held(0));
}

TEST(TwoEnginesInOneMemory, share_what_they_may) {
  Builtin<float> one(small_model(3), Arithmetic::row, kPaged);
  Builtin<float> same(small_model(3), one);
  (void)answer(one, kPrompt);
  EXPECT_EQ(same.lookup(kPrompt), 6) << "the same model, scalar and kind of cache";
  EXPECT_EQ(answer(same, kPrompt), expected(same, kPrompt));
}

TEST(TwoEnginesInOneMemory, whose_key_leaves_the_model_out_take_each_others_rows) {
  Builtin<float> one(small_model(3), Arithmetic::row, kPaged);
  Builtin<float> other(small_model(4), one);
  ReuseRules rules;
  rules.first_parent = [](std::uint64_t) { return std::uint64_t{0}; };
  one.reuse_rules(rules);
  EXPECT_EQ(answer(one, kPrompt), expected(one, kPrompt));
  EXPECT_EQ(other.lookup(kPrompt), 6);
  EXPECT_NE(answer(other, kPrompt), expected(other, kPrompt));
}

TEST(TwoEnginesInOneMemory, must_have_rows_of_one_shape_in_blocks) {
  Builtin<float> flat(small_model(), Arithmetic::row);
  EXPECT_EQ(error_of([&] { Builtin<float>(small_model(), flat); }),
            "builtin: memory of another engine, expected a paged cache, got flat");
  Model<float> longer = small_model();
  longer.config.context = 32;
  Builtin<float> paged(small_model(), Arithmetic::row, kPaged);
  EXPECT_EQ(error_of([&] { Builtin<float>(longer, paged); }),
            "builtin: memory of another engine, expected 2 layers of K/V rows of 4, context 16, "
            "got 2 layers of K/V rows of 4, context 32");
}

}  // namespace
}  // namespace kvcheck
