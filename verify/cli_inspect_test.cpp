// SPDX-License-Identifier: MIT
// kvcheck inspect --rows as a user runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "verify/cli.h"
#include "verify/test_command.h"

namespace kvcheck {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

CommandResult rows(const TestCommand& kvcheck, const std::string& model, const std::string& tokens,
                   std::vector<std::string> options = {}) {
  std::vector<std::string> words{"inspect", model, "--rows", tokens};
  words.insert(words.end(), options.begin(), options.end());
  return kvcheck.run_words(words);
}

TEST(CliInspectRows, every_row_stands_where_it_was_written) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult result = rows(kvcheck, "chapter8", "<bos> the cat sat");
  EXPECT_EQ(result.exit_code, kExitAgree) << everything(result);
  EXPECT_THAT(result.out, HasSubstr("model chapter8 (f32, flat cache)\n"));
  EXPECT_THAT(result.out, HasSubstr("\nafter step 2: tokens 2   (the)\n"));
  EXPECT_THAT(result.out, HasSubstr("\n  1      1     1         layer 1 in step 2, new  0  "));
  EXPECT_THAT(result.out, HasSubstr("\n  1      1     1         layer 1 in step 2       0  "));
  EXPECT_THAT(last_line(result.out),
              HasSubstr("rows 4 x layers 2 x 2 (key, value) x K/V heads 2 x head size 2 = 64 "
                        "numbers, 256 bytes"));
}

TEST(CliInspectRows, a_ring_holds_what_its_window_sees) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult result = rows(kvcheck, "chapter8-rotary", "<bos> the cat sat",
                                    {"--schedule", "3+1", "--cache-kind", "ring"});
  EXPECT_EQ(result.exit_code, kExitAgree) << everything(result);
  EXPECT_THAT(result.out, HasSubstr("\nafter step 1: tokens 0 2 4   (<bos> the cat)\n"));
  // Position 2 has taken the place of position 0, position 3 that of position 1.
  EXPECT_THAT(result.out, HasSubstr("\n  0      0     2         layer 0 in step 1       0  "));
  EXPECT_THAT(result.out, HasSubstr("\n  0      1     3         layer 0 in step 2, new  0  "));
  EXPECT_THAT(last_line(result.out), HasSubstr("rows 6 in 2 layers x 2 (key, value) x K/V heads 2 "
                                               "x head size 4 = 96 numbers, 384 bytes"));
}

TEST(CliInspectRows, rounded_rows_are_shown_as_they_are_read) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const std::string whole = rows(kvcheck, "chapter8", "0", {"--scalar", "f64"}).out;
  const std::string rounded = rows(kvcheck, "chapter8", "0", {"--cache-kind", "int8"}).out;
  EXPECT_THAT(whole, HasSubstr("= 16 numbers, 128 bytes"));
  // Four numbers and a scale of four bytes, for each of four rows.
  EXPECT_THAT(rounded, HasSubstr("= 16 numbers, 32 bytes"));
  EXPECT_NE(whole.substr(whole.find("layer 0 in step 1")),
            rounded.substr(rounded.find("layer 0 in step 1")));
}

TEST(CliInspectRows, pages_have_slots_of_their_own) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult result =
      rows(kvcheck, "chapter8", "0 2 4", {"--schedule", "3", "--cache-kind", "paged:2"});
  EXPECT_EQ(result.exit_code, kExitAgree) << everything(result);
  EXPECT_THAT(result.out, ContainsRegex("\n  1 +[1-9] +0 +layer 1 in step 1, new +0 "));
}

TEST(CliInspectRows, what_is_large_is_cut_and_says_so) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  std::string tokens = "0";
  for (int i = 0; i < 39; ++i) tokens += " 1";
  const CommandResult result = rows(kvcheck, "gen:deep:1:context64", tokens);
  EXPECT_EQ(result.exit_code, kExitAgree) << everything(result);
  EXPECT_THAT(result.out, HasSubstr("\n... 28 steps ...\n"));
  EXPECT_THAT(result.out, HasSubstr("\n  ... 4 layers ...\n"));
  EXPECT_THAT(result.out, HasSubstr("... 28 rows ...\n"));
  EXPECT_THAT(result.out, Not(HasSubstr("after step 9:")));
  EXPECT_THAT(result.out, HasSubstr("after step 40:"));
  EXPECT_LT(split(result.out, '\n').size(), 800U);
  const CommandResult wide = rows(kvcheck, "gen:wide:1", "0");
  EXPECT_THAT(wide.out, HasSubstr(" ... "));
}

TEST(CliInspectRows, bad_options_are_told_in_one_line) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  EXPECT_EQ(complaint(kvcheck.run("inspect chapter8 --schedule 1+1")),
            "--schedule: without tokens, expected --rows, got 1+1");
  EXPECT_EQ(complaint(kvcheck.run("inspect chapter8 --cache-kind ring")),
            "--cache-kind: without tokens, expected --rows, got ring");
  EXPECT_EQ(complaint(kvcheck.run("inspect chapter8 --scalar f64")),
            "--scalar: without tokens, expected --rows, got f64");
  EXPECT_EQ(complaint(rows(kvcheck, "chapter8", "0 2", {"--schedule", "3"})),
            "--schedule: schedule, expected 2 tokens in all, got 3");
  EXPECT_EQ(complaint(rows(kvcheck, "chapter8", "0", {"--scalar", "f16"})),
            "--scalar: bad value, expected one of f32, f64, got f16");
  EXPECT_THAT(complaint(rows(kvcheck, "chapter8", "0 dog bird")),
              HasSubstr("--rows:1: token, expected a word"));
  EXPECT_THAT(complaint(rows(kvcheck, "chapter8", "0 1 2 3 4")),
              HasSubstr("--rows:1: sequence too long"));
  EXPECT_THAT(complaint(rows(kvcheck, "chapter8", "0", {"--cache-kind", "square"})),
              HasSubstr("--cache-kind: unknown cache kind"));
}

}  // namespace
}  // namespace kvcheck
