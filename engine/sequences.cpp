// SPDX-License-Identifier: MIT
// Reads sequences and vocabularies line by line.
#include "engine/sequences.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <unordered_map>

#include "engine/echo.h"
#include "engine/error.h"

namespace kvcheck {
namespace {

constexpr std::string_view kBlanks = " \t\r\v\f";  // \r: files from Windows end lines in \r\n

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

using Ids = std::unordered_map<std::string_view, int>;

// Calls visit(line, number) with the lines of `text`, numbered from 1, without their ends.
template <typename Visit>
void each_line(std::string_view text, Visit visit) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  int number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    visit(line, ++number);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

template <typename Visit>
void each_token(std::string_view line, Visit visit) {
  for (;;) {
    const std::size_t begin = line.find_first_not_of(kBlanks);
    if (begin == line.npos) return;
    line.remove_prefix(begin);
    const std::size_t end = std::min(line.find_first_of(kBlanks), line.size());
    visit(line.substr(0, end));
    line.remove_prefix(end);
  }
}

// Spelled like a whole number, of whatever size.
bool is_number(std::string_view token) {
  if (token.starts_with('-')) token.remove_prefix(1);
  return !token.empty() && token.find_first_not_of("0123456789") == token.npos;
}

struct Vocabulary {
  Ids ids;
  int size = 0;
};

int parse_token(std::string_view token, std::string_view where, const Vocabulary& vocabulary) {
  const auto word = vocabulary.ids.find(token);
  if (word != vocabulary.ids.end()) return word->second;
  const std::string range = fmt::format("0 to {}", vocabulary.size - 1);
  if (!is_number(token)) {
    throw bad_input(
        {where, "token",
         (vocabulary.ids.empty() ? "an id, " : "a word of the vocabulary or an id, ") + range,
         in_quotes(token)});
  }
  int id = 0;
  const auto parsed = std::from_chars(token.data(), token.data() + token.size(), id);
  if (parsed.ec == std::errc{} && id >= 0 && id < vocabulary.size) return id;
  throw bad_input({where, "token id", range, one_line(token)});
}

bool has_blanks(std::string_view word) {
  return word.empty() || word.find_first_of(kBlanks) != word.npos;
}

// Spelled like something else that a sequence may hold.
bool is_no_word(std::string_view word) { return is_number(word) || word == "#"; }

void check_word(std::string_view word, std::string_view where) {
  if (has_blanks(word)) {
    throw bad_input({where, "word", "one word without blanks", in_quotes(word)});
  }
  if (is_no_word(word)) {
    throw bad_input({where, "word", "neither a number nor #", in_quotes(word)});
  }
}

}  // namespace

std::vector<std::vector<int>> parse_sequences(std::string_view text, std::string_view where,
                                              std::span<const std::string> words,
                                              int vocabulary_size, std::size_t length_max) {
  Vocabulary vocabulary{{}, vocabulary_size};
  for (const std::string& word : words) {
    vocabulary.ids.emplace(word, static_cast<int>(vocabulary.ids.size()));
  }
  std::vector<std::vector<int>> sequences;
  each_line(text, [&](std::string_view line, int number) {
    if (line.starts_with("# ")) return;
    std::vector<int> tokens;
    const std::string place = fmt::format("{}:{}", where, number);
    each_token(line, [&](std::string_view token) {
      tokens.push_back(parse_token(token, place, vocabulary));
    });
    if (tokens.size() > length_max) {
      throw bad_input({place, "sequence too long for the model",
                       fmt::format("at most {} tokens", length_max),
                       fmt::format("{}", tokens.size())});
    }
    if (!tokens.empty()) sequences.push_back(std::move(tokens));
  });
  if (sequences.empty()) throw bad_input({where, "sequences", "at least one", "none"});
  return sequences;
}

std::vector<std::string> parse_words(std::string_view text, std::string_view where,
                                     int vocabulary_size) {
  std::vector<std::string> words;
  Ids ids;
  each_line(text, [&](std::string_view word, int number) {
    const std::string place = fmt::format("{}:{}", where, number);
    check_word(word, place);
    const auto [earlier, is_new] = ids.emplace(word, number);
    if (!is_new) {
      throw bad_input({place, "word", "different words",
                       fmt::format("{} of line {} again", in_quotes(word), earlier->second)});
    }
    words.emplace_back(word);
  });
  if (words.size() == static_cast<std::size_t>(vocabulary_size)) return words;
  throw bad_input({where, "words", fmt::format("{}, the vocabulary", vocabulary_size),
                   fmt::format("{}", words.size())});
}

std::vector<std::string> plain_words(std::span<const std::string_view> tokens) {
  std::vector<std::string> words;
  Ids ids;
  for (const std::string_view token : tokens) {
    const bool plain = !has_blanks(token) && !is_no_word(token) && token.find('\n') == token.npos &&
                       !token.starts_with("<#") && ids.emplace(token, 0).second;
    words.push_back(plain ? std::string(token) : fmt::format("<#{}>", words.size()));
  }
  return words;
}

std::int64_t count_all_prefixes(int vocabulary, int context) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  std::int64_t count = 0;
  std::int64_t of_length = 1;
  for (int n = 1; n <= context; ++n) {
    if (of_length > kMost / vocabulary) return kMost;
    of_length *= vocabulary;
    if (count > kMost - of_length) return kMost;
    count += of_length;
  }
  return count;
}

std::string join_tokens(std::span<const int> tokens) {
  return fmt::format("{}", fmt::join(tokens, " "));
}

}  // namespace kvcheck
