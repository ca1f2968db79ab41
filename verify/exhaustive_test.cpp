// SPDX-License-Identifier: MIT
// The walk reaches every word of the alphabet once, and only valid ones.
#include "verify/exhaustive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "engine/error.h"
#include "verify/operation_coverage.h"

namespace kvcheck {
namespace {

constexpr OperationSpace kSpace{.limits = {.vocabulary = 5, .context = 4}, .live_max = 2};

std::string alphabet_after(const std::string& text, const OperationSpace& space = kSpace) {
  TokenLog log(space.limits);
  for (const Operation& o : parse_operations(text, "test")) log.apply(o);
  return to_text(alphabet_at(log, space));
}

TEST(Alphabet, begins_with_an_open) {
  EXPECT_EQ(to_text(alphabet_at(TokenLog(kSpace.limits), kSpace)), "open");
}

TEST(Alphabet, leaves_out_what_changes_nothing_or_does_not_fit) {
  EXPECT_EQ(alphabet_after("open"), "feed:0x1.feed:0x2.fork:0.close:0.save:0.open");
  EXPECT_EQ(alphabet_after("open.feed:0x3"),
            "feed:0x1.truncate:0x2.truncate:0x0.fork:0.reset:0.close:0.save:0.shift:0x0-1."
            "evict:0x1-1.open");
  // To no rows and to one row less is the same list of one operation.
  EXPECT_EQ(alphabet_after("open.feed:0x1.save:0"),
            "feed:0x1.feed:0x2.truncate:0x0.fork:0.reset:0.close:0.save:0.open.load:0");
}

TEST(Alphabet, of_two_sequences_joins_them) {
  EXPECT_EQ(alphabet_after("open.feed:0x2.open"),
            "feed:0x1.feed:0x2.truncate:0x1.truncate:0x0.reset:0.close:0.save:0.shift:0x0-1."
            "feed:1x1.feed:1x2.prompt:1@0x2+1.close:1.save:1.batch:0x1-1x2."
            "reorder:0-1@1-0.reorder:0-1@1-1");
}

std::vector<std::string> entered(const OperationSpace& space, int depth) {
  std::vector<std::string> texts;
  each_sequence(space, depth, [&](const Operations& path, const TokenLog&) {
    texts.push_back(to_text(path));
    return true;
  });
  return texts;
}

// All lists of the alphabet, made without the walk: each list extended by each of its letters.
std::set<std::string> all_words(int depth) {
  std::set<std::string> words;
  std::vector<Operations> last{{}};
  for (int d = 0; d < depth; ++d) {
    std::vector<Operations> next;
    for (const Operations& word : last) {
      TokenLog log(kSpace.limits);
      for (const Operation& o : word) log.apply(o);
      for (const Operation& letter : alphabet_at(log, kSpace)) {
        next.push_back(word);
        next.back().push_back(letter);
        words.insert(to_text(next.back()));
      }
    }
    last = std::move(next);
  }
  return words;
}

TEST(EachSequence, enters_every_word_once) {
  const std::vector<std::string> texts = entered(kSpace, 4);
  const std::set<std::string> distinct(texts.begin(), texts.end());
  EXPECT_EQ(distinct.size(), texts.size());
  EXPECT_EQ(distinct, all_words(4));
}

TEST(EachSequence, gives_the_log_after_each_word) {
  std::size_t deepest = 0;
  each_sequence(kSpace, 3, [&](const Operations& path, const TokenLog& after) {
    deepest = std::max(deepest, path.size());
    TokenLog log(kSpace.limits);
    for (const Operation& o : path) log.apply(o);
    EXPECT_EQ(log.live(), after.live());
    EXPECT_LE(log.live().size(), 2U);
    for (const int handle : log.live()) EXPECT_EQ(log.tokens(handle), after.tokens(handle));
    return true;
  });
  EXPECT_EQ(deepest, 3U);
}

TEST(EachSequence, goes_no_deeper_where_it_is_told_so) {
  std::vector<std::string> texts;
  each_sequence(kSpace, 3, [&](const Operations& path, const TokenLog&) {
    texts.push_back(to_text(path));
    return path.size() < 2 || path.back().verb == Verb::fork;
  });
  for (const std::string& text : texts) {
    EXPECT_TRUE(text.find('.') == text.rfind('.') || text.starts_with("open.fork:0.")) << text;
  }
}

TEST(EachSequence, reaches_every_verb_in_four_steps) {
  OperationCoverage coverage;
  each_sequence(kSpace, 4, [&](const Operations& path, const TokenLog&) {
    coverage += coverage_of(path, kSpace);
    return true;
  });
  for (int i = 0; i < kVerbs; ++i) {
    EXPECT_GT(coverage.of(static_cast<Verb>(i)), 0U) << name(static_cast<Verb>(i));
  }
}

TEST(CountSequences, is_what_the_walk_enters) {
  EXPECT_EQ(count_sequences(kSpace, 1, 100), 1U);
  EXPECT_EQ(count_sequences(kSpace, 2, 100), 7U);
  EXPECT_EQ(count_sequences(kSpace, 4, 1'000'000), entered(kSpace, 4).size());
  EXPECT_EQ(count_sequences(kSpace, 40, 1000), 1001U);
  EXPECT_THROW((void)count_sequences(kSpace, 0, 1), InternalError);
}

}  // namespace
}  // namespace kvcheck
