// SPDX-License-Identifier: MIT
// Reading a case from where the user says.
#include "verify/cli_case.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <filesystem>
#include <numeric>
#include <system_error>

#include "engine/echo.h"
#include "engine/error.h"
#include "engine/files.h"
#include "engine/sequences.h"
#include "verify/case_text.h"
#include "verify/schedules.h"

namespace kvcheck {

Case read_case(const std::string& subject) {
  // "kv1:..." and not the path of a file, though it may begin alike.
  const auto slash = subject.find('/');
  const bool path = slash != std::string::npos && slash < subject.find(':');
  if (subject.starts_with("kv") && !path) {
    std::error_code error;
    if (!std::filesystem::exists(subject, error)) return parse_token(subject, "token");
  }
  return parse_case_json(read_text(subject), path_text(subject));
}

std::vector<int> one_sequence(const std::string& text, std::string_view option,
                              const ModelData& model) {
  const Config& config = model.weights.config;
  const auto sequences = parse_sequences(text, option, model.words, config.vocabulary,
                                         static_cast<std::size_t>(config.context));
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
