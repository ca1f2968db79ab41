// SPDX-License-Identifier: MIT
// kvcheck quiz as a user runs it, with answers from a pipe.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "verify/cli.h"
#include "verify/quiz.h"
#include "verify/test_command.h"

namespace kvcheck {
namespace {

using testing::HasSubstr;
using testing::Not;

// `answers`: as printf takes them.
CommandResult quiz_with(const std::string& answers, const std::string& options) {
  return TestCommand(KVCHECK_BINARY).shell("printf '" + answers + "' | kvcheck quiz " + options);
}

// The right answers of a seed, a line each.
std::string answers_of(std::uint64_t seed, int count) {
  std::string lines;
  for (const QuizItem& item : quiz(seed, count)) lines += item.question.answer + "\\n";
  return lines;
}

TEST(CliQuiz, accepts_what_is_right) {
  const CommandResult result = quiz_with(answers_of(4, 24), "--seed 4 --count 24");
  EXPECT_EQ(result.exit_code, kExitAgree) << everything(result);
  EXPECT_EQ(last_line(result.out), "24 of 24 answered, 24 right");
  EXPECT_THAT(result.out, Not(HasSubstr("wrong")));
}

TEST(CliQuiz, says_what_would_have_been_right_and_why) {
  const Question first = quiz(4, 1).front().question;
  const CommandResult result = quiz_with("nonsense\\n" + answers_of(4, 1), "--seed 4 --count 1");
  EXPECT_EQ(result.exit_code, kExitDiverge) << everything(result);
  EXPECT_EQ(result.out, "1. " + first.text + "\n   wrong: " + first.answer + " (" + first.why +
                            ")\n1 of 1 answered, 0 right\n");
}

TEST(CliQuiz, is_not_passed_by_some_that_are_right) {
  const CommandResult result = quiz_with(answers_of(4, 1) + "nonsense\\n", "--seed 4 --count 2");
  EXPECT_EQ(result.exit_code, kExitDiverge) << everything(result);
  EXPECT_EQ(last_line(result.out), "2 of 2 answered, 1 right");
}

TEST(CliQuiz, ends_with_its_input_and_counts_what_was_answered) {
  const CommandResult some = quiz_with(answers_of(4, 2), "--seed 4");
  EXPECT_EQ(some.exit_code, kExitAgree) << everything(some);
  EXPECT_EQ(last_line(some.out), "2 of 10 answered, 2 right");
  const CommandResult none = quiz_with("", "--seed 4");
  EXPECT_EQ(none.exit_code, kExitGaveUp) << everything(none);
  EXPECT_EQ(last_line(none.out), "0 of 10 answered, 0 right");
  // The last line may lack its end.
  const std::string first = quiz(4, 1).front().question.answer;
  EXPECT_EQ(quiz_with(first, "--seed 4 --count 1").exit_code, kExitAgree);
}

TEST(CliQuiz, a_signal_ends_it_while_it_waits) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  // The second signal is for the case that the first one comes just before the wait.
  const CommandResult result = kvcheck.shell(
      "mkfifo answers; { printf 'nonsense\\n'; exec sleep 60; } > answers 2>&1 & pipe=$!; "
      "kvcheck quiz --seed 4 < answers > out & quiz=$!; "
      "while ! grep -q '^2' out; do sleep 0.01; done; "
      "kill -TERM $quiz; sleep 0.2; kill -TERM $quiz; wait $quiz; code=$?; "
      "kill $pipe; cat out; exit $code");
  EXPECT_EQ(result.exit_code, kExitGaveUp) << everything(result);
  EXPECT_EQ(last_line(result.out), "interrupted: 1 of 10 answered, 0 right");
}

TEST(CliQuiz, prints_answers_when_asked_to) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult result = kvcheck.run("quiz --answers --seed 7 --count 3");
  EXPECT_EQ(result.exit_code, kExitAgree) << everything(result);
  std::string expected;
  int number = 0;
  for (const QuizItem& item : quiz(7, 3)) {
    expected += std::to_string(++number) + ". " + item.question.text + "\n   " +
                item.question.answer + "\n   (" + item.question.why + ")\n";
  }
  EXPECT_EQ(result.out, expected);
}

TEST(CliQuiz, refuses_bad_options) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  EXPECT_EQ(complaint(kvcheck.run("quiz --count 0")),
            "--count: bad value, expected a whole number from 1 to 10000, got 0");
  EXPECT_EQ(complaint(kvcheck.run("quiz --seed x")),
            "--seed: bad value, expected a whole number from 0 to 2^64 - 1, got x");
  EXPECT_EQ(complaint(kvcheck.run("quiz chapter8")),
            "quiz: unknown option or argument, expected what `kvcheck quiz --help` lists, got "
            "chapter8");
}

}  // namespace
}  // namespace kvcheck
