// SPDX-License-Identifier: MIT
// The walk over a prefix tree: the oracle's row for every prefix, each recomputed from its own
// tokens, and, if asked for, the row of a cached step beside it. Memory grows with the depth of the
// tree, not with its size.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "engine/port.h"
#include "verify/noise.h"
#include "verify/prefixes.h"

namespace kvcheck {

// Prefixes of one length that are computed side by side at most, over a whole vocabulary: the
// children of a node, and those of the nodes beside it as far as they fit.
inline constexpr int kSiblingsMax = 64;

// How the oracle computes its rows of given sequences.
enum class OracleChoice {
  per_prefix,  // each prefix by a forward of its own
  // One forward of a whole sequence answers for its prefixes; those of sampled_length() are
  // computed on their own all the same.
  full,
  // Only those of sampled_length() and whole sequences, each by a forward of its own.
  sampled,
};

// A power of two: where an oracle that is computed in one forward is computed prefix by prefix as
// well.
[[nodiscard]] constexpr bool sampled_length(int length) {
  return std::has_single_bit(static_cast<unsigned>(length));
}

// Rows ahead without a branch from which on noise floors are measured together: the rows of one
// forward have those of their own forwards, up to rounding.
inline constexpr int kBranchRowsMin = 16;
// Logits of one such forward at most, 64 MiB; beyond, rows are computed one by one.
inline constexpr std::int64_t kBranchLogitsMax = std::int64_t{1} << 23;
// Whether one forward may answer for the prefixes of a sequence of so many tokens.
[[nodiscard]] constexpr bool fits_one_forward(std::int64_t length, int vocabulary) {
  return length >= kBranchRowsMin && length * vocabulary <= kBranchLogitsMax;
}

// The part of a tree that is visited.
struct Scope {
  std::vector<int> path;   // prefixes that begin so; empty: all
  bool path_only = false;  // of them only `path` itself
  // Of these lengths. Of shorter prefixes of given sequences nothing is computed but cached steps.
  int shortest = 1;
  int longest = std::numeric_limits<int>::max();

  [[nodiscard]] bool visits(int depth) const;
  // Whether the walk goes on to the child of `depth` tokens whose last one is `token`.
  [[nodiscard]] bool enters(int depth, int token) const;
};

class PrefixWalk {
 public:
  enum class CachedSteps { none, along };

  // At a prefix, in depth-first order. What the walk holds about it is asked of the walk.
  using Visitor = std::function<void(PrefixWalk&)>;

  PrefixWalk(const PrefixTree& tree, Engine& engine, CachedSteps steps,
             OracleChoice oracle = OracleChoice::per_prefix)
      : tree_(tree), engine_(engine), steps_(steps), oracle_(oracle) {}

  void run(const Scope& scope, const Visitor& visit);

  // The prefix that is being visited; after the engine has failed, the first of the siblings that
  // it failed at.
  [[nodiscard]] std::span<const int> prefix() const { return path_; }
  [[nodiscard]] bool leaf() const { return leaf_; }
  // The cached step's row.
  [[nodiscard]] std::span<const double> cached() const;
  // The oracle's row of the first n tokens of the prefix, 1 <= n <= its length; empty where the
  // choice leaves it out.
  [[nodiscard]] std::span<const double> reference(int n) const;
  // Its noise floor, measured when first asked for.
  [[nodiscard]] NoiseFloor floor(int n, NoiseMeter& meter, std::uint64_t seed);

 private:
  // Some nodes of the level above, and some of the children of each, from `child` on.
  struct Family {
    std::size_t parent = 0;
    std::size_t parents = 0;  // 0: none
    std::size_t child = 0;
    std::size_t children = 0;  // of each parent
    std::size_t first = 0;     // prefixes of this length, of the same first token, before them

    bool operator==(const Family&) const = default;
    [[nodiscard]] std::size_t size() const { return parents * children; }
  };

  // What is held for the prefixes of one length: some of them, side by side.
  struct Level {
    std::vector<PrefixTree::Child> children;  // of the node that the walk went on from
    Family family;                            // whose prefixes are held, parent by parent
    std::vector<int> tokens;                  // [length][siblings]
    int siblings = 0;
    int chosen = 0;                                 // the sibling that the walk is at
    Logits uncached;                                // [siblings, vocabulary]
    Logits cached;                                  // likewise
    std::vector<std::optional<NoiseFloor>> floors;  // [siblings], empty until asked for
    std::vector<SequenceId> sequences;              // [siblings] that hold these prefixes
  };

  // The path, and the way on from it as long as no other leads on: what one forward answers for.
  struct Branch {
    std::size_t stem = 0;     // of the path: the walk is on the branch while it is so long; 0: none
    std::vector<int> tokens;  // of the longest prefix
    // The engine's answer, and what the meter measures without it: [tokens], empty until asked for.
    Logits rows;
    std::vector<NoiseFloor> floors;

    [[nodiscard]] bool holds(int length) const {
      return stem > 0 && length <= static_cast<int>(tokens.size());
    }
  };

  void descend(const PrefixTree::Node& node, SequenceId sequence);
  void descend_together(int depth, SequenceId root);
  void descend_alone(const PrefixTree::Node& node, SequenceId sequence);
  [[nodiscard]] Family family_at(int depth, std::size_t child) const;
  [[nodiscard]] std::size_t parent_at(int depth) const;
  void hold(int depth, const Family& family, SequenceId root);
  void fill(int depth, const Family& family, SequenceId root);
  void let_go(int depth);
  void put_together(int depth);
  void compute(Level& level);
  void step_together(int depth, SequenceId root);
  void feed_singly(Logits& out);
  void measure_siblings(Level& level, NoiseMeter& meter, std::uint64_t seed);
  void arrive(Level& level, const PrefixTree::Child& child, int chosen, SequenceId sequence);
  [[nodiscard]] SequenceId fed_again(std::span<const int> tokens);
  [[nodiscard]] std::vector<int> way_on() const;
  bool find_branch(int length);
  [[nodiscard]] std::span<const double> branch_row(int length);

  const PrefixTree& tree_;
  Engine& engine_;
  const CachedSteps steps_;
  const OracleChoice oracle_;
  Scope scope_;
  const Visitor* visit_ = nullptr;
  std::vector<Level> levels_;  // [depth]: of the prefixes of depth + 1 tokens
  std::vector<int> path_;
  PrefixTree::Node node_;  // of the path
  bool leaf_ = false;
  Branch branch_;
  std::vector<Feed> feeds_;
  Logits row_;  // of one feed
};

}  // namespace kvcheck
