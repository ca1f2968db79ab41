// SPDX-License-Identifier: MIT
// Complaints about tokens.
#include "engine/tokens.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/error.h"

namespace kvcheck {

void validate_tokens(const Config& config, std::span<const int> tokens, int length,
                     std::string_view where) {
  if (tokens.empty()) throw bad_input({where, "no tokens", "at least 1", "0"});
  if (length > config.context) {
    throw bad_input({where, "past the context", fmt::format("at most {} rows", config.context),
                     fmt::format("{}", length)});
  }
  const auto outside = std::find_if(tokens.begin(), tokens.end(), [&](int token) {
    return token < 0 || token >= config.vocabulary;
  });
  if (outside != tokens.end()) {
    throw bad_input({where, "token outside the vocabulary",
                     fmt::format("an id from 0 to {}", config.vocabulary - 1),
                     fmt::format("{}", *outside)});
  }
}

}  // namespace kvcheck
