// SPDX-License-Identifier: MIT
// Random sequences are valid, the same wherever they are drawn, and reach every verb, every pair of
// verbs and every edge. What is never drawn is never checked.
#include "properties/operations_gen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>

#include "verify/operation_coverage.h"
#include "verify/shrink.h"
#include "verify/token_log.h"

namespace kvcheck {
namespace {

using ::testing::IsEmpty;

constexpr int kIndices = 2000;

constexpr OperationSpace kWide{
    .limits = {.vocabulary = 40, .context = 24}, .window = 3, .block = 4};
// As chapter8: positions are learned and the context is shorter than a page.
constexpr OperationSpace kShort{
    .limits = {.vocabulary = 8, .context = 4, .learned_positions = true}, .block = 16};
constexpr OperationSpace kPages{.limits = {.vocabulary = 8, .context = 40}, .block = 16};
constexpr OperationSpace kFew{
    .limits = {.vocabulary = 8, .context = 6, .verbs = {Verb::open, Verb::feed, Verb::close}},
    .operations_max = 8,
    .live_max = 1};

class Spaces : public ::testing::TestWithParam<OperationSpace> {};

TEST_P(Spaces, hold_only_valid_sequences_within_their_bounds) {
  const OperationSpace& space = GetParam();
  for (std::uint64_t index = 0; index < kIndices; ++index) {
    const Operations operations = random_operations(space, 1, index);
    ASSERT_FALSE(operations.empty());
    ASSERT_LE(static_cast<int>(operations.size()), space.operations_max);
    TokenLog log(space.limits);
    for (const Operation& o : operations) {
      ASSERT_EQ(log.why_not(o), std::nullopt) << to_text(operations);
      log.apply(o);
      ASSERT_LE(static_cast<int>(log.live().size()), space.live_max) << to_text(operations);
    }
  }
}

OperationCoverage coverage_of_run(const OperationSpace& space, std::uint64_t seed) {
  OperationCoverage sum;
  for (std::uint64_t index = 0; index < kIndices; ++index) {
    sum += coverage_of(random_operations(space, seed, index), space);
  }
  return sum;
}

TEST_P(Spaces, are_covered) {
  for (const std::uint64_t seed : {1, 2}) {
    EXPECT_THAT(missing(coverage_of_run(GetParam(), seed), GetParam()), IsEmpty());
  }
}

std::string space_name(const ::testing::TestParamInfo<OperationSpace>& param) {
  constexpr std::array<const char*, 4> kNames{"wide", "short", "pages", "few"};
  return kNames[param.index];
}

INSTANTIATE_TEST_SUITE_P(All, Spaces, ::testing::Values(kWide, kShort, kPages, kFew), space_name);

TEST(RandomOperations, take_verbs_and_edges_in_stated_shares) {
  const OperationCoverage c = coverage_of_run(kWide, 1);
  const double sequences = static_cast<double>(c.sequences);
  const double operations = static_cast<double>(c.operations);
  EXPECT_GE(operations / sequences, 18.0);
  EXPECT_LE(operations / sequences, 22.0);
  for (int i = 0; i < kVerbs; ++i) {
    const double share = static_cast<double>(c.of(static_cast<Verb>(i))) / operations;
    EXPECT_GE(share, 0.02) << name(static_cast<Verb>(i));
    EXPECT_LE(share, 0.25) << name(static_cast<Verb>(i));
  }
  // How many times per sequence each edge is hit, at least.
  for (int i = 0; i < kEdges; ++i) {
    EXPECT_GE(static_cast<double>(c.of(static_cast<Edge>(i))) / sequences, 0.02)
        << name(static_cast<Edge>(i));
  }
  for (const Edge edge : {Edge::at_window, Edge::at_block, Edge::at_capacity, Edge::partial_block,
                          Edge::refill, Edge::unequal_batch}) {
    EXPECT_GE(static_cast<double>(c.of(edge)) / sequences, 0.4) << name(edge);
  }
}

// Where no amount aims at an edge, uniform ones hit these half as often at most.
TEST(RandomOperations, aim_at_the_ends_of_pages_and_of_the_context) {
  const OperationCoverage c = coverage_of_run(kPages, 1);
  const auto per_sequence = [&](Edge edge) {
    return static_cast<double>(c.of(edge)) / static_cast<double>(c.sequences);
  };
  for (const Edge edge : {Edge::below_block, Edge::at_block, Edge::above_block}) {
    EXPECT_GE(per_sequence(edge), 0.5) << name(edge);
  }
  for (const Edge edge :
       {Edge::prompt_below_block, Edge::prompt_at_block, Edge::prompt_above_block}) {
    EXPECT_GE(per_sequence(edge), 0.04) << name(edge);
  }
  EXPECT_GE(per_sequence(Edge::at_capacity), 1.0);
}

TEST(RandomOperations, are_functions_of_seed_and_index) {
  std::set<std::string> texts;
  for (std::uint64_t index = 0; index < 200; ++index) {
    const Operations operations = random_operations(kWide, 7, index);
    EXPECT_EQ(operations, random_operations(kWide, 7, index));
    texts.insert(to_text(operations));
    texts.insert(to_text(random_operations(kWide, 8, index)));
  }
  EXPECT_GE(texts.size(), 390U);  // short ones may be alike
  // Pinned: a run must mean the same cases in every build.
  EXPECT_EQ(to_text(random_operations(kFew, 1, 0)), "open.feed:0x5.feed:0x1.close:0.open");
}

TEST(RandomOperations, do_not_look_at_the_environment) {
  const Operations before = random_operations(kWide, 3, 5);
  ASSERT_EQ(setenv("RC_PARAMS", "seed=99 max_size=1", 1), 0);
  EXPECT_EQ(random_operations(kWide, 3, 5), before);
  unsetenv("RC_PARAMS");
}

TEST(RandomOperations, may_be_drawn_in_several_threads) {
  constexpr std::uint64_t kCount = 500;
  std::array<std::vector<Operations>, 4> drawn;
  {
    std::vector<std::jthread> threads;
    threads.reserve(drawn.size());
    for (auto& mine : drawn) {
      threads.emplace_back([&mine] {
        for (std::uint64_t i = 0; i < kCount; ++i) mine.push_back(random_operations(kWide, 5, i));
      });
    }
  }
  for (const auto& mine : drawn) EXPECT_EQ(mine, drawn[0]);
}

RC_GTEST_PROP(AnyOperations, are_read_back_as_written, ()) {
  const Operations operations = *any_operations(kWide);
  RC_ASSERT(parse_operations(to_text(operations), "here") == operations);
}

RC_GTEST_PROP(AnyOperations, simpler_ones_are_valid, ()) {
  const Operations operations = *any_operations(kWide);
  int visited = 0;
  each_simpler(operations, kWide.limits, [&](const Operations& candidate) {
    TokenLog log(kWide.limits);
    for (const Operation& o : candidate) {
      RC_ASSERT(!log.why_not(o));
      log.apply(o);
    }
    RC_ASSERT(candidate != operations);
    ++visited;
    return false;
  });
  RC_ASSERT(visited > 0);
}

// The rows that a sequence holds are the only ones of its log that later rows can see, and each was
// computed at its own position from rows before it.
RC_GTEST_PROP(AnyOperations, logs_are_causal, ()) {
  const Operations operations = *any_operations(kWide);
  TokenLog log(kWide.limits);
  for (const Operation& o : operations) {
    const OperationStep step = log.apply(o);
    for (const int handle : step.changed) {
      const std::vector<LoggedRow> rows = log.log(handle);
      RC_ASSERT(static_cast<int>(rows.size()) >= log.length(handle));
      for (int i = 0; i < static_cast<int>(rows.size()); ++i) {
        const LoggedRow& row = rows[static_cast<std::size_t>(i)];
        RC_ASSERT(row.sees.back() == (SeenRow{i, row.position}));
        for (std::size_t k = 1; k < row.sees.size(); ++k) {
          RC_ASSERT(row.sees[k - 1].row < row.sees[k].row);
          RC_ASSERT(row.sees[k - 1].position < row.sees[k].position);
        }
        RC_ASSERT(row.position < kWide.limits.context);
      }
      if (log.plain(handle)) RC_ASSERT(static_cast<int>(rows.size()) == log.length(handle));
    }
  }
}

TEST(AnyOperations, shrink_in_a_property) {
  namespace detail = rc::detail;
  struct Silent : detail::TestListener {
    void onTestCaseFinished(const detail::CaseDescription&) override {}
    void onShrinkTried(const detail::CaseDescription&, bool) override {}
    void onTestFinished(const detail::TestMetadata&, const detail::TestResult&) override {}
  } listener;
  const auto property = [] {
    const Operations operations = *any_operations(kWide);
    const auto loads = [](const Operation& o) { return o.verb == Verb::load; };
    RC_ASSERT(std::none_of(operations.begin(), operations.end(), loads));
  };
  detail::TestParams params;
  params.seed = 1;
  detail::FailureResult failure;
  const auto result = detail::checkTestable(property, detail::TestMetadata(), params, listener,
                                            std::unordered_map<std::string, detail::Reproduce>{});
  ASSERT_TRUE(result.match(failure));
  EXPECT_EQ(failure.counterExample[0].second, "[open, save:0, load:0]");
}

}  // namespace
}  // namespace kvcheck
