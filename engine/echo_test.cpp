// SPDX-License-Identifier: MIT
// Text from outside becomes one short printable line.
#include "engine/echo.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

namespace kvcheck {
namespace {

TEST(Echo, keeps_printable_text) {
  EXPECT_EQ(one_line(""), "");
  EXPECT_EQ(one_line("the cat, \"sat\" ~"), "the cat, \"sat\" ~");
  EXPECT_EQ(one_line("gr\xc3\xb6\xc3\x9f"
                     "e \xe2\x82\xac \xf0\x9f\x90\x88"),
            "größe € 🐈");
}

TEST(Echo, escapes_control_characters) {
  EXPECT_EQ(one_line("a\nb\tc\rd\x1b[31m\x7f"), "a\\nb\\tc\\rd\\x1b[31m\\x7f");
  EXPECT_EQ(one_line(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(one_line("\xc2\x9b"
                     "31m"),
            "\\xc2\\x9b31m");  // the control sequence introducer in one character
}

TEST(Echo, escapes_what_is_not_utf8) {
  EXPECT_EQ(one_line("\xff"), "\\xff");
  EXPECT_EQ(one_line("\xc3"), "\\xc3");                             // cut off
  EXPECT_EQ(one_line("\xc3("), "\\xc3(");                           // wrong second byte
  EXPECT_EQ(one_line("\xc0\x8a"), "\\xc0\\x8a");                    // a newline the long way
  EXPECT_EQ(one_line("\xe0\x80\x8a"), "\\xe0\\x80\\x8a");           // and the longer one
  EXPECT_EQ(one_line("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // half of a UTF-16 pair
  EXPECT_EQ(one_line("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // beyond Unicode
}

TEST(Echo, cuts_long_text) {
  EXPECT_EQ(one_line(std::string(60, 'x')), std::string(60, 'x'));
  EXPECT_EQ(one_line(std::string(61, 'x')), std::string(60, 'x') + "...");
  EXPECT_EQ(in_quotes("abcdef"), "\"abcdef\"");
  EXPECT_EQ(one_line("a\xc3\xb6z", 2), "a\xc3\xb6...");  // never inside a character
}

TEST(Echo, does_not_cut_paths) {
  EXPECT_EQ(path_text(std::string(100, 'x') + "\n"), std::string(100, 'x') + "\\n");
}

TEST(Echo, shell_words_are_quoted_where_a_shell_would_touch_them) {
  EXPECT_EQ(shell_word("gen:wide:1"), "gen:wide:1");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("a model, $HOME"), "'a model, $HOME'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word("gr\xc3\xb6\xc3\x9f"
                       "er"),
            "'gr\xc3\xb6\xc3\x9f"
            "er'");
  EXPECT_EQ(shell_word("m\xff %'\n"), "\"$(printf 'm\\377\\040\\045\\047\\012')\"");
}

RC_GTEST_PROP(Echo, gives_one_short_line_for_any_bytes, (const std::string& bytes)) {
  const std::string line = one_line(bytes);
  RC_ASSERT(line.size() <= kEchoMax + 6);
  RC_ASSERT(std::none_of(line.begin(), line.end(), [](char c) { return c >= 0 && c < ' '; }));
}

}  // namespace
}  // namespace kvcheck
