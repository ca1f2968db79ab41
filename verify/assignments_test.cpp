// SPDX-License-Identifier: MIT
// The sequences that are enumerated come once each, and may be cut into parts anywhere.
#include "verify/assignments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "verify/exhaustive.h"

namespace kvcheck {
namespace {

using ::testing::ElementsAre;

constexpr OperationSpace kSpace{.limits = {.vocabulary = 5, .context = 4}, .live_max = 2};
constexpr OperationSpace kNarrow{
    .limits = {.vocabulary = 5,
               .context = 2,
               .verbs = {Verb::open, Verb::feed, Verb::truncate, Verb::close}},
    .live_max = 1};
constexpr std::size_t kAll = 1'000'000;

std::vector<std::string> longest(const OperationSpace& space, int depth, std::size_t first = 0,
                                 std::size_t count = kAll) {
  std::vector<std::string> found;
  each_longest(space, depth, first, count,
               [&](const Operations& operations) { found.push_back(to_text(operations)); });
  return found;
}

TEST(EachLongest, visits_those_of_full_depth) {
  EXPECT_THAT(longest(kNarrow, 1), ElementsAre("open"));
  EXPECT_THAT(longest(kNarrow, 2), ElementsAre("open.feed:0x1", "open.feed:0x2", "open.close:0"));
}

// Where nothing is left to do a shorter one is the longest.
TEST(EachLongest, visits_what_ends_before_its_depth) {
  OperationSpace space = kNarrow;
  space.limits.verbs = {Verb::open, Verb::feed};
  EXPECT_THAT(longest(space, 4), ElementsAre("open.feed:0x1.feed:0x1", "open.feed:0x2"));
  EXPECT_EQ(count_longest(space, 4), 2U);
}

TEST(EachLongest, visits_each_list_once_and_every_other_as_a_beginning) {
  for (const int depth : {1, 2, 3, 4}) {
    const std::vector<std::string> all = longest(kSpace, depth);
    EXPECT_EQ(all.size(), count_longest(kSpace, depth));
    const std::set<std::string> distinct(all.begin(), all.end());
    EXPECT_EQ(distinct.size(), all.size());
    std::set<std::string> beginnings;
    for (const std::string& text : all) {
      for (std::size_t end = text.find('.'); end != text.npos; end = text.find('.', end + 1)) {
        beginnings.insert(text.substr(0, end));
      }
      beginnings.insert(text);
    }
    EXPECT_EQ(beginnings.size(), count_sequences(kSpace, depth, kAll));
  }
}

TEST(EachLongest, visits_the_same_in_parts) {
  const std::vector<std::string> all = longest(kSpace, 4);
  for (const std::size_t part : {std::size_t{1}, std::size_t{7}, all.size() - 1, all.size()}) {
    const std::size_t step = part == 1 ? 97 : part;  // single ones here and there
    for (std::size_t first = 0; first < all.size(); first += step) {
      const std::size_t end = std::min(first + part, all.size());
      EXPECT_EQ(longest(kSpace, 4, first, part),
                std::vector<std::string>(all.begin() + static_cast<std::ptrdiff_t>(first),
                                         all.begin() + static_cast<std::ptrdiff_t>(end)));
    }
  }
  EXPECT_TRUE(longest(kSpace, 4, all.size(), 5).empty());
}

}  // namespace
}  // namespace kvcheck
