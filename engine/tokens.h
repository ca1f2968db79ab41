// SPDX-License-Identifier: MIT
// What a model takes as tokens.
#pragma once

#include <span>
#include <string_view>

#include "engine/config.h"

namespace kvcheck {

// Equally long sequences that are computed side by side, each from its own tokens alone: token t of
// sequence b is tokens[t * sequences + b]. One sequence is the usual case.
struct TokenBlock {
  std::span<const int> tokens;
  int sequences = 1;

  [[nodiscard]] int length() const { return static_cast<int>(tokens.size()) / sequences; }
};

// Throws Error naming `where` unless there is a token, every id lies in the vocabulary, and
// `length`, the rows that a sequence would hold with them, fits the context.
void validate_tokens(const Config& config, std::span<const int> tokens, int length,
                     std::string_view where);

}  // namespace kvcheck
