// SPDX-License-Identifier: MIT
// Shrinking reaches the known minimum of made-up failures, within its budget, over valid sequences.
#include "verify/shrink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>

#include "verify/token_log.h"

namespace kvcheck {
namespace {

using namespace std::chrono_literals;

constexpr OperationLimits kLimits{.vocabulary = 50, .context = 16};

using Fails = std::function<bool(const Operations&)>;

// True if some step satisfies the predicate, which sees the log after it.
Fails some_step(const std::function<bool(const Operation&, const TokenLog&)>& bad) {
  return [bad](const Operations& operations) {
    TokenLog log(kLimits);
    bool found = false;
    for (const Operation& o : operations) {
      EXPECT_EQ(log.why_not(o), std::nullopt) << to_text(operations);
      log.apply(o);
      found = found || bad(o, log);
    }
    return found;
  };
}

const std::string kLong =
    "open.feed:0x9.save:0.open.prompt:1@0x8+3.fork:1.batch:2x2-0x3.truncate:0x7.reorder:0-1-2@2-2-"
    "0."
    "load:0.feed:3x4.fork:3.close:1.feed:4x2.truncate:4x11.reset:0.batch:0x5-3x1-4x3.shift:4x2-5."
    "evict:3x1-2.fork:4.feed:5x1.truncate:5x3.feed:5x2.save:5.load:1.truncate:6x4";

struct Minimum {
  std::string what;
  Fails fails;
  std::string smallest;
};

// What a failed test is called; else gtest shows bytes.
void PrintTo(const Minimum& minimum, std::ostream* out) { *out << minimum.what; }

class KnownMinimum : public ::testing::TestWithParam<Minimum> {};

TEST_P(KnownMinimum, is_reached) {
  const Operations original = parse_operations(kLong, "test");
  ASSERT_TRUE(GetParam().fails(original));
  const Shrunk shrunk = shrink(original, GetParam().fails, kLimits, {});
  EXPECT_EQ(to_text(shrunk.smallest), GetParam().smallest);
  EXPECT_TRUE(shrunk.complete);
  EXPECT_LE(shrunk.tries, 300);
}

bool is(const Operation& o, Verb verb) { return o.verb == verb; }

INSTANTIATE_TEST_SUITE_P(
    Failures, KnownMinimum,
    ::testing::Values(
        Minimum{"any feed",
                some_step([](const Operation& o, const TokenLog&) { return is(o, Verb::feed); }),
                "open.feed:0x1"},
        Minimum{"seven rows", some_step([](const Operation& o, const TokenLog& log) {
                  return is(o, Verb::feed) && log.length(o.sequences[0]) >= 7;
                }),
                "open.feed:0x7"},
        Minimum{"truncation that drops rows",
                [](const Operations& operations) {
                  TokenLog log(kLimits);
                  for (const Operation& o : operations) {
                    if (is(o, Verb::truncate) && o.numbers[0] < log.length(o.sequences[0])) {
                      return true;
                    }
                    log.apply(o);
                  }
                  return false;
                },
                "open.feed:0x1.truncate:0x0"},
        Minimum{"truncation to two rows or more, by one",
                [](const Operations& operations) {
                  TokenLog log(kLimits);
                  for (const Operation& o : operations) {
                    if (is(o, Verb::truncate) && o.numbers[0] >= 2 &&
                        o.numbers[0] == log.length(o.sequences[0]) - 1) {
                      return true;
                    }
                    log.apply(o);
                  }
                  return false;
                },
                "open.feed:0x3.truncate:0x2"},
        Minimum{"feed of a copy",
                [](const Operations& operations) {
                  TokenLog log(kLimits);
                  std::set<int> forks;
                  for (const Operation& o : operations) {
                    const OperationStep step = log.apply(o);
                    if (is(o, Verb::fork)) forks.insert(*step.created);
                    if (is(o, Verb::feed) && forks.contains(o.sequences[0])) return true;
                  }
                  return false;
                },
                "open.fork:0.feed:1x1"},
        Minimum{"load",
                some_step([](const Operation& o, const TokenLog&) { return is(o, Verb::load); }),
                "open.save:0.load:0"},
        Minimum{"repeated reordering", some_step([](const Operation& o, const TokenLog&) {
                  return is(o, Verb::reorder) && o.numbers.size() > 1 &&
                         o.numbers[0] == o.numbers[1];
                }),
                "open.open.reorder:0-1@1-1"},
        Minimum{"unequal batch", some_step([](const Operation& o, const TokenLog&) {
                  return is(o, Verb::batch) && o.sequences.size() > 1 &&
                         o.numbers[0] < o.numbers[1];
                }),
                "open.open.batch:1x1-0x2"},
        Minimum{"gap before a feed", some_step([](const Operation& o, const TokenLog& log) {
                  return is(o, Verb::evict) &&
                         log.next_position(o.sequences[0]) > log.length(o.sequences[0]);
                }),
                "open.feed:0x2.evict:0x0-1"},
        Minimum{"shift of some middle", some_step([](const Operation& o, const TokenLog&) {
                  return is(o, Verb::shift) && o.numbers[0] > 0;
                }),
                "open.feed:0x3.shift:0x1-2"},
        Minimum{"prompt", some_step([](const Operation& o, const TokenLog&) {
                  return is(o, Verb::prompt) && o.numbers[0] >= 2;
                }),
                "open.feed:0x2.open.prompt:1@0x2+0"},
        Minimum{"one open sequence",
                [](const Operations& operations) { return !operations.empty(); }, "open"}),
    [](const auto& param) {
      std::string text = param.param.what;
      std::erase(text, ',');
      std::replace(text.begin(), text.end(), ' ', '_');
      return text;
    });

TEST(Shrink, never_ends_at_what_does_not_fail) {
  // Fails for reasons that no order of candidates knows: by the text's hash.
  const Operations original = parse_operations(kLong, "test");
  for (std::size_t salt = 0; salt < 40; ++salt) {
    const auto fails = [&](const Operations& o) {
      return o == original || std::hash<std::string>{}(to_text(o)) % 7 == salt % 7;
    };
    const Shrunk shrunk = shrink(original, fails, kLimits, {.tries = 100 + static_cast<int>(salt)});
    EXPECT_TRUE(fails(shrunk.smallest)) << to_text(shrunk.smallest);
  }
}

TEST(Shrink, stays_within_its_tries) {
  const Operations original = parse_operations(kLong, "test");
  int calls = 0;
  const auto fails = [&](const Operations& o) {
    ++calls;
    return o.size() > 3;
  };
  const Shrunk shrunk = shrink(original, fails, kLimits, {.tries = 4});
  EXPECT_EQ(calls, 4);
  EXPECT_EQ(shrunk.tries, 4);
  EXPECT_FALSE(shrunk.complete);
  EXPECT_LT(shrunk.smallest.size(), original.size());
  const Shrunk none = shrink(original, fails, kLimits, {.tries = 0});
  EXPECT_EQ(none.smallest, original);
  EXPECT_FALSE(none.complete);
}

TEST(Shrink, stops_at_the_deadline) {
  const Operations original = parse_operations(kLong, "test");
  const auto always = [](const Operations&) { return true; };
  const auto past = std::chrono::steady_clock::now() - 1s;
  const Shrunk shrunk = shrink(original, always, kLimits, {.deadline = past});
  EXPECT_EQ(shrunk.smallest, original);
  EXPECT_EQ(shrunk.tries, 0);
  EXPECT_FALSE(shrunk.complete);
}

TEST(Shrink, tries_nothing_twice_and_the_same_every_time) {
  const Operations original = parse_operations(kLong, "test");
  const auto run = [&] {
    std::vector<std::string> tried;
    const auto fails = [&](const Operations& o) {
      tried.push_back(to_text(o));
      return o.size() > 6;
    };
    (void)shrink(original, fails, kLimits, {});
    return tried;
  };
  const std::vector<std::string> tried = run();
  EXPECT_EQ(std::set<std::string>(tried.begin(), tried.end()).size(), tried.size());
  EXPECT_EQ(run(), tried);
}

TEST(EachSimpler, stops_when_it_is_told_to) {
  const Operations original = parse_operations(kLong, "test");
  int visited = 0;
  EXPECT_TRUE(each_simpler(original, kLimits, [&](const Operations&) { return ++visited == 3; }));
  EXPECT_EQ(visited, 3);
  EXPECT_FALSE(each_simpler({{Verb::open, {}, {}}}, kLimits,
                            [](const Operations& o) { return !o.empty(); }));
}

}  // namespace
}  // namespace kvcheck
