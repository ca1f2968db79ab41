// SPDX-License-Identifier: MIT
// Each edge is hit by a sequence written for it and missed by its neighbour.
#include "verify/operation_coverage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

namespace kvcheck {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

constexpr OperationSpace kSpace{
    .limits = {.vocabulary = 5, .context = 12}, .window = 3, .block = 5};

OperationCoverage coverage(const std::string& text) {
  return coverage_of(parse_operations(text, "test"), kSpace);
}

TEST(OperationCoverage, counts_verbs_and_consecutive_pairs) {
  const OperationCoverage c = coverage("open.feed:0x1.feed:0x1.close:0");
  EXPECT_EQ(c.sequences, 1U);
  EXPECT_EQ(c.operations, 4U);
  EXPECT_EQ(c.of(Verb::feed), 2U);
  EXPECT_EQ(c.of(Verb::fork), 0U);
  EXPECT_EQ(c.of(Verb::open, Verb::feed), 1U);
  EXPECT_EQ(c.of(Verb::feed, Verb::feed), 1U);
  EXPECT_EQ(c.of(Verb::feed, Verb::open), 0U);
}

struct EdgeCase {
  Edge edge;
  std::string hit;
  std::string missed;
};

class Edges : public ::testing::TestWithParam<EdgeCase> {};

TEST_P(Edges, are_told_from_their_neighbours) {
  EXPECT_EQ(coverage(GetParam().hit).of(GetParam().edge), 1U) << GetParam().hit;
  EXPECT_EQ(coverage(GetParam().missed).of(GetParam().edge), 0U) << GetParam().missed;
}

const std::vector<EdgeCase> kEdgeCases{
    {Edge::below_window, "open.feed:0x2", "open.feed:0x3"},
    {Edge::at_window, "open.feed:0x3", "open.feed:0x4"},
    {Edge::above_window, "open.feed:0x5.truncate:0x4", "open.feed:0x5.truncate:0x3"},
    {Edge::wrapped, "open.feed:0x6", "open.feed:0x5"},
    {Edge::below_block, "open.feed:0x4", "open.feed:0x5"},
    {Edge::at_block, "open.feed:0x5", "open.feed:0x4"},
    {Edge::above_block, "open.feed:0x6", "open.feed:0x7"},
    {Edge::partial_block, "open.feed:0x4.feed:0x2", "open.feed:0x5.feed:0x2"},
    {Edge::fork_partial_block, "open.feed:0x4.fork:0", "open.feed:0x5.fork:0"},
    {Edge::below_capacity, "open.feed:0x11", "open.feed:0x12"},
    {Edge::at_capacity, "open.feed:0x12", "open.feed:0x11"},
    {Edge::unequal_batch, "open.open.batch:0x1-1x2", "open.open.batch:0x2-1x2"},
    {Edge::truncate_to_0, "open.feed:0x2.truncate:0x0", "open.truncate:0x0"},
    {Edge::truncate_to_1, "open.feed:0x2.truncate:0x1", "open.feed:0x1.truncate:0x1"},
    {Edge::truncate_by_1, "open.feed:0x4.truncate:0x3", "open.feed:0x4.truncate:0x2"},
    {Edge::truncate_by_0, "open.feed:0x4.truncate:0x4", "open.feed:0x4.truncate:0x3"},
    {Edge::refill, "open.feed:0x2.reset:0.feed:0x1.feed:0x1",
     "open.feed:0x2.reset:0.fork:0.feed:1x1"},
    {Edge::refork, "open.fork:0.fork:1", "open.open.fork:0.fork:1"},
    {Edge::reorder_repeat, "open.open.reorder:0-1@1-1", "open.open.reorder:0-1@1-0"},
    {Edge::prompt_below_block, "open.feed:0x9.open.prompt:1@0x4+1",
     "open.feed:0x9.open.prompt:1@0x3+2"},
    {Edge::prompt_at_block, "open.feed:0x9.open.prompt:1@0x5+1",
     "open.feed:0x9.open.prompt:1@0x4+1"},
    {Edge::prompt_above_block, "open.feed:0x9.open.prompt:1@0x6+1",
     "open.feed:0x9.open.prompt:1@0x5+1"},
    {Edge::prompt_whole, "open.feed:0x9.open.prompt:1@0x9+0", "open.feed:0x9.open.prompt:1@0x9+1"},
    {Edge::prompt_of_closed, "open.feed:0x9.close:0.open.prompt:1@0x9+0",
     "open.feed:0x9.open.prompt:1@0x9+0"},
    {Edge::load_after_change, "open.feed:0x2.save:0.feed:0x1.load:0",
     "open.feed:0x2.save:0.load:0"},
};

INSTANTIATE_TEST_SUITE_P(All, Edges, ::testing::ValuesIn(kEdgeCases), [](const auto& param) {
  std::string text(name(param.param.edge));
  for (char& c : text) c = c == '-' ? '_' : c;
  return text;
});

TEST(OperationCoverage, every_edge_has_a_case) {
  std::set<Edge> edges;
  for (const EdgeCase& edge_case : kEdgeCases) edges.insert(edge_case.edge);
  EXPECT_EQ(edges.size(), static_cast<std::size_t>(kEdges));
}

TEST(OperationCoverage, adds_up) {
  OperationCoverage sum = coverage("open.feed:0x3");
  sum += coverage("open.feed:0x3.fork:0");
  EXPECT_EQ(sum.sequences, 2U);
  EXPECT_EQ(sum.operations, 5U);
  EXPECT_EQ(sum.of(Verb::feed), 2U);
  EXPECT_EQ(sum.of(Verb::open, Verb::feed), 2U);
  EXPECT_EQ(sum.of(Verb::feed, Verb::fork), 1U);
  EXPECT_EQ(sum.of(Edge::at_window), 3U);  // the fork is as long
}

TEST(OperationCoverage, names_what_is_missing) {
  const std::vector<std::string> gaps = missing(coverage("open.feed:0x3"), kSpace);
  EXPECT_THAT(gaps, Contains("shift"));
  EXPECT_THAT(gaps, Contains("fork.close"));
  EXPECT_THAT(gaps, Contains("wrapped"));
  EXPECT_THAT(gaps, Not(Contains("at-window")));
  EXPECT_THAT(gaps, Not(Contains("open.feed")));
}

TEST(OperationCoverage, does_not_miss_what_the_space_cannot_reach) {
  const OperationSpace small{
      .limits = {.vocabulary = 5, .context = 4, .verbs = {Verb::open, Verb::feed}}, .block = 16};
  const OperationCoverage c =
      coverage_of(parse_operations("open.feed:0x3.feed:0x1", "test"), small);
  EXPECT_THAT(missing(c, small), ElementsAre("open.open", "feed.open"));
  OperationSpace smallest = small;
  smallest.live_max = 1;
  EXPECT_THAT(missing(c, smallest), ElementsAre());
  EXPECT_FALSE(possible(Edge::at_block, small));
  EXPECT_FALSE(possible(Edge::at_window, small));
}

}  // namespace
}  // namespace kvcheck
