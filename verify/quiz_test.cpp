// SPDX-License-Identifier: MIT
// Each kind of question: the engine's answer is accepted and another refused, the same seed asks
// the same, and answers that were worked by hand.
#include "verify/quiz.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "verify/faults.h"

namespace kvcheck {
namespace {

constexpr int kTries = 40;  // of each kind

class QuizKinds : public testing::TestWithParam<QuizKind> {
 protected:
  static Question ask(std::uint64_t seed) {
    Draw draw{seed, stream_of("quiz test")};
    return GetParam().ask(draw);
  }
};

// An answer of the same form that is another one.
std::string another(const std::string& answer) {
  if (answer == "yes") return "no";
  if (answer == "no") return "yes";
  return answer.find_first_not_of("0123456789 ") == answer.npos ? answer + "1" : "none";
}

TEST_P(QuizKinds, accept_the_answer_and_refuse_another) {
  for (std::uint64_t seed = 0; seed < kTries; ++seed) {
    const Question question = ask(seed);
    EXPECT_TRUE(is_right(question, question.answer)) << question.text;
    EXPECT_TRUE(is_right(question, " " + question.answer + "\r")) << question.text;
    EXPECT_FALSE(is_right(question, another(question.answer))) << question.text;
    EXPECT_FALSE(is_right(question, "")) << question.text;
  }
}

TEST_P(QuizKinds, ask_in_one_line_and_say_why_in_another) {
  for (std::uint64_t seed = 0; seed < kTries; ++seed) {
    const Question question = ask(seed);
    for (const std::string& line : {question.text, question.answer, question.why}) {
      EXPECT_FALSE(line.empty()) << question.text;
      EXPECT_EQ(line.find('\n'), line.npos) << line;
    }
    EXPECT_NE(question.text.find('?'), question.text.npos) << question.text;
  }
}

TEST_P(QuizKinds, ask_several_things_that_have_several_answers) {
  std::set<std::string> texts;
  std::set<std::string> answers;
  for (std::uint64_t seed = 0; seed < kTries; ++seed) {
    texts.insert(ask(seed).text);
    answers.insert(ask(seed).answer);
  }
  EXPECT_GT(texts.size(), 5U);
  EXPECT_GT(answers.size(), 1U);
}

TEST_P(QuizKinds, ask_the_same_of_the_same_draw) {
  EXPECT_EQ(ask(3).text, ask(3).text);
  EXPECT_EQ(ask(3).answer, ask(3).answer);
}

INSTANTIATE_TEST_SUITE_P(All, QuizKinds,
                         testing::ValuesIn(quiz_kinds().begin(), quiz_kinds().end()),
                         [](const auto& param) {
                           std::string name(param.param.id);
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

TEST(Quiz, asks_the_same_of_the_same_seed) {
  EXPECT_EQ(quiz(5, 30), quiz(5, 30));
  EXPECT_NE(quiz(5, 30), quiz(6, 30));
  const auto longer = quiz(5, 40);
  const auto shorter = quiz(5, 30);
  for (std::size_t i = 0; i < shorter.size(); ++i) EXPECT_EQ(longer[i], shorter[i]);
}

TEST(Quiz, asks_other_things_of_another_seed) {
  std::set<std::string> texts;
  for (std::uint64_t seed = 0; seed < 100; ++seed) texts.insert(quiz(seed, 1)[0].question.text);
  EXPECT_GT(texts.size(), 2 * quiz_kinds().size());  // more than one of each kind
}

TEST(Quiz, asks_every_kind_before_one_comes_again) {
  const std::size_t kinds = quiz_kinds().size();
  EXPECT_GE(kinds, 12U);
  std::map<std::string_view, int> counts;
  for (const QuizItem& item : quiz(2, 2 * static_cast<int>(kinds))) ++counts[item.kind];
  EXPECT_EQ(counts.size(), kinds);
  for (const auto& [kind, count] : counts) EXPECT_EQ(count, 2) << kind;
}

struct ByHand {
  std::string_view kind;
  std::string_view text;    // how it ends
  std::string_view answer;  // worked from the whole text
};

TEST(Quiz, has_the_answers_that_were_worked_by_hand) {
  static constexpr ByHand kByHand[] = {
      {"cache-bytes", "how many bytes do 14 rows of a cache take?", "1792"},
      {"paged-bytes", "pages of 8 rows: how many bytes are set aside for 4 rows?", "1024"},
      {"growing-bytes", "how many bytes has it set aside when it holds 14 rows?", "2048"},
      {"ring-bytes", "kept in rings: how many bytes hold rows after 7 tokens?", "768"},
      {"half-bytes", "rows stored as bf16: how many bytes do 14 of them take?", "896"},
      {"attention-work", "in a step of one token after 13 rows?", "1792"},
      {"mlp-work", "in a step of one token after 13 rows?", "32768"},
      {"visible-pairs", "how many pairs of query and key are visible in a layer?", "42"},
      {"rows-read", "read, all layers, when 12 are held before?", "4"},
      {"rows-written", "12 rows held: how many K/V rows does a feed of 1 token write, all layers?",
       "1"},
      {"position", "which position does the last of them take?", "11"},
      {"first-visible", "which is the first position that the query at position 3 sees?", "0"},
      {"kv-head", "which K/V head serves query head 6?", "1"},
      {"shape", "with a cache of 13 rows. Rows and columns of query in layer 0?", "1 64"},
      {"top-k", "drawn with temperature:1,top-k:1?", "2"},
      {"top-p", "drawn with temperature:1,top-p:0.3?", "2"},
      {"min-p", "drawn with temperature:1,min-p:0.1?", "0 1 2 3 4"},
      {"penalty", "greedy choose with a repetition penalty of 2?", "2"},
      {"returned", "at most 6 to return, no EOS: how many tokens are returned?", "6"},
      {"held-at-end", "how many rows does the cache hold at the end?", "8"},
      {"stop", "what stops it, eos, context or steps?", "steps"},
  };
  for (const ByHand& known : kByHand) {
    const auto kinds = quiz_kinds();
    const auto kind = std::ranges::find(kinds, known.kind, &QuizKind::id);
    ASSERT_NE(kind, kinds.end()) << known.kind;
    Draw draw{1, stream_of("quiz by hand")};
    const Question question = kind->ask(draw);
    EXPECT_TRUE(std::string_view(question.text).ends_with(known.text)) << question.text;
    EXPECT_EQ(question.answer, known.answer) << question.text;
  }
}

TEST(Quiz, names_the_fault_whose_summary_it_shows) {
  for (const QuizItem& item : quiz(9, 200)) {
    if (item.kind != "fault-name") continue;
    const std::string& text = item.question.text;
    const std::string choice = "(" + item.question.answer + ") ";
    const auto at = text.find(choice) + choice.size();
    const std::string id = text.substr(at, text.find(' ', at) - at);
    EXPECT_EQ(text.find("Which fault is this: " + std::string(find_fault(id, "x").summary)), 0U)
        << text;
  }
}

TEST(Quiz, takes_answers_however_they_are_written) {
  const auto right = [](const char* answer, const char* given) {
    return is_right({"?", answer, "because"}, given);
  };
  for (const char* given : {"1024", "1,024", " 1 024 ", "1_024\r"}) {
    EXPECT_TRUE(right("1024", given)) << given;
  }
  for (const char* given : {"", "1025", "10240", "x1024", "-1024", "1024.5"}) {
    EXPECT_FALSE(right("1024", given)) << given;
  }
  for (const char* given : {"0 2 3", "0,2,3", "[0, 2, 3]", "0;2;3"}) {
    EXPECT_TRUE(right("0 2 3", given)) << given;
  }
  for (const char* given : {"023", "0 2", "0 2 3 4", "3 2 0"}) {
    EXPECT_FALSE(right("0 2 3", given)) << given;
  }
  EXPECT_TRUE(right("yes", " Yes"));
  EXPECT_FALSE(right("yes", "y"));
}

}  // namespace
}  // namespace kvcheck
