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

struct Reported {
  std::string_view what;
  std::string_view operations;
  std::string_view canary;
  CacheKind cache;
  int step;
  int position;  // of the worst row that differs; -1: it is not by logits that it is seen
};

void PrintTo(const Reported& reported, std::ostream* out) { *out << reported.what; }

class ReportedFaults : public ::testing::TestWithParam<Reported> {};

TEST_P(ReportedFaults, are_seen_by_logits_where_they_first_show) {
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
        Reported{"copy_of_a_block",
                 "open.feed:0x1.fork:0.feed:1x1.feed:0x1.feed:1x1",
                 "fork-shares-the-last-block",
                 {.layout = CacheLayout::paged, .block = 2},
                 5,
                 2},
        // Beams that swap places, with other histories.
        Reported{"beams_swapped",
                 "open.open.batch:0x2-1x2.reorder:0-1@1-0.batch:0x1-1x1",
                 "reorder-ignored",
                 {},
                 4,
                 2}),
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

constexpr CacheKind kPaged{.layout = CacheLayout::paged, .block = 2};

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
