// SPDX-License-Identifier: MIT
// What sequences hold after every verb, what each row saw, and which operations are not valid.
#include "verify/token_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/error.h"

namespace kvcheck {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr OperationLimits kLimits{.vocabulary = 1000, .context = 12};

TokenLog after(const std::string& text, const OperationLimits& limits = kLimits) {
  TokenLog log(limits);
  for (const Operation& o : parse_operations(text, "test")) {
    EXPECT_EQ(log.why_not(o).value_or(""), "") << to_text(o);
    log.apply(o);
  }
  return log;
}

OperationStep last_step(const std::string& before, const std::string& text) {
  TokenLog log = after(before);
  return log.apply(parse_operations(text, "test")[0]);
}

// The own tokens [from, to) of a branch.
std::vector<int> own(int branch, int from, int to) {
  std::vector<int> tokens;
  for (int k = from; k < to; ++k) tokens.push_back(own_token(branch, k, kLimits.vocabulary));
  return tokens;
}

std::vector<int> joined(std::vector<int> first, const std::vector<int>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// ---- Tokens

TEST(OwnToken, is_a_function_of_branch_and_count_within_the_vocabulary) {
  EXPECT_EQ(own(0, 0, 8), own(0, 0, 8));
  EXPECT_NE(own(0, 0, 8), own(1, 0, 8));
  EXPECT_NE(own(0, 0, 8), own(0, 1, 9));
  EXPECT_EQ(own_token(7, 9, 1), 0);
  // Pinned: stored cases must mean the same tokens in every version.
  EXPECT_THAT(own(0, 0, 3), ElementsAre(475, 540, 625));
}

TEST(TokenLog, a_feed_appends_the_branch_s_next_tokens) {
  const TokenLog log = after("open.feed:0x3.feed:0x2");
  EXPECT_EQ(log.tokens(0), own(0, 0, 5));
  EXPECT_EQ(log.length(0), 5);
  EXPECT_EQ(log.next_position(0), 5);
  EXPECT_EQ(log.room(0), 7);
  EXPECT_TRUE(log.plain(0));
}

TEST(TokenLog, tokens_after_a_truncation_are_new_ones) {
  const TokenLog log = after("open.feed:0x4.truncate:0x2.feed:0x1");
  EXPECT_EQ(log.tokens(0), joined(own(0, 0, 2), own(0, 4, 5)));
  EXPECT_TRUE(log.plain(0));
}

TEST(TokenLog, every_open_fork_load_and_reset_begins_a_branch) {
  const TokenLog log =
      after("open.feed:0x2.fork:0.save:0.load:0.reset:0.batch:0x1-1x1-2x1.open.feed:3x1");
  EXPECT_EQ(log.tokens(0), own(3, 0, 1));
  EXPECT_EQ(log.tokens(1), joined(own(0, 0, 2), own(1, 0, 1)));
  EXPECT_EQ(log.tokens(2), joined(own(0, 0, 2), own(2, 0, 1)));
  EXPECT_EQ(log.tokens(3), own(4, 0, 1));
}

TEST(TokenLog, a_fork_goes_its_own_way_and_leaves_its_parent_s) {
  const TokenLog log = after("open.feed:0x2.fork:0.feed:1x1.feed:0x2.feed:1x1");
  EXPECT_EQ(log.tokens(0), own(0, 0, 4));
  EXPECT_EQ(log.tokens(1), joined(own(0, 0, 2), own(1, 0, 2)));
}

TEST(TokenLog, reordered_sequences_take_what_was_held_before) {
  const std::string two = "open.open.batch:0x1-1x2.";
  const TokenLog swapped = after(two + "reorder:0-1@1-0");
  EXPECT_EQ(swapped.tokens(0), own(1, 0, 2));
  EXPECT_EQ(swapped.tokens(1), own(0, 0, 1));
  // A repeat: both go on from the same rows with tokens of their own.
  const TokenLog repeated = after(two + "reorder:0-1@1-1.batch:0x1-1x1");
  EXPECT_EQ(repeated.tokens(0), joined(own(1, 0, 2), own(0, 1, 2)));
  EXPECT_EQ(repeated.tokens(1), own(1, 0, 3));
}

TEST(TokenLog, a_saved_state_stays_as_it_was) {
  const TokenLog log = after("open.feed:0x3.save:0.truncate:0x1.feed:0x4.close:0.load:0.load:0");
  EXPECT_EQ(log.tokens(1), own(0, 0, 3));
  EXPECT_EQ(log.tokens(2), own(0, 0, 3));
  EXPECT_THAT(log.live(), ElementsAre(1, 2));
  EXPECT_EQ(log.saved(), 1);
}

TEST(TokenLog, a_prompt_shares_what_another_sequence_was_told) {
  EXPECT_EQ(after("open.feed:0x4.open.prompt:1@0x3+2").tokens(1),
            joined(own(0, 0, 3), own(1, 0, 2)));
  // Truncated, closed and reset since then: a prefix cache may still hold these rows.
  EXPECT_EQ(after("open.feed:0x4.truncate:0x1.open.prompt:1@0x4+0").tokens(1), own(0, 0, 4));
  EXPECT_EQ(after("open.feed:0x4.close:0.open.prompt:1@0x4+0").tokens(1), own(0, 0, 4));
  EXPECT_EQ(after("open.feed:0x4.reset:0.prompt:0@0x4+1").tokens(0),
            joined(own(0, 0, 4), own(1, 0, 1)));
  // A feed after the truncation is told anew.
  EXPECT_EQ(after("open.feed:0x4.truncate:0x1.feed:0x1").told(0),
            joined(own(0, 0, 1), own(0, 4, 5)));
}

// ---- Dropped rows

TEST(TokenLog, a_shift_renumbers_and_an_eviction_does_not) {
  const TokenLog shifted = after("open.feed:0x5.shift:0x1-3");
  EXPECT_THAT(shifted.positions(0), ElementsAre(0, 1, 2));
  EXPECT_EQ(shifted.next_position(0), 3);
  EXPECT_FALSE(shifted.plain(0));
  const TokenLog evicted = after("open.feed:0x5.evict:0x1-2.feed:0x1");
  EXPECT_THAT(evicted.positions(0), ElementsAre(0, 3, 4, 5));
  EXPECT_EQ(evicted.length(0), 4);
  EXPECT_EQ(evicted.next_position(0), 6);
  EXPECT_FALSE(evicted.plain(0));
  EXPECT_EQ(evicted.tokens(0), joined(own(0, 0, 1), own(0, 3, 6)));
}

TEST(TokenLog, a_shift_after_an_eviction_moves_by_the_dropped_rows) {
  EXPECT_THAT(after("open.feed:0x6.evict:0x1-2.shift:0x0-1").positions(0), ElementsAre(2, 3, 4));
}

TEST(TokenLog, what_lies_before_dropped_rows_stays_plain) {
  const TokenLog log = after("open.feed:0x5.evict:0x2-1.truncate:0x2");
  EXPECT_TRUE(log.plain(0));
  EXPECT_TRUE(after("open.feed:0x5.evict:0x2-1.truncate:0x2.feed:0x2").plain(0));
  EXPECT_FALSE(after("open.feed:0x5.evict:0x2-1.fork:0").plain(1));
  EXPECT_TRUE(after("open.feed:0x5.fork:0.shift:0x0-1").plain(1));
}

// ---- The log of rows

std::vector<int> rows_of(const LoggedRow& row) {
  std::vector<int> rows;
  for (const SeenRow& seen : row.sees) rows.push_back(seen.row);
  return rows;
}

std::vector<int> positions_of(const LoggedRow& row) {
  std::vector<int> positions;
  for (const SeenRow& seen : row.sees) positions.push_back(seen.position);
  return positions;
}

TEST(TokenLog, the_log_of_a_plain_sequence_is_causal) {
  const std::vector<LoggedRow> log = after("open.open.feed:1x2.feed:0x3").log(0);
  ASSERT_EQ(log.size(), 3U);
  EXPECT_EQ(log[2].token, own_token(0, 2, kLimits.vocabulary));
  EXPECT_EQ(log[2].position, 2);
  EXPECT_THAT(rows_of(log[0]), ElementsAre(0));
  EXPECT_THAT(rows_of(log[2]), ElementsAre(0, 1, 2));
  EXPECT_THAT(positions_of(log[2]), ElementsAre(0, 1, 2));
}

TEST(TokenLog, a_log_keeps_dropped_rows_that_held_ones_had_seen) {
  // Row 1 is dropped, but row 2 was computed from it; row 3 sees neither it nor its old position.
  const std::vector<LoggedRow> log = after("open.feed:0x3.shift:0x1-2.feed:0x1").log(0);
  ASSERT_EQ(log.size(), 4U);
  EXPECT_THAT(rows_of(log[2]), ElementsAre(0, 1, 2));
  EXPECT_EQ(log[2].position, 2);
  EXPECT_THAT(rows_of(log[3]), ElementsAre(0, 2, 3));
  EXPECT_THAT(positions_of(log[3]), ElementsAre(0, 1, 2));
  EXPECT_EQ(log[3].position, 2);
}

TEST(TokenLog, a_log_leaves_out_what_nothing_held_was_computed_from) {
  const std::vector<LoggedRow> log =
      after("open.feed:0x3.truncate:0x1.feed:0x1.open.feed:1x2").log(0);
  ASSERT_EQ(log.size(), 2U);
  EXPECT_EQ(log[1].token, own_token(0, 3, kLimits.vocabulary));
  EXPECT_THAT(rows_of(log[1]), ElementsAre(0, 1));
  EXPECT_THAT(after("open.feed:0x3.reset:0").log(0), IsEmpty());
}

TEST(TokenLog, an_eviction_leaves_a_gap_in_what_is_seen) {
  const std::vector<LoggedRow> log = after("open.feed:0x3.evict:0x0-2.feed:0x1").log(0);
  ASSERT_EQ(log.size(), 4U);
  EXPECT_THAT(rows_of(log[3]), ElementsAre(2, 3));
  EXPECT_THAT(positions_of(log[3]), ElementsAre(2, 3));
}

TEST(TokenLog, held_rows_are_numbered_as_the_log_numbers_them) {
  // Row 2 of the log is dropped, but stays in it: row 3 had seen it.
  const TokenLog log = after("open.open.feed:1x2.feed:0x4.shift:0x2-3");
  EXPECT_EQ(log.log(0).size(), 4U);
  EXPECT_THAT(log.held_rows(0), ElementsAre(SeenRow{0, 0}, SeenRow{1, 1}, SeenRow{3, 2}));
  EXPECT_TRUE(renumbered(after("open.feed:0x4.shift:0x2-3.feed:0x1").log(0)));
  EXPECT_FALSE(renumbered(after("open.feed:0x4.evict:0x2-1.feed:0x1").log(0)));
  EXPECT_FALSE(renumbered(log.log(0))) << "nobody has seen the moved row";
  EXPECT_THAT(after("open").held_rows(0), IsEmpty());
}

// ---- Steps

TEST(TokenLog, a_step_tells_what_to_feed_and_what_changed) {
  const OperationStep batch = last_step("open.open", "batch:1x2-0x1");
  EXPECT_THAT(batch.feeds, ElementsAre(FedTokens{1, own(1, 0, 2)}, FedTokens{0, own(0, 0, 1)}));
  EXPECT_THAT(batch.changed, ElementsAre(1, 0));
  EXPECT_FALSE(batch.last_row_only);
  const OperationStep prompt = last_step("open.open.feed:0x2", "prompt:1@0x2+1");
  EXPECT_THAT(prompt.feeds, ElementsAre(FedTokens{1, joined(own(0, 0, 2), own(1, 0, 1))}));
  EXPECT_TRUE(prompt.last_row_only);
  const OperationStep fork = last_step("open.feed:0x2", "fork:0");
  EXPECT_EQ(fork.created, 1);
  EXPECT_THAT(fork.changed, ElementsAre(1));
  EXPECT_EQ(last_step("open.save:0", "save:0").saved, 1);
  EXPECT_THAT(last_step("open", "save:0").changed, IsEmpty());
  EXPECT_THAT(last_step("open.open", "close:1").changed, IsEmpty());
  EXPECT_THAT(last_step("open.open", "reorder:0-1@1-0").changed, ElementsAre(0, 1));
}

// ---- What is not valid

struct Invalid {
  std::string before;
  std::string operation;
  std::string reason;
};

class InvalidOperations : public ::testing::TestWithParam<Invalid> {};

TEST_P(InvalidOperations, have_a_reason_and_are_not_applied) {
  TokenLog log = after(GetParam().before);
  const Operation o = parse_operations(GetParam().operation, "test")[0];
  EXPECT_EQ(log.why_not(o).value_or("valid"), GetParam().reason);
  EXPECT_THROW(log.apply(o), InternalError);
}

INSTANTIATE_TEST_SUITE_P(
    Reasons, InvalidOperations,
    ::testing::Values(
        Invalid{"open", "feed:1x1", "sequence 1 is not open"},
        Invalid{"open.close:0", "feed:0x1", "sequence 0 is not open"},
        Invalid{"open.close:0", "close:0", "sequence 0 is not open"},
        Invalid{"open", "feed:0x0", "a feed needs at least one token"},
        Invalid{"open.feed:0x10", "feed:0x3", "3 tokens at position 10 go past the context of 12"},
        Invalid{"open.feed:0x2", "feed:0x2147483647",
                "2147483647 tokens at position 2 go past the context of 12"},
        Invalid{"open.feed:0x12.evict:0x0-6", "feed:0x1",
                "1 tokens at position 12 go past the context of 12"},
        Invalid{"open.open", "batch:0x1-0x1", "a sequence is named twice"},
        Invalid{"open.open", "batch:0x1-1x0", "a feed needs at least one token"},
        Invalid{"open.feed:0x2", "truncate:0x3", "sequence 0 holds 2 rows"},
        Invalid{"open.open", "reorder:0-1@0-2", "no source 2"},
        Invalid{"open.open", "reorder:1-1@0-1", "a sequence is named twice"},
        Invalid{"open", "load:0", "state 0 was never saved"},
        Invalid{"open.feed:0x2", "prompt:0@0x1+1", "sequence 0 is not empty"},
        Invalid{"open.feed:0x2.open", "prompt:1@2x1+1", "sequence 2 was never open"},
        Invalid{"open.feed:0x2.open", "prompt:1@0x0+1", "a prompt shares at least one token"},
        Invalid{"open.feed:0x2.open", "prompt:1@0x3+1", "sequence 0 was told 2 tokens"},
        Invalid{"open.feed:0x2.open", "prompt:1@0x2+2147483647",
                "2147483649 tokens go past the context of 12"},
        Invalid{"open.feed:0x3", "shift:0x2-2", "no row to drop"},
        Invalid{"open.feed:0x3", "shift:0x2-1", "no row to drop"},
        Invalid{"open.feed:0x3", "shift:0x1-3",
                "dropping 2 rows from 1 leaves none of 3 behind them"},
        Invalid{"open.feed:0x3", "evict:0x2147483647-2147483647",
                "dropping 2147483647 rows from 2147483647 leaves none of 3 behind them"},
        Invalid{"open.feed:0x3", "evict:0x1-0", "no row to drop"}));

TEST(TokenLog, rows_do_not_move_where_positions_are_learned) {
  const OperationLimits learned{.vocabulary = 5, .context = 8, .learned_positions = true};
  const TokenLog log = after("open.feed:0x4", learned);
  EXPECT_EQ(log.why_not({Verb::shift, {0}, {0, 1}}), "shift is not offered");
  EXPECT_EQ(log.why_not({Verb::evict, {0}, {0, 1}}), "evict is not offered");
  const OperationLimits few{.vocabulary = 5, .context = 8, .verbs = {Verb::open, Verb::feed}};
  EXPECT_EQ(after("open", few).why_not({Verb::fork, {0}, {}}), "fork is not offered");
  EXPECT_EQ(log.why_not({Verb::feed, {0}, {}}), "feed takes other arguments");
}

TEST(TokenLog, closed_sequences_hold_nothing) {
  const TokenLog log = after("open.feed:0x1.close:0");
  EXPECT_FALSE(log.is_live(0));
  EXPECT_EQ(log.handles(), 1);
  EXPECT_THROW((void)log.length(0), InternalError);
  EXPECT_THROW((void)log.told(1), InternalError);
}

}  // namespace
}  // namespace kvcheck
