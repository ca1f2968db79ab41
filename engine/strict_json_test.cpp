// SPDX-License-Identifier: MIT
// JSON with anything doubtful in it is refused, with its place.
#include "engine/strict_json.h"

#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>

#include "engine/test_support.h"

namespace kvcheck {
namespace {

std::string parse_error(const std::string& text) {
  return error_of([&] { (void)parse_json(text, "f"); });
}

std::string nested(std::size_t levels) {
  return std::string(levels, '[') + std::string(levels, ']');
}

TEST(StrictJson, gives_the_value) {
  const auto json = parse_json(R"({"a": [1, -2.5, "x", null, true], "b": {"a": 1}})", "f");
  EXPECT_EQ(json["a"][1], -2.5);
  EXPECT_EQ(json["b"]["a"], 1);
  EXPECT_EQ(json.dump(), R"({"a":[1,-2.5,"x",null,true],"b":{"a":1}})");
  EXPECT_EQ(parse_json("[[[],{}],[{\"a\":[0]}],-1]", "f").dump(), "[[[],{}],[{\"a\":[0]}],-1]");
  EXPECT_EQ(parse_json("3", "f"), 3);
}

TEST(StrictJson, nothing_hides_behind_a_zero) {
  EXPECT_EQ(error_of([] { (void)parse_json(std::string_view("{}\0x", 4), "f"); }),
            "f: malformed JSON at byte 3, expected JSON, got a byte of zero");
}

TEST(StrictJson, malformed_text_is_an_error_with_its_place) {
  EXPECT_EQ(parse_error(""),
            "f: malformed JSON at byte 1 (line 1, column 1), expected JSON, got the end of the "
            "text");
  EXPECT_EQ(parse_error("{\"a\": 1,\n \"b\" 2}"),
            "f: malformed JSON at byte 15 (line 2, column 6), expected JSON, got "
            "\"{\"a\": 1,\\n \"b\" 2\"");
  EXPECT_EQ(parse_error("{\"a\": [1, 2"),
            "f: malformed JSON at byte 12 (line 1, column 12), expected JSON, got the end of the "
            "text");
  EXPECT_EQ(parse_error("{} x"),
            "f: malformed JSON at byte 4 (line 1, column 4), expected JSON, got \"{} x\"");
  EXPECT_EQ(parse_error("// a comment\n{}"),
            "f: malformed JSON at byte 1 (line 1, column 1), expected JSON, got \"/\"");
  EXPECT_EQ(parse_error("[NaN]"),
            "f: malformed JSON at byte 2 (line 1, column 2), expected JSON, got \"[N\"");
}

TEST(StrictJson, broken_utf8_is_an_error) {
  EXPECT_EQ(parse_error("\"\xff\""),
            "f: malformed JSON at byte 2 (line 1, column 2), expected JSON, got \"\"\\xff\"");
}

TEST(StrictJson, a_number_beyond_double_is_an_error) {
  EXPECT_EQ(parse_error("[1e400]"),
            "f: number in JSON at byte 6 (line 1, column 6), expected at most 1.8e308, got 1e400");
}

TEST(StrictJson, a_key_that_stands_twice_is_an_error) {
  EXPECT_EQ(parse_error(R"({"a": 1, "b": 2, "a": 1})"),
            "f: key \"a\", expected it once, got it again");
  EXPECT_EQ(parse_error(R"([{"x": {"k": 1, "k": 2}}])"),
            "f: key \"k\", expected it once, got it again");
  EXPECT_EQ(parse_error(R"({"\u0061": 1, "a": 1})"),
            "f: key \"a\", expected it once, got it again");
}

TEST(StrictJson, one_key_in_two_objects_is_fine) {
  EXPECT_EQ(parse_error(R"({"a": {"a": {"a": 1}}, "b": [{"a": 1}, {"a": 2}]})"), "no error");
}

TEST(StrictJson, nesting_without_end_is_an_error) {
  EXPECT_EQ(parse_error(nested(kJsonDepthMax)), "no error");
  EXPECT_EQ(parse_error(nested(kJsonDepthMax + 1)),
            "f: JSON, expected at most 32 levels, got more");
  EXPECT_EQ(parse_error(std::string(10'000'000, '[')),
            "f: JSON, expected at most 32 levels, got more");
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_EQ(parse_error(objects), "f: JSON, expected at most 32 levels, got more");
}

TEST(StrictJson, values_without_end_are_an_error) {
  std::string text = "[0";
  for (int i = 2; i < kJsonValuesMax; ++i) text += ",0";  // with the array itself: the most
  EXPECT_EQ(parse_error(text + "]"), "no error");
  EXPECT_EQ(parse_error(text + ",0]"), "f: JSON, expected at most 1048576 values, got more");
}

// Takes minutes where the time for an object grows with the number of its siblings.
TEST(StrictJson, many_objects_take_time_in_proportion) {
  std::string text = "[";
  for (int i = 2; i < kJsonValuesMax; ++i) text += "{},";
  EXPECT_EQ(parse_error(text + "{}]"), "no error");
}

TEST(StrictJson, a_wrong_value_is_echoed_in_one_short_line) {
  const nlohmann::json value = {"a\nb", std::string(100, 'x')};
  EXPECT_STREQ(
      bad_value({"f", "k"}, "a number", &value).what(),
      ("f: k, expected a number, got [\"a\\nb\",\"" + std::string(51, 'x') + "...").c_str());
  EXPECT_STREQ(bad_value({"f", "k"}, "a number", nullptr).what(),
               "f: k, expected a number, got none");
}

TEST(StrictJson, an_unknown_key_is_an_error) {
  constexpr std::array<std::string_view, 2> kKnown{"a", "b"};
  const auto check = [&](const char* text) {
    return error_of([&] { require_known_keys(parse_json(text, "f"), kKnown, {"f", "thing"}); });
  };
  EXPECT_EQ(check(R"({"b": 1})"), "no error");
  EXPECT_EQ(check(R"({"b": 1, "c\n": 1})"),
            "f: unknown key in thing, expected one of a, b, got \"c\\n\"");
}

}  // namespace
}  // namespace kvcheck
