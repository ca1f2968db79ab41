// SPDX-License-Identifier: MIT
// Reading a case from where the user says.
#include "verify/cli_case.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <system_error>

#include "engine/echo.h"
#include "engine/files.h"
#include "engine/sequences.h"
#include "verify/case_text.h"

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

std::string tokens_text(const ModelData& model, const std::vector<int>& tokens) {
  if (model.words.empty()) return join_tokens(tokens);
  std::vector<std::string> found;
  for (const int token : tokens) {
    found.push_back(one_line(model.words[static_cast<std::size_t>(token)]));
  }
  return fmt::format("{}   ({})", join_tokens(tokens), fmt::join(found, " "));
}

}  // namespace kvcheck
