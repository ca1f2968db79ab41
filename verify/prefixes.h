// SPDX-License-Identifier: MIT
// Which prefixes are checked: a tree of token sequences, either every sequence over the vocabulary
// or the distinct prefixes of given sequences. The tree is walked, never stored.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/config.h"

namespace kvcheck {

// More prefixes than this are not enumerated.
inline constexpr std::int64_t kPrefixesMax = 10'000'000;

class PrefixTree {
 public:
  // A node: a prefix of `depth` tokens, whose further ones are among sequences [first, last).
  struct Node {
    int depth = 0;
    std::size_t first = 0;
    std::size_t last = 0;
  };
  struct Child {
    int token;
    Node node;
  };

  // Every sequence over the vocabulary up to the context.
  [[nodiscard]] static PrefixTree all(const Config& config);
  // The prefixes of the given sequences, each cut at the context.
  [[nodiscard]] static PrefixTree of(std::vector<std::vector<int>> sequences, int context);

  // True for the tree over the whole vocabulary, whose siblings are computed side by side.
  [[nodiscard]] bool whole_vocabulary() const { return vocabulary_ > 0; }
  [[nodiscard]] Node root() const { return {0, 0, sequences_.size()}; }
  // The prefixes that are one token longer, by token.
  [[nodiscard]] std::vector<Child> children(const Node& node) const;
  [[nodiscard]] bool leaf(const Node& node) const;
  [[nodiscard]] int depth_max() const { return depth_max_; }
  // Distinct prefixes; walks the given sequences, but not the whole vocabulary.
  [[nodiscard]] std::int64_t count() const;

 private:
  int vocabulary_ = 0;  // 0: of given sequences
  int depth_max_ = 0;
  std::vector<std::vector<int>> sequences_;  // sorted, distinct
};

}  // namespace kvcheck
