// SPDX-License-Identifier: MIT
// Tokens that a model cannot take are refused in words that name the first reason.
#include "engine/tokens.h"

#include <gtest/gtest.h>

#include <vector>

#include "engine/test_support.h"

namespace kvcheck {
namespace {

// Vocabulary 2, context 4.
std::string complaint(const std::vector<int>& tokens, int length) {
  return error_of([&] { validate_tokens(tiny_config(), tokens, length, "here"); });
}

TEST(Tokens, a_full_context_of_known_ids_is_taken) {
  EXPECT_EQ(complaint({0, 1, 1, 0}, 4), "no error");
  EXPECT_EQ(complaint({1}, 4), "no error");
}

TEST(Tokens, none_at_all_are_refused) {
  EXPECT_EQ(complaint({}, 0), "here: no tokens, expected at least 1, got 0");
}

TEST(Tokens, one_row_past_the_context_is_refused) {
  EXPECT_EQ(complaint({0}, 5), "here: past the context, expected at most 4 rows, got 5");
}

TEST(Tokens, an_id_outside_the_vocabulary_is_refused_wherever_it_stands) {
  const std::string start = "here: token outside the vocabulary, expected an id from 0 to 1, got ";
  EXPECT_EQ(complaint({2}, 1), start + "2");
  EXPECT_EQ(complaint({-1}, 1), start + "-1");
  EXPECT_EQ(complaint({0, 1, 7, -3}, 4), start + "7");
  EXPECT_EQ(complaint({0, 1, 1, -2147483648}, 4), start + "-2147483648");
}

TEST(Tokens, the_length_of_a_block_is_that_of_each_of_its_sequences) {
  const std::vector<int> tokens{0, 1, 0, 1, 0, 1};
  EXPECT_EQ((TokenBlock{tokens}.length()), 6);
  EXPECT_EQ((TokenBlock{tokens, 3}.length()), 2);
}

}  // namespace
}  // namespace kvcheck
