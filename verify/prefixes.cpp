// SPDX-License-Identifier: MIT
// The prefix tree over sorted sequences, or over a vocabulary.
#include "verify/prefixes.h"

#include <algorithm>

#include "engine/sequences.h"

namespace kvcheck {

PrefixTree PrefixTree::all(const Config& config) {
  PrefixTree tree;
  tree.vocabulary_ = config.vocabulary;
  tree.depth_max_ = config.context;
  return tree;
}

PrefixTree PrefixTree::of(std::vector<std::vector<int>> sequences, int context) {
  PrefixTree tree;
  for (std::vector<int>& sequence : sequences) {
    if (static_cast<int>(sequence.size()) > context) {
      sequence.resize(static_cast<std::size_t>(context));
    }
    tree.depth_max_ = std::max(tree.depth_max_, static_cast<int>(sequence.size()));
  }
  std::sort(sequences.begin(), sequences.end());
  sequences.erase(std::unique(sequences.begin(), sequences.end()), sequences.end());
  tree.sequences_ = std::move(sequences);
  return tree;
}

std::vector<PrefixTree::Child> PrefixTree::children(const Node& node) const {
  std::vector<Child> found;
  if (whole_vocabulary()) {
    if (node.depth == depth_max_) return found;
    for (int token = 0; token < vocabulary_; ++token)
      found.push_back({token, {node.depth + 1, 0, 0}});
    return found;
  }
  const auto at = static_cast<std::size_t>(node.depth);
  for (std::size_t i = node.first; i < node.last; ++i) {
    const std::vector<int>& sequence = sequences_[i];
    if (sequence.size() <= at) continue;
    if (found.empty() || found.back().token != sequence[at]) {
      found.push_back({sequence[at], {node.depth + 1, i, i}});
    }
    found.back().node.last = i + 1;
  }
  return found;
}

bool PrefixTree::leaf(const Node& node) const {
  if (whole_vocabulary()) return node.depth == depth_max_;
  // Sorted: the longest of the node's sequences is last among those that continue it.
  return static_cast<int>(sequences_[node.last - 1].size()) == node.depth;
}

std::int64_t PrefixTree::count() const {
  if (whole_vocabulary()) return count_all_prefixes(vocabulary_, depth_max_);
  std::int64_t count = 0;
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    const std::vector<int>& now = sequences_[i];
    std::size_t shared = 0;
    if (i > 0) {
      const std::vector<int>& before = sequences_[i - 1];
      while (shared < now.size() && shared < before.size() && now[shared] == before[shared]) {
        ++shared;
      }
    }
    count += static_cast<std::int64_t>(now.size() - shared);
  }
  return count;
}

}  // namespace kvcheck
