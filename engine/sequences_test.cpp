// SPDX-License-Identifier: MIT
// Sequences and vocabularies are read line by line, and wrong lines named.
#include "engine/sequences.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <limits>

#include "engine/test_support.h"

namespace kvcheck {
namespace {

using Sequences = std::vector<std::vector<int>>;

const std::array<std::string, 4> kWords{"<bos>", "the", "cat",
                                        "gr\xc3\xb6\xc3\x9f"
                                        "er"};

Sequences with_words(std::string_view text) { return parse_sequences(text, "corpus", kWords, 4); }
Sequences with_ids(std::string_view text) { return parse_sequences(text, "corpus", {}, 4); }

TEST(Sequences, reads_words_and_ids_side_by_side) {
  EXPECT_EQ(with_words("<bos> the cat\n0 1 gr\xc3\xb6\xc3\x9f"
                       "er\n"),
            (Sequences{{0, 1, 2}, {0, 1, 3}}));
}

TEST(Sequences, skips_blank_lines_and_comments) {
  EXPECT_EQ(with_ids("\n# 3 3 3\n \t\n1 2\n\n3"), (Sequences{{1, 2}, {3}}));
}

TEST(Sequences, takes_any_blanks_and_line_ends) {
  EXPECT_EQ(with_ids("  1\t 2 \r\n\r\n003\r\n"), (Sequences{{1, 2}, {3}}));
}

// As Windows editors write it; in the middle of a text it is a character like any other.
TEST(Sequences, a_byte_order_mark_before_the_first_is_skipped) {
  EXPECT_EQ(with_ids("\xef\xbb\xbf"
                     "1 2\n3"),
            (Sequences{{1, 2}, {3}}));
  EXPECT_EQ(with_ids("\xef\xbb\xbf# 3\n1"), (Sequences{{1}}));
  EXPECT_EQ(parse_words("\xef\xbb\xbf"
                        "a\nb",
                        "words", 2),
            (std::vector<std::string>{"a", "b"}));
  EXPECT_NE(error_of([] {
              (void)with_ids(
                  "1\n\xef\xbb\xbf"
                  "2");
            }),
            "no error");
}

TEST(Sequences, one_that_is_too_long_is_an_error_with_its_line) {
  const auto up_to = [](std::size_t length_max) {
    return error_of([&] { (void)parse_sequences("0\n\n0 1 2\n", "p", {}, 4, length_max); });
  };
  EXPECT_EQ(up_to(3), "no error");
  EXPECT_EQ(up_to(2), "p:3: sequence too long for the model, expected at most 2 tokens, got 3");
}

TEST(Sequences, keeps_the_order_and_repeated_lines) {
  EXPECT_EQ(with_ids("2\n1\n2\n"), (Sequences{{2}, {1}, {2}}));
}

TEST(Sequences, an_unknown_word_is_an_error) {
  EXPECT_EQ(error_of([] { (void)with_words("the cat\n\nthe dog\n"); }),
            "corpus:3: token, expected a word of the vocabulary or an id, 0 to 3, got \"dog\"");
  EXPECT_EQ(error_of([] { (void)with_words("The"); }),
            "corpus:1: token, expected a word of the vocabulary or an id, 0 to 3, got \"The\"");
  EXPECT_EQ(error_of([] { (void)with_ids("1 the"); }),
            "corpus:1: token, expected an id, 0 to 3, got \"the\"");
}

TEST(Sequences, a_comment_needs_its_blank) {
  EXPECT_EQ(error_of([] { (void)with_ids("#1"); }),
            "corpus:1: token, expected an id, 0 to 3, got \"#1\"");
  EXPECT_EQ(error_of([] { (void)with_ids("1 # 2"); }),
            "corpus:1: token, expected an id, 0 to 3, got \"#\"");
}

TEST(Sequences, an_id_outside_the_vocabulary_is_an_error) {
  EXPECT_EQ(with_ids("3"), (Sequences{{3}}));
  EXPECT_EQ(error_of([] { (void)with_ids("1 4"); }), "corpus:1: token id, expected 0 to 3, got 4");
  EXPECT_EQ(error_of([] { (void)with_ids("-1"); }), "corpus:1: token id, expected 0 to 3, got -1");
  EXPECT_EQ(error_of([] { (void)with_words("4294967296"); }),
            "corpus:1: token id, expected 0 to 3, got 4294967296");
}

TEST(Sequences, a_number_with_something_behind_it_is_no_id) {
  EXPECT_EQ(error_of([] { (void)with_ids("1,2"); }),
            "corpus:1: token, expected an id, 0 to 3, got \"1,2\"");
  EXPECT_EQ(error_of([] { (void)with_ids("1.0"); }),
            "corpus:1: token, expected an id, 0 to 3, got \"1.0\"");
  EXPECT_EQ(error_of([] { (void)with_ids("+1"); }),
            "corpus:1: token, expected an id, 0 to 3, got \"+1\"");
}

TEST(Sequences, no_sequence_at_all_is_an_error) {
  const std::string message = "corpus: sequences, expected at least one, got none";
  EXPECT_EQ(error_of([] { (void)with_ids(""); }), message);
  EXPECT_EQ(error_of([] { (void)with_ids(" \n# 1 2\n\n"); }), message);
}

TEST(Sequences, an_echoed_token_is_escaped_and_cut) {
  EXPECT_EQ(
      error_of([] { (void)with_ids("\x1b[2J" + std::string(100, 'x')); }),
      "corpus:1: token, expected an id, 0 to 3, got \"\\x1b[2J" + std::string(53, 'x') + "...\"");
}

TEST(Words, are_one_a_line) {
  EXPECT_EQ(parse_words("<bos>\r\nthe\ncat", "words", 3),
            (std::vector<std::string>{"<bos>", "the", "cat"}));
}

TEST(Words, must_be_as_many_as_the_vocabulary_has_ids) {
  EXPECT_EQ(error_of([] { (void)parse_words("a\nb\n", "words", 3); }),
            "words: words, expected 3, the vocabulary, got 2");
  EXPECT_EQ(error_of([] { (void)parse_words("a\nb\n", "words", 1); }),
            "words: words, expected 1, the vocabulary, got 2");
  EXPECT_EQ(error_of([] { (void)parse_words("", "words", 1); }),
            "words: words, expected 1, the vocabulary, got 0");
}

TEST(Words, must_differ) {
  EXPECT_EQ(error_of([] { (void)parse_words("a\nb\na\n", "words", 3); }),
            "words:3: word, expected different words, got \"a\" of line 1 again");
}

TEST(Words, have_no_blanks) {
  EXPECT_EQ(error_of([] { (void)parse_words("a\n\nb", "words", 3); }),
            "words:2: word, expected one word without blanks, got \"\"");
  EXPECT_EQ(error_of([] { (void)parse_words("a b", "words", 1); }),
            "words:1: word, expected one word without blanks, got \"a b\"");
  EXPECT_EQ(error_of([] { (void)parse_words("a\t", "words", 1); }),
            "words:1: word, expected one word without blanks, got \"a\\t\"");
}

TEST(Words, are_not_mistaken_for_ids_and_comments) {
  EXPECT_EQ(error_of([] { (void)parse_words("a\n1", "words", 2); }),
            "words:2: word, expected neither a number nor #, got \"1\"");
  EXPECT_EQ(error_of([] { (void)parse_words("-2", "words", 1); }),
            "words:1: word, expected neither a number nor #, got \"-2\"");
  EXPECT_EQ(error_of([] { (void)parse_words("#", "words", 1); }),
            "words:1: word, expected neither a number nor #, got \"#\"");
  EXPECT_EQ(parse_words("1st\n##\n-", "words", 3), (std::vector<std::string>{"1st", "##", "-"}));
}

TEST(JoinTokens, puts_one_blank_between) {
  EXPECT_EQ(join_tokens(std::array{0, 2, 4}), "0 2 4");
  EXPECT_EQ(join_tokens(std::array{7}), "7");
  EXPECT_EQ(join_tokens({}), "");
}

RC_GTEST_PROP(JoinTokens, is_undone_by_parse_sequences, ()) {
  const auto tokens =
      *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 1000)))
           .as("tokens");
  RC_ASSERT(parse_sequences(join_tokens(tokens), "text", {}, 1000) == Sequences{tokens});
}

TEST(CountAllPrefixes, sums_the_powers_of_the_vocabulary) {
  EXPECT_EQ(count_all_prefixes(8, 4), 4680);
  EXPECT_EQ(count_all_prefixes(3, 1), 3);
  EXPECT_EQ(count_all_prefixes(1, 7), 7);
  EXPECT_EQ(count_all_prefixes(3, 0), 0);
}

TEST(CountAllPrefixes, saturates) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(count_all_prefixes(2, 61), (std::int64_t{1} << 62) - 2);
  EXPECT_EQ(count_all_prefixes(2, 62), kMost - 1) << "2^63 - 2";
  EXPECT_EQ(count_all_prefixes(2, 63), kMost);
  EXPECT_EQ(count_all_prefixes(50257, 1024), kMost);
  EXPECT_EQ(count_all_prefixes(std::numeric_limits<int>::max(), 3), kMost);
}

}  // namespace
}  // namespace kvcheck
