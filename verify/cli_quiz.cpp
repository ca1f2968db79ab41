// SPDX-License-Identifier: MIT
// kvcheck quiz: asks, reads an answer a line from stdin, and says which were right.
#include <fmt/format.h>
#include <unistd.h>

#include <iostream>
#include <string>

#include "verify/cli.h"
#include "verify/cli_process.h"
#include "verify/quiz.h"

namespace kvcheck {
namespace {

constexpr int kQuestions = 10;

std::string numbered(std::size_t i, const QuizItem& item) {
  return fmt::format("{}. {}\n", i + 1, item.question.text);
}

int show_answers(const std::vector<QuizItem>& items) {
  std::string text;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Question& question = items[i].question;
    text += fmt::format("{}   {}\n   ({})\n", numbered(i, items[i]), question.answer, question.why);
  }
  print(text);
  return kExitAgree;
}

}  // namespace

int run_quiz(const QuizArguments& arguments) {
  const auto items = quiz(arguments.seed, arguments.count.value_or(kQuestions));
  if (arguments.answers) return show_answers(items);
  stop_and_wake_on_signals();
  const bool prompts = ::isatty(STDIN_FILENO) == 1;
  std::size_t answered = 0;
  std::size_t right = 0;
  std::string line;
  for (; answered < items.size(); ++answered) {
    const Question& question = items[answered].question;
    print(numbered(answered, items[answered]) + (prompts ? "> " : ""));
    if (stop_requested().load() || !std::getline(std::cin, line)) break;
    const bool good = is_right(question, line);
    right += good ? 1 : 0;
    print(good ? fmt::format("   right: {}\n", question.answer)
               : fmt::format("   wrong: {} ({})\n", question.answer, question.why));
  }
  const bool interrupted = stop_requested().load();
  print(fmt::format("{}{}{} of {} answered, {} right\n", answered < items.size() ? "\n" : "",
                    interrupted ? "interrupted: " : "", answered, items.size(), right));
  if (answered == 0 || interrupted) return kExitGaveUp;
  return right == answered ? kExitAgree : kExitDiverge;
}

}  // namespace kvcheck
