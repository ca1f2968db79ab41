// SPDX-License-Identifier: MIT
// A function fits one screen. Functions are found by counting braces, which is enough for this
// tree; the heads that the counter must know stand in its own test.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "properties/tidy.h"

namespace kvcheck::tidy {
namespace {

using std::string;
using std::string_view;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// One screen. A ratchet: it may be lowered.
constexpr size_t kFunctionLinesMax = 70;

// Where a match of `what` ends, or the end of the text.
size_t end_of(string_view what, const string& text, size_t from) {
  const size_t at = text.find(what, from);
  return at == string::npos ? text.size() : at + what.size();
}

// Where the comment, literal or preprocessor line at `at` ends; `at` itself if there is none.
size_t end_of_blank(const string& text, size_t at) {
  const string_view rest = string_view(text).substr(at);
  if (rest.starts_with("//")) return text.find('\n', at);
  if (rest.starts_with("/*")) return end_of("*/", text, at + 2);
  if (rest.starts_with("R\"")) {
    const size_t open = rest.find('(');
    if (open == rest.npos) return text.size();
    return end_of(")" + string(rest.substr(2, open - 2)) + "\"", text, at);
  }
  size_t end = at + 1;
  if (text[at] == '#') {
    while (end < text.size() && (text[end] != '\n' || text[end - 1] == '\\')) ++end;
    return end;
  }
  const bool separates_digits = text[at] == '\'' && at > 0 && is_word_character(text[at - 1]) &&
                                rest.size() > 2 && rest[2] != '\'';
  if ((text[at] != '"' && text[at] != '\'') || separates_digits) return at;
  while (end < text.size() && text[end] != text[at]) end += text[end] == '\\' ? 2 : 1;
  return end + 1;
}

// The text with spaces for all that `end_of_blank` knows; line breaks stay.
string code_only(const string& text) {
  string code = text;
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t end = std::min(end_of_blank(text, i), text.size());
    if (end == i) continue;
    std::replace_if(
        code.begin() + static_cast<std::ptrdiff_t>(i),
        code.begin() + static_cast<std::ptrdiff_t>(end), [](char c) { return c != '\n'; }, ' ');
    i = end - 1;
  }
  return code;
}

string trimmed(const string& text) {
  const size_t begin = text.find_first_not_of(" \n");
  if (begin == string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \n") - begin + 1);
}

string without_template(const string& head) {
  if (!head.starts_with("template")) return head;
  int depth = 0;
  for (size_t i = head.find('<'); i < head.size(); ++i) {
    if (head[i] == '<') ++depth;
    if (head[i] == '>' && head[i - 1] != '-' && --depth == 0) return trimmed(head.substr(i + 1));
  }
  return head;
}

// A bracket that begins an expression captures; others subscribe or are attributes.
bool begins_lambda(const string& head) {
  for (size_t i = head.find('['); i != string::npos; i = head.find('[', i + 1)) {
    const string before = trimmed(head.substr(0, i));
    const bool expression = before.empty() || string_view("=(,{").find(before.back()) < 4;
    if (expression && i + 1 < head.size() && head[i + 1] != '[') return true;
  }
  return false;
}

bool assigns(const string& head) {
  int depth = 0;
  for (const char c : head) {
    if (c == '(') ++depth;
    if (c == ')') --depth;
    if (c == '=' && depth == 0) return !contains_word(head, "operator");
  }
  return false;
}

// What a pair of braces holds: declarations, the body of a function, a part of one, or values.
enum class Block { scope, function, statements, values };

// What the braces hold that follow `head` outside of functions and values.
Block block_after(const string& head) {
  static const std::array<string, 4> kTypes{"struct ", "class ", "union ", "enum "};
  if (head.empty()) return Block::function;  // after a constructor's last member{}
  if (contains_word(head, "namespace") || head == "extern") return Block::scope;
  const string name = without_template(head);
  if (assigns(name)) return Block::values;
  const bool is_type =
      name.back() != ')' && std::any_of(kTypes.begin(), kTypes.end(),
                                        [&](const string& type) { return name.starts_with(type); });
  if (is_type) return Block::scope;
  return name.find(')') != string::npos ? Block::function : Block::values;
}

class FunctionFinder {
 public:
  struct Function {
    size_t first_line;
    size_t last_line;
  };

  std::vector<Function> find(const string& code) {
    for (const char c : code) {
      if (c == '\n') ++line_;
      if (c == '{') {
        open();
      } else if (c == '}') {
        close();
      } else if (c == ';' || (c == ':' && is_access())) {
        begin_head();
      } else {
        if (c == '(') ++parentheses_;
        if (c == ')') --parentheses_;
        if (trimmed(head_).empty()) head_line_ = line_;
        head_ += c;
      }
    }
    return functions_;
  }

 private:
  struct Frame {
    Block block;
    size_t first_line;
    int parentheses;
  };

  bool is_access() const {
    const string head = trimmed(head_);
    return head == "public" || head == "private" || head == "protected";
  }

  void begin_head() {
    head_.clear();
    head_line_ = line_;
  }

  Block block() const {
    const Block around = frames_.empty() ? Block::scope : frames_.back().block;
    if (around == Block::function || around == Block::statements) return Block::statements;
    if (begins_lambda(head_)) return Block::function;
    if (around == Block::values || parentheses_ > 0) return Block::values;
    return block_after(trimmed(head_));
  }

  void open() {
    frames_.push_back({block(), head_line_, parentheses_});
    parentheses_ = 0;
    begin_head();
  }

  void close() {
    if (frames_.empty()) return;
    const Frame frame = frames_.back();
    frames_.pop_back();
    if (frame.block == Block::function) functions_.push_back({frame.first_line, line_});
    parentheses_ = frame.parentheses;
    begin_head();
  }

  std::vector<Function> functions_;
  std::vector<Frame> frames_;
  string head_;
  size_t head_line_ = 1;
  size_t line_ = 1;
  int parentheses_ = 0;
};

Complaints long_functions(const File& file) {
  Complaints complaints;
  for (const auto& function : FunctionFinder().find(code_only(file.text))) {
    const size_t count = function.last_line - function.first_line + 1;
    if (count > kFunctionLinesMax) {
      complaints.push_back(complaint(file, function.first_line,
                                     "a function of " + std::to_string(count) + " lines"));
    }
  }
  return complaints;
}

TEST(Tidy, functions_fit_a_screen) {
  EXPECT_THAT(complaints_of(long_functions, is_source), IsEmpty());
}

string repeated(const string& text, int count) {
  string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

// A function of the given number of lines that begins with `head`.
string function_of(const string& head, int lines) {
  return head + " {\n" + repeated("  if (a) { b(); }\n", lines - 2) + "}\n";
}

class LongFunction : public ::testing::TestWithParam<string> {};

TEST_P(LongFunction, is_found) {
  const string before = "namespace k {\nconst char* kText = \"{\";  // {\n";
  EXPECT_THAT(long_functions({"a.cpp", before + function_of(GetParam(), 70) + "}\n"}), IsEmpty());
  EXPECT_THAT(long_functions({"a.cpp", before + function_of(GetParam(), 71) + "}\n"}),
              ElementsAre("a.cpp:3: a function of 71 lines"));
}

INSTANTIATE_TEST_SUITE_P(
    Heads, LongFunction,
    ::testing::Values("int f(int x = 3)", "TEST(Suite, name)", "auto f() -> std::vector<int>",
                      "template <typename T = int> T f(T x) noexcept", "bool operator==(X a) const",
                      "struct X { void f() const", "class X { public: X() : a_(1)",
                      "class X : public Y { X() : a_{1}, b_{2}", "const auto kF = [](int a, int b)",
                      "constexpr Row kRows[] = {{\"id\", 1'000, [](Plan& plan, int layer)",
                      "INSTANTIATE(Suite, name, [](const auto& param)", "extern \"C\" { int f()"));

TEST(TidyChecks, long_tables_and_types_are_not_functions) {
  const string rows = repeated("  {\"a\", R\"({)\", 'x', {1, 2}},\n", 80) + "};\n";
  for (const string head :
       {"const std::vector<Row> kRows = {\n", "constexpr Row kRows[]{\n",
        "struct alignas(16) X {\n", "template <typename T>\nclass X {\n",
        "const auto kRows = std::to_array<Row>({\n", "enum class X : int {\n"}) {
    EXPECT_THAT(long_functions({"a.cpp", head + rows}), IsEmpty()) << head;
  }
}

}  // namespace
}  // namespace kvcheck::tidy
