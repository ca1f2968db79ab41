// SPDX-License-Identifier: MIT
// Writing operations down and reading them back: one table of forms for both directions.
#include "verify/operations.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "engine/error.h"

namespace kvcheck {
namespace {

// What follows the verb in a word.
enum class Form {
  nothing,
  sequence,   // 0
  number,     // 0
  amount,     // 0x3
  range,      // 0x1-2
  shared,     // 1@0x4+2
  amounts,    // 0x1-1x2
  selection,  // 0-1@1-1
};

struct VerbRow {
  Verb verb;
  std::string_view name;
  Form form;
  std::string_view example;
};

constexpr std::array<VerbRow, kVerbs> kVerbRows{{
    {Verb::open, "open", Form::nothing, "open"},
    {Verb::feed, "feed", Form::amount, "feed:0x3"},
    {Verb::prompt, "prompt", Form::shared, "prompt:1@0x4+2"},
    {Verb::batch, "batch", Form::amounts, "batch:0x1-1x2"},
    {Verb::truncate, "truncate", Form::amount, "truncate:0x2"},
    {Verb::fork, "fork", Form::sequence, "fork:0"},
    {Verb::reorder, "reorder", Form::selection, "reorder:0-1@1-1"},
    {Verb::reset, "reset", Form::sequence, "reset:0"},
    {Verb::close, "close", Form::sequence, "close:0"},
    {Verb::save, "save", Form::sequence, "save:0"},
    {Verb::load, "load", Form::number, "load:0"},
    {Verb::shift, "shift", Form::range, "shift:0x1-2"},
    {Verb::evict, "evict", Form::range, "evict:0x1-2"},
}};

const VerbRow& row_of(Verb verb) { return kVerbRows[static_cast<std::size_t>(verb)]; }

struct Counts {
  std::size_t sequences;
  std::size_t numbers;

  bool operator==(const Counts&) const = default;
};

// As many as the form has; `many` for each of the two lists that may have any length.
Counts counts_of(Form form, std::size_t many) {
  switch (form) {
    case Form::nothing:
      return {0, 0};
    case Form::sequence:
      return {1, 0};
    case Form::number:
      return {0, 1};
    case Form::amount:
      return {1, 1};
    case Form::range:
      return {1, 2};
    case Form::shared:
      return {2, 2};
    case Form::amounts:
    case Form::selection:
      break;
  }
  return {many, many};
}

std::string amounts_text(const Operation& o) {
  std::vector<std::string> pairs;
  for (std::size_t i = 0; i < o.sequences.size(); ++i) {
    pairs.push_back(fmt::format("{}x{}", o.sequences[i], o.numbers[i]));
  }
  return fmt::format("{}", fmt::join(pairs, "-"));
}

std::string arguments_text(Form form, const Operation& o) {
  const std::vector<int>& s = o.sequences;
  const std::vector<int>& n = o.numbers;
  switch (form) {
    case Form::nothing:
      break;
    case Form::sequence:
      return fmt::format("{}", s[0]);
    case Form::number:
      return fmt::format("{}", n[0]);
    case Form::amount:
      return fmt::format("{}x{}", s[0], n[0]);
    case Form::range:
      return fmt::format("{}x{}-{}", s[0], n[0], n[1]);
    case Form::shared:
      return fmt::format("{}@{}x{}+{}", s[0], s[1], n[0], n[1]);
    case Form::amounts:
      return amounts_text(o);
    case Form::selection:
      return fmt::format("{}@{}", fmt::join(s, "-"), fmt::join(n, "-"));
  }
  return "";
}

// Reads a word from left to right; every step tells whether it found what it looked for.
class WordReader {
 public:
  explicit WordReader(std::string_view rest) : rest_(rest) {}

  bool at_end() const { return rest_.empty(); }

  bool take(std::string_view literal) {
    if (!rest_.starts_with(literal)) return false;
    rest_.remove_prefix(literal.size());
    return true;
  }

  // Only digits, and no zero before others: a number has one spelling.
  bool take_number(std::vector<int>& numbers) {
    const auto is_digit = [](char c) { return '0' <= c && c <= '9'; };
    if (rest_.empty() || !is_digit(rest_[0])) return false;
    if (rest_.size() > 1 && rest_[0] == '0' && is_digit(rest_[1])) return false;
    int number = 0;
    const auto [next, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), number);
    if (error != std::errc()) return false;
    rest_.remove_prefix(static_cast<std::size_t>(next - rest_.data()));
    numbers.push_back(number);
    return true;
  }

