// SPDX-License-Identifier: MIT
// Operations and their text are two spellings of one thing; other texts are refused by word.
#include "verify/operations.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

#include "engine/error.h"

namespace kvcheck {
namespace {

const std::string kEveryVerb =
    "open.feed:0x3.prompt:1@0x4+2.batch:0x1-1x2.truncate:0x2.fork:0.reorder:0-1@1-1.reset:0."
    "close:0.save:0.load:0.shift:0x1-2.evict:0x1-2";

const Operations kAllOperations{{Verb::open, {}, {}},
                                {Verb::feed, {0}, {3}},
                                {Verb::prompt, {1, 0}, {4, 2}},
                                {Verb::batch, {0, 1}, {1, 2}},
                                {Verb::truncate, {0}, {2}},
                                {Verb::fork, {0}, {}},
                                {Verb::reorder, {0, 1}, {1, 1}},
                                {Verb::reset, {0}, {}},
                                {Verb::close, {0}, {}},
                                {Verb::save, {0}, {}},
                                {Verb::load, {}, {0}},
                                {Verb::shift, {0}, {1, 2}},
                                {Verb::evict, {0}, {1, 2}}};

TEST(Operations, every_verb_has_a_text) {
  EXPECT_EQ(to_text(kAllOperations), kEveryVerb);
  EXPECT_EQ(parse_operations(kEveryVerb, "here"), kAllOperations);
}

TEST(Operations, names_stand_for_their_verbs) {
  EXPECT_EQ(name(Verb::open), "open");
  EXPECT_EQ(name(Verb::reorder), "reorder");
  EXPECT_EQ(name(Verb::evict), "evict");
}

rc::Gen<Operation> any_well_formed() {
  using rc::gen::container;
  const auto number =
      rc::gen::resize(100, rc::gen::oneOf(rc::gen::inRange(0, 12), rc::gen::just(2147483647)));
  return rc::gen::exec([number] {
    Operation o = *rc::gen::elementOf(kAllOperations);
    const int count = *rc::gen::resize(100, rc::gen::inRange(1, 5));
    const bool is_list = o.verb == Verb::batch || o.verb == Verb::reorder;
    const auto draw = [&](std::vector<int>& values) {
      const std::size_t size = is_list ? static_cast<std::size_t>(count) : values.size();
      values = *container<std::vector<int>>(size, number);
    };
    draw(o.sequences);
    draw(o.numbers);
    return o;
  });
}

RC_GTEST_PROP(Operations, are_read_back_as_written, ()) {
  const auto operations = *rc::gen::nonEmpty(rc::gen::container<Operations>(any_well_formed()));
  const std::string text = to_text(operations);
  RC_ASSERT(text.find_first_of(" =,\t\n$&;|<>'\"`\\(){}*?[]~!#") == std::string::npos);
  RC_ASSERT(parse_operations(text, "here") == operations);
}

struct Malformed {
  std::string text;
  std::string complaint;
};

class MalformedOperations : public ::testing::TestWithParam<Malformed> {};

TEST_P(MalformedOperations, are_refused_by_word) {
  try {
    FAIL() << "taken: " << to_text(parse_operations(GetParam().text, "--operations"));
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), "--operations: " + GetParam().complaint);
  }
}

const std::string kVerbNames =
    "one of open feed prompt batch truncate fork reorder reset close save load shift evict";

INSTANTIATE_TEST_SUITE_P(
    Texts, MalformedOperations,
    ::testing::Values(
        Malformed{"", "operation 1, expected " + kVerbNames + ", got "},
        Malformed{"open.", "operation 2, expected " + kVerbNames + ", got "},
        Malformed{"open..close:0", "operation 2, expected " + kVerbNames + ", got "},
        Malformed{"open.fed:0x1", "operation 2, expected " + kVerbNames + ", got fed:0x1"},
        Malformed{"open:0", "operation 1, expected a form as open, got open:0"},
        Malformed{"feed", "operation 1, expected a form as feed:0x3, got feed"},
        Malformed{"feed:", "operation 1, expected a form as feed:0x3, got feed:"},
        Malformed{"feed:0x", "operation 1, expected a form as feed:0x3, got feed:0x"},
        Malformed{"feed:0x1x", "operation 1, expected a form as feed:0x3, got feed:0x1x"},
        Malformed{"feed:-1x1", "operation 1, expected a form as feed:0x3, got feed:-1x1"},
        Malformed{"feed:0x+1", "operation 1, expected a form as feed:0x3, got feed:0x+1"},
        Malformed{"feed:00x1", "operation 1, expected a form as feed:0x3, got feed:00x1"},
        Malformed{"feed:0x01", "operation 1, expected a form as feed:0x3, got feed:0x01"},
        Malformed{"feed: 0x1", "operation 1, expected a form as feed:0x3, got feed: 0x1"},
        Malformed{"feed:0x2147483648",
                  "operation 1, expected a form as feed:0x3, got feed:0x2147483648"},
        Malformed{"prompt:1@0x4",
                  "operation 1, expected a form as prompt:1@0x4+2, got prompt:1@0x4"},
        Malformed{"batch:0x1-", "operation 1, expected a form as batch:0x1-1x2, got batch:0x1-"},
        Malformed{"reorder:0-1@1",
                  "operation 1, expected a form as reorder:0-1@1-1, got reorder:0-1@1"},
        Malformed{"reorder:@", "operation 1, expected a form as reorder:0-1@1-1, got reorder:@"},
        Malformed{"shift:0x1", "operation 1, expected a form as shift:0x1-2, got shift:0x1"}));

TEST(Operations, a_text_has_an_end) {
  std::string text = "open";
  for (int i = 1; i < kOperationsMax; ++i) text += ".open";
  EXPECT_EQ(parse_operations(text, "here").size(), static_cast<std::size_t>(kOperationsMax));
  EXPECT_THAT([&] { return parse_operations(text + ".open", "here"); },
              ::testing::ThrowsMessage<Error>(
                  "here: operation 1001, expected at most 1000 operations, got more"));
}

TEST(Operations, only_well_formed_ones_are_written) {
  EXPECT_FALSE(well_formed({Verb::open, {0}, {}}));
  EXPECT_FALSE(well_formed({Verb::feed, {-1}, {1}}));
  EXPECT_FALSE(well_formed({Verb::batch, {}, {}}));
  EXPECT_FALSE(well_formed({Verb::reorder, {0, 1}, {0}}));
  EXPECT_THROW((void)to_text(Operation{Verb::feed, {}, {}}), InternalError);
}

}  // namespace
}  // namespace kvcheck
