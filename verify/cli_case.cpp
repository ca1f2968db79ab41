// SPDX-License-Identifier: MIT
// Reading a case from where the user says.
#include "verify/cli_case.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <span>
#include <system_error>

#include "engine/echo.h"
#include "engine/error.h"
#include "engine/files.h"
#include "engine/sequences.h"
#include "verify/case_text.h"
#include "verify/schedules.h"

namespace kvcheck {

namespace {

// "kv1:..." and not the path of a file, though it may begin alike.
bool is_token(const std::string& subject) {
  const auto slash = subject.find('/');
  const bool path = slash != std::string::npos && slash < subject.find(':');
  std::error_code error;
  return subject.starts_with("kv") && !path && !std::filesystem::exists(subject, error);
}

constexpr std::string_view kBlanks = " \t\r\n\v\f";

// With blanks for commas, unless these belong to words.
std::string without_commas(std::string text, std::string_view option,
                           std::span<const std::string> words) {
  const auto with_comma = [](const std::string& word) { return word.find(',') != word.npos; };
  const bool blanks = text.find_first_of(kBlanks) != text.npos;
  const bool words_have = blanks ? std::ranges::any_of(words, with_comma)
                                 : std::ranges::find(words, text) != words.end();
  if (!with_comma(text) || words_have) return text;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    if (text.substr(begin, end - begin).find_first_not_of(kBlanks) == text.npos) {
      throw bad_input(
          {option, "an empty token", "a token on either side of each comma", one_line(text)});
    }
    begin = end + 1;
  }
  std::ranges::replace(text, ',', ' ');
  return text;
}

}  // namespace

bool names_case(const std::string& subject) {
  std::error_code error;
  return is_token(subject) || std::filesystem::is_regular_file(subject, error);
}

Case read_case(const std::string& subject) {
  if (is_token(subject)) return parse_token(subject, "token");
  return parse_case_json(read_text(subject), path_text(subject));
}

std::vector<int> one_sequence(const std::string& text, std::string_view option,
                              const ModelData& model) {
  const Config& config = model.weights.config;
  const auto sequences =
      parse_sequences(without_commas(text, option, model.words), option, model.words,
                      config.vocabulary, static_cast<std::size_t>(config.context));
  if (sequences.size() == 1) return sequences.front();
  throw bad_input({option, "sequences", "one", fmt::format("{}", sequences.size())});
}

std::vector<int> schedule_of(int length, const std::string& text) {
  if (text.empty()) return decode_schedule(length);
  std::vector<int> schedule = parse_schedule(text, "--schedule");
  if (std::accumulate(schedule.begin(), schedule.end(), std::int64_t{0}) == length) return schedule;
  throw bad_input({"--schedule", "schedule", fmt::format("{} tokens in all", length), text});
}

void require_new_file(const std::string& path, std::string_view option) {
  std::error_code unknown;
  if (std::filesystem::exists(std::filesystem::symlink_status(path, unknown))) {
    throw bad_input({option, "output", "a new file", one_line(path)});
  }
}

std::string tokens_text(const ModelData& model, const std::vector<int>& tokens) {
  if (model.words.empty()) return join_tokens(tokens);
  std::vector<std::string> found;
  for (const int token : tokens) {
    found.push_back(one_line(model.words[static_cast<std::size_t>(token)]));
  }
  return fmt::format("{}   ({})", join_tokens(tokens), fmt::join(found, " "));
}

}  // namespace kvcheck