  bool take_list(std::vector<int>& numbers) {
    do {
      if (!take_number(numbers)) return false;
    } while (take("-"));
    return true;
  }

  bool take_amounts(Operation& o) {
    do {
      if (!take_number(o.sequences) || !take("x") || !take_number(o.numbers)) return false;
    } while (take("-"));
    return true;
  }

 private:
  std::string_view rest_;
};

bool take_arguments(WordReader& reader, Form form, Operation& o) {
  WordReader& r = reader;
  std::vector<int>& s = o.sequences;
  std::vector<int>& n = o.numbers;
  if (form == Form::nothing) return true;
  if (!r.take(":")) return false;
  switch (form) {
    case Form::nothing:
      break;
    case Form::sequence:
      return r.take_number(s);
    case Form::number:
      return r.take_number(n);
    case Form::amount:
      return r.take_number(s) && r.take("x") && r.take_number(n);
    case Form::range:
      return r.take_number(s) && r.take("x") && r.take_number(n) && r.take("-") && r.take_number(n);
    case Form::shared:
      return r.take_number(s) && r.take("@") && r.take_number(s) && r.take("x") &&
             r.take_number(n) && r.take("+") && r.take_number(n);
    case Form::amounts:
      return r.take_amounts(o);
    case Form::selection:
      return r.take_list(s) && r.take("@") && r.take_list(n);
  }
  return false;
}

[[noreturn]] void complain(std::string_view where, int word, std::string_view expected,
                           std::string_view got) {
  throw bad_input({where, fmt::format("operation {}", word), expected, got});
}

Operation parse_operation(std::string_view text, std::string_view where, int word) {
  const std::string_view verb = text.substr(0, text.find(':'));
  const auto row = std::find_if(kVerbRows.begin(), kVerbRows.end(),
                                [verb](const VerbRow& r) { return r.name == verb; });
  if (row == kVerbRows.end()) {
    std::vector<std::string_view> names;
    names.reserve(kVerbRows.size());
    for (const VerbRow& known : kVerbRows) names.push_back(known.name);
    complain(where, word, fmt::format("one of {}", fmt::join(names, " ")), text);
  }
  Operation operation{row->verb, {}, {}};
  WordReader reader(text.substr(verb.size()));
  const bool complete = take_arguments(reader, row->form, operation) && reader.at_end();
  if (!complete || !well_formed(operation)) {
    complain(where, word, fmt::format("a form as {}", row->example), text);
  }
  return operation;
}

}  // namespace

std::string_view name(Verb verb) { return row_of(verb).name; }

bool well_formed(const Operation& o) {
  const auto is_negative = [](int n) { return n < 0; };
  const Counts counts{o.sequences.size(), o.numbers.size()};
  const std::size_t many = std::max<std::size_t>(1, o.sequences.size());
  return counts == counts_of(row_of(o.verb).form, many) &&
         std::none_of(o.sequences.begin(), o.sequences.end(), is_negative) &&
         std::none_of(o.numbers.begin(), o.numbers.end(), is_negative);
}

std::string to_text(const Operation& operation) {
  require(well_formed(operation), "an operation has what its verb takes");
  const VerbRow& row = row_of(operation.verb);
  if (row.form == Form::nothing) return std::string(row.name);
  return fmt::format("{}:{}", row.name, arguments_text(row.form, operation));
}

std::string to_text(const Operations& operations) {
  std::vector<std::string> words;
  words.reserve(operations.size());
  for (const Operation& operation : operations) words.push_back(to_text(operation));
  return fmt::format("{}", fmt::join(words, "."));
}

Operations parse_operations(std::string_view text, std::string_view where) {
  Operations operations;
  while (true) {
    const int word = static_cast<int>(operations.size()) + 1;
    if (word > kOperationsMax) {
      complain(where, word, fmt::format("at most {} operations", kOperationsMax), "more");
    }
    const std::size_t dot = text.find('.');
    operations.push_back(parse_operation(text.substr(0, dot), where, word));
    if (dot == std::string_view::npos) return operations;
    text.remove_prefix(dot + 1);
  }
}

}  // namespace kvcheck
