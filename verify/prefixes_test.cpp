// SPDX-License-Identifier: MIT
// The tree holds each prefix exactly once.
#include "verify/prefixes.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <limits>
#include <map>
#include <set>

namespace kvcheck {
namespace {

using Sequence = std::vector<int>;
using Sequences = std::vector<Sequence>;

const Sequences kCorpus{{0, 2, 4, 6, 1}, {0, 2, 5, 7, 1}, {0, 3, 4, 7, 1}, {0, 3, 5, 6, 1}};

Config shape(int vocabulary, int context) {
  Config config;
  config.vocabulary = vocabulary;
  config.context = context;
  return config;
}

void collect(const PrefixTree& tree, const PrefixTree::Node& node, Sequence& path,
             std::vector<std::pair<Sequence, bool>>& found) {
  for (const PrefixTree::Child& child : tree.children(node)) {
    path.push_back(child.token);
    EXPECT_EQ(child.node.depth, static_cast<int>(path.size()));
    found.emplace_back(path, tree.leaf(child.node));
    collect(tree, child.node, path, found);
    path.pop_back();
  }
}

// Every prefix of the tree in the order of a walk, and whether it is a leaf.
std::vector<std::pair<Sequence, bool>> prefixes_of(const PrefixTree& tree) {
  std::vector<std::pair<Sequence, bool>> found;
  Sequence path;
  collect(tree, tree.root(), path, found);
  return found;
}

TEST(PrefixTree, of_a_vocabulary_holds_every_sequence) {
  const PrefixTree tree = PrefixTree::all(shape(3, 3));
  EXPECT_TRUE(tree.whole_vocabulary());
  EXPECT_EQ(tree.depth_max(), 3);
  EXPECT_EQ(tree.count(), 39);
  const auto found = prefixes_of(tree);
  EXPECT_EQ(found.size(), 39U);
  EXPECT_EQ(std::set(found.begin(), found.end()).size(), 39U);
  EXPECT_EQ(found[0].first, (Sequence{0}));
  EXPECT_EQ(found[2].first, (Sequence{0, 0, 0}));
  EXPECT_EQ(found.back().first, (Sequence{2, 2, 2}));
  for (const auto& [prefix, leaf] : found) EXPECT_EQ(leaf, prefix.size() == 3);
}

TEST(PrefixTree, of_the_frozen_model_has_4680_prefixes) {
  const PrefixTree tree = PrefixTree::all(shape(8, 4));
  EXPECT_EQ(tree.count(), 4680);
  EXPECT_EQ(prefixes_of(tree).size(), 4680U);
}

TEST(PrefixTree, of_the_corpus_has_eleven_prefixes_within_the_context) {
  const PrefixTree tree = PrefixTree::of(kCorpus, 4);
  EXPECT_FALSE(tree.whole_vocabulary());
  EXPECT_EQ(tree.count(), 11) << "1 + 2 + 4 + 4";
  EXPECT_EQ(tree.depth_max(), 4);
  EXPECT_EQ(prefixes_of(tree).size(), 11U);
  EXPECT_EQ(PrefixTree::of(kCorpus, 5).count(), 15);
  EXPECT_EQ(PrefixTree::of(kCorpus, 1).count(), 1);
}

TEST(PrefixTree, children_stand_in_the_order_of_their_tokens) {
  const PrefixTree tree = PrefixTree::of({{5, 1}, {2}, {5, 0}, {3, 3}}, 4);
  std::string order;
  for (const auto& [prefix, leaf] : prefixes_of(tree)) {
    for (const int token : prefix) order += std::to_string(token);
    order += leaf ? ". " : " ";
  }
  EXPECT_EQ(order, "2. 3 33. 5 50. 51. ");
}

TEST(PrefixTree, sequences_that_are_equal_count_once) {
  EXPECT_EQ(PrefixTree::of({{1, 2}, {1, 2}, {1, 2}}, 4).count(), 2);
  EXPECT_EQ(PrefixTree::of({{1, 2, 3}, {1, 2, 4}}, 2).count(), 2) << "equal once they are cut";
  EXPECT_EQ(prefixes_of(PrefixTree::of({{1, 2, 3}, {1, 2, 4}}, 2)).size(), 2U);
}

TEST(PrefixTree, a_sequence_within_another_is_no_leaf) {
  const auto found = prefixes_of(PrefixTree::of({{1, 2, 3}, {1}, {1, 2}}, 4));
  ASSERT_EQ(found.size(), 3U);
  EXPECT_FALSE(found[0].second);
  EXPECT_FALSE(found[1].second);
  EXPECT_TRUE(found[2].second);
}

TEST(PrefixTree, of_nothing_is_empty) {
  for (const Sequences& none : {Sequences{}, Sequences{{}}}) {
    const PrefixTree tree = PrefixTree::of(none, 4);
    EXPECT_EQ(tree.count(), 0);
    EXPECT_EQ(tree.depth_max(), 0);
    EXPECT_TRUE(tree.children(tree.root()).empty());
  }
}

TEST(PrefixTree, an_empty_sequence_among_others_adds_nothing) {
  const PrefixTree tree = PrefixTree::of({{}, {1, 2}}, 4);
  EXPECT_EQ(tree.count(), 2);
  EXPECT_EQ(prefixes_of(tree).size(), 2U);
}

RC_GTEST_PROP(PrefixTree, holds_just_the_distinct_prefixes, ()) {
  const auto sequences =
      *rc::gen::container<Sequences>(rc::gen::container<Sequence>(rc::gen::element(0, 1, 2)))
           .as("sequences");
  const int context = *rc::gen::element(1, 2, 3, 5).as("context");
  std::map<Sequence, bool> expected;  // whether it is a leaf
  for (const Sequence& sequence : sequences) {
    const auto length = std::min(sequence.size(), static_cast<std::size_t>(context));
    for (std::size_t n = 1; n <= length; ++n) {
      const auto begin = sequence.begin();
      const bool goes_on = n < length;
      bool& leaf =
          expected.try_emplace({begin, begin + static_cast<std::ptrdiff_t>(n)}, true).first->second;
      leaf = leaf && !goes_on;
    }
  }
  const PrefixTree tree = PrefixTree::of(sequences, context);
  const auto found = prefixes_of(tree);
  RC_ASSERT(found.size() == expected.size());
  RC_ASSERT((std::map<Sequence, bool>(found.begin(), found.end()) == expected));
  RC_ASSERT(tree.count() == static_cast<std::int64_t>(expected.size()));
}

}  // namespace
}  // namespace kvcheck
