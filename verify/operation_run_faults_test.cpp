// SPDX-License-Identifier: MIT
// Faults that caches elsewhere had, by the shortest operations that their reports describe: each is
// seen at the row at which it first shows, and the right engine agrees.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <string_view>

#include "engine/builtin.h"
#include "engine/test_support.h"
#include "verify/replay.h"
#include "verify/test_canaries.h"
#include "verify/test_faults.h"

namespace kvcheck {
namespace {

using ::testing::HasSubstr;

constexpr CacheKind kPaged{.layout = CacheLayout::paged, .block = 2};

struct Reported {
  std::string_view what;
  std::string_view operations;
  std::string_view canary;
  CacheKind cache;
  int step;
  int position;  // of the worst row that differs; -1: it is not by an answer that it is seen
};

void PrintTo(const Reported& reported, std::ostream* out) { *out << reported.what; }

class ReportedFaults : public ::testing::TestWithParam<Reported> {};

TEST_P(ReportedFaults, are_seen_without_their_bytes_where_they_first_show) {
  const Reported& reported = GetParam();
  const ModelData model = two_window_model();
  const Case subject = operations_case(model, reported.cache, reported.operations);
  const CaseResult right = run_case(subject, model, builtin_engine).result;
  EXPECT_EQ(right.verdict, Verdict::agree) << right.note;
  const EngineFactory wrong = canary(reported.canary, Tells::logits).factory;
  const CaseResult result = run_case(subject, model, wrong).result;
  EXPECT_EQ(result.verdict, Verdict::diverge);
  EXPECT_EQ(result.step, reported.step);
  if (reported.position < 0) {
    EXPECT_FALSE(result.note.empty());
    return;
  }
  EXPECT_EQ(result.note, "");
  EXPECT_EQ(result.position, reported.position);
}

// Positions count from 0. The window of layer 0 is 4 rows.
INSTANTIATE_TEST_SUITE_P(
    All, ReportedFaults,
    ::testing::Values(
        // The mask of a second chunk is aligned at its first key, not at its last.
        Reported{"chunked_prefill", "open.feed:0x2.feed:0x2", "chunk-sees-the-oldest", {}, 2, 2},
        // A ring is full just when the window is.
        Reported{"window_filled",
                 "open.feed:0x2.feed:0x1.feed:0x1",
                 "ring-wraps-early",
                 {.layout = CacheLayout::ring},
                 3,
                 3},
        // Tokens that are verified together all take the position of the first.
        Reported{
            "several_tokens_decoded", "open.feed:0x4.feed:0x2", "chunk-in-one-position", {}, 2, 5},
        // The original goes on behind what its copy was fed.
        Reported{"copy_of_a_reference",
                 "open.feed:0x2.fork:0.feed:1x1.feed:0x1",
                 "fork-is-the-original",
                 {},
                 3,
                 -1},
        Reported{"copy_of_a_block", "open.feed:0x1.fork:0.feed:1x1.feed:0x1.feed:1x1",
                 "fork-shares-the-last-block", kPaged, 4, -1},
        // Beams that swap places, with other histories.
        Reported{"beams_swapped",
                 "open.open.batch:0x2-1x2.reorder:0-1@1-0.batch:0x1-1x1",
                 "reorder-ignored",
                 {},
                 4,
                 2},
        // The key of a block has so few bits that another prompt has it, too.
        Reported{"key_of_few_bits", "open.feed:0x2.open.prompt:1@0x1+2", "blocks-known-by-few-bits",
                 kPaged, 3, 2},
        // The same block text behind another beginning.
        Reported{"key_without_the_blocks_before",
                 "open.open.open.open.open.feed:4x13.open.prompt:5@4x13+0",
                 "blocks-known-by-their-own-tokens", kPaged, 7, 12},
        // A chunk that ended inside a block left it known as full.
        Reported{"block_known_before_full", "open.feed:0x1.open.prompt:1@0x1+2",
                 "blocks-known-before-full", kPaged, 3, 2},
        // The rows of a hit are read in the order of the memory.
        Reported{"hit_in_physical_order", "open.feed:0x8.open.prompt:1@0x8+1",
                 "blocks-in-the-order-of-memory", kPaged, 3, 8},
        // Behind a hit that ends inside a block, rows go to the next block.
        Reported{"slots_from_the_next_block", "open.feed:0x2.open.prompt:1@0x2+2.feed:1x1",
                 "prompt-goes-on-in-the-next-block", kPaged, 4, 4},
        // The fifth block takes the number of the first.
        Reported{"block_number_cut_short", "open.feed:0x9", "block-numbers-of-two-bits", kPaged, 1,
                 8},
        // A copy still holds what the original gave back.
        Reported{"block_freed_while_shared", "open.feed:0x2.fork:0.close:0.open.feed:2x8.feed:1x1",
                 "block-free-while-held", kPaged, 5, -1},
        // Other rows lie where the prompt's were.
        Reported{"block_listed_when_freed",
                 "open.feed:0x2.close:0.open.feed:1x8.open.prompt:2@0x2+1",
                 "block-found-when-taken", kPaged, 6, 2},
        // Nothing is left to be computed of a prompt that is known to the last token.
        Reported{"prompt_known_whole", "open.feed:0x2.open.prompt:1@0x2+0", "prompt-taken-whole",
                 kPaged, 3, -1}),
    [](const auto& param) { return std::string(param.param.what); });

// Both of the swapped beams are wrong, not only one.
TEST(ReportedFaults, of_a_swap_show_in_both_sequences) {
  const ModelData model = two_window_model();
  const Case subject =
      operations_case(model, {}, "open.open.batch:0x2-1x2.reorder:0-1@1-0.batch:0x1-1x1");
  OperationRunner runner =
      runner_of(subject, model, canary("reorder-ignored", Tells::logits).factory);
  std::size_t wrong = 0;
  (void)runner.run(subject.operations, [&](const SeenStep& seen) {
    wrong += static_cast<std::size_t>(std::ranges::count_if(
        seen.rows, [](const MeasuredRow& row) { return !row.comparison.same_bits; }));
  });
  EXPECT_EQ(wrong, 2U);
}

// ---- Rows of one model for another one

ModelData other_weights() {
  return model_of("other", random_model(two_window_model().weights.config, {}, 4));
}

TEST(TwoModels, do_not_share_the_rows_of_a_prompt) {
  const std::vector<int> prompt{1, 2, 3, 4, 5};
  Builtin<float> one(two_window_model().weights, Arithmetic::row, kPaged);
  Builtin<float> other(other_weights().weights, Arithmetic::row, kPaged);
  Logits found, expected;
  one.feed(one.open(), prompt, Rows::last, found);
  EXPECT_EQ(one.lookup(prompt), 4);
  EXPECT_EQ(other.lookup(prompt), 0);
  other.feed(other.open(), prompt, Rows::last, found);
  other.full({prompt, 1}, Rows::last, expected);
  EXPECT_EQ(found.values, expected.values);
}

// Whatever is fed to a new sequence, an engine of other weights in the same memory is fed before.
EngineFactory beside_other_weights(const ReuseRules& rules) {
  return [rules](const ModelData& model, const EngineSetup& setup) {
    auto other =
        std::make_shared<Builtin<float>>(other_weights().weights, setup.arithmetic, setup.cache);
    other->reuse_rules(rules);
    Hooks hooks;
    hooks.feed = [other](Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
      Logits unwanted;
      for (const Feed& feed : feeds) {
        if (inner.held(feed.sequence).rows > 0) continue;
        other->feed(other->open(), feed.tokens, Rows::last, unwanted);
      }
      inner.batch(feeds, rows, out);
    };
    return std::make_unique<HookedEngine>(std::make_unique<Builtin<float>>(model.weights, *other),
                                          std::move(hooks));
  };
}

TEST(TwoModels, in_one_memory_compute_their_own_rows) {
  const ModelData model = two_window_model();
  const Case subject = operations_case(model, kPaged, "open.feed:0x4.open.prompt:1@0x4+1");
  OperationRunner right = runner_of(subject, model, beside_other_weights({}));
  EXPECT_EQ(right.run(subject.operations).verdict, Verdict::agree);
  EXPECT_EQ(right.reused_rows(), 4) << "its own";
  ReuseRules rules;
  rules.first_parent = [](std::uint64_t) { return std::uint64_t{0}; };
  OperationRunner wrong = runner_of(subject, model, beside_other_weights(rules));
  const CaseResult result = wrong.run(subject.operations);
  EXPECT_EQ(result.verdict, Verdict::diverge);
  EXPECT_EQ(result.note, "");
  EXPECT_EQ(result.step, 3);
  EXPECT_EQ(result.position, 4) << "the first row that is computed";
}

// The state says which model it is of; were it believed to be of this one, the first row would be
// wrong.
TEST(TwoModels, do_not_take_the_states_of_each_other) {
  const std::vector<int> prompt{1, 2, 3};
  for (const CacheKind& kind : all_cache_kinds()) {
    Builtin<float> one(two_window_model().weights, Arithmetic::row, kind);
    Builtin<float> other(other_weights().weights, Arithmetic::row, kind);
    Logits found, expected;
    const SequenceId mine = one.open();
    one.feed(mine, prompt, Rows::last, found);
    State state = one.save(mine);
    EXPECT_THAT(error_of([&] { (void)other.load(state); }),
                HasSubstr("the state of another model, scalar or kind of cache"))
        << name(kind);
    const SequenceId opened = other.open();
    EXPECT_EQ(other.held(opened).rows, 0) << "nothing is left of the refused one";
    const State own = other.save(opened);
    constexpr std::ptrdiff_t kIdentity = 8;  // behind the eight bytes that say what it is
    std::copy_n(own.begin() + kIdentity, sizeof(std::uint64_t), state.begin() + kIdentity);
    const std::vector<int> next{4};
    other.feed(other.load(state), next, Rows::last, found);
    other.full({std::vector<int>{1, 2, 3, 4}, 1}, Rows::last, expected);
    EXPECT_NE(found.values, expected.values) << name(kind);
  }
}

}  // namespace
}  // namespace kvcheck
