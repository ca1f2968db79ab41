// SPDX-License-Identifier: MIT
// Walking a prefix tree depth first.
#include "verify/walk.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/error.h"

namespace kvcheck {

bool Scope::visits(int depth) const {
  const int at = static_cast<int>(path.size());
  if (depth < shortest || depth > longest) return false;
  return path_only ? depth == at : depth >= at;
}

bool Scope::enters(int depth, int token) const {
  const auto at = static_cast<std::size_t>(depth);
  return at > path.size() ? !path_only : path[at - 1] == token;
}

void PrefixWalk::run(const Scope& scope, const Visitor& visit) {
  scope_ = scope;
  visit_ = &visit;
  levels_.resize(static_cast<std::size_t>(tree_.depth_max()));
  path_.clear();
  branch_.stem = 0;
  if (steps_ == CachedSteps::none) return descend(tree_.root(), SequenceId{});
  const SequenceId root = engine_.open();
  descend(tree_.root(), root);
  engine_.close(root);
}

std::span<const double> PrefixWalk::cached() const {
  const Level& level = levels_[path_.size() - 1];
  return level.cached.row(level.chosen);
}

std::span<const double> PrefixWalk::reference(int n) const {
  const Level& level = levels_[static_cast<std::size_t>(n - 1)];
  if (level.uncached.values.empty()) return {};
  return level.uncached.row(level.chosen);
}

NoiseFloor PrefixWalk::floor(int n, NoiseMeter& meter, std::uint64_t seed) {
  Level& level = levels_[static_cast<std::size_t>(n - 1)];
  const bool in_one = oracle_ != OracleChoice::sampled;
  if (in_one && level.floors.empty() && (branch_.holds(n) || find_branch(n))) {
    if (branch_.floors.empty()) meter.floors({branch_.tokens, 1}, {}, seed, branch_.floors);
    level.floors.assign(1, branch_.floors[static_cast<std::size_t>(n - 1)]);
  }
  if (level.floors.empty()) {
    meter.floors({level.tokens, level.siblings}, level.uncached, seed, level.floors);
  }
  return level.floors[static_cast<std::size_t>(level.chosen)];
}

// The path, and what follows it without a branch as far as the walk goes.
std::vector<int> PrefixWalk::way_on() const {
  std::vector<int> tokens = path_;
  PrefixTree::Node node = node_;
  const auto end =
      std::min(static_cast<std::size_t>(scope_.longest),
               scope_.path_only ? scope_.path.size() : static_cast<std::size_t>(tree_.depth_max()));
  while (tokens.size() < end) {
    const std::vector<PrefixTree::Child> children = tree_.children(node);
    if (children.size() != 1) break;
    tokens.push_back(children.front().token);
    node = children.front().node;
  }
  return tokens;
}

// Whether one forward answers for the first `length` tokens of the path and for what follows them:
// it has to be worth it, and to fit.
bool PrefixWalk::find_branch(int length) {
  if (tree_.whole_vocabulary()) return false;
  std::vector<int> tokens = way_on();
  const int rows = static_cast<int>(tokens.size()) - length + 1;
  const auto all = static_cast<std::int64_t>(tokens.size());
  if (rows < kBranchRowsMin || !fits_one_forward(all, engine_.hello().vocabulary)) return false;
  branch_.stem = path_.size();
  branch_.tokens = std::move(tokens);
  branch_.rows.values.clear();
  branch_.floors.clear();
  return true;
}

// Of the engine's forward of the whole branch.
std::span<const double> PrefixWalk::branch_row(int length) {
  if (branch_.rows.values.empty()) {
    engine_.full({branch_.tokens, 1}, Rows::all, branch_.rows);
    require_rows(engine_, branch_.rows, branch_.tokens.size());
  }
  return branch_.rows.row(length - 1);
}

// `sequence` holds the prefix of the node.
void PrefixWalk::descend(const PrefixTree::Node& node, SequenceId sequence) {
  if (static_cast<std::size_t>(node.depth) == levels_.size()) return;
  levels_[static_cast<std::size_t>(node.depth)].children = tree_.children(node);
  if (tree_.whole_vocabulary()) {
    descend_together(node, sequence);
  } else {
    descend_alone(node, sequence);
  }
}

// Over a whole vocabulary all children are computed side by side, each on a copy of the parent's
// sequence.
void PrefixWalk::descend_together(const PrefixTree::Node& node, SequenceId parent) {
  Level& level = levels_[static_cast<std::size_t>(node.depth)];
  for (std::size_t first = 0; first < level.children.size(); first += kSiblingsMax) {
    const std::size_t count = std::min(level.children.size() - first, std::size_t{kSiblingsMax});
    const auto entered = [&](const PrefixTree::Child& child) {
      return scope_.enters(node.depth + 1, child.token);
    };
    const auto siblings = std::span(level.children).subspan(first, count);
    if (std::none_of(siblings.begin(), siblings.end(), entered)) continue;
    // Should the engine fail, it failed at the first of them.
    path_.push_back(std::find_if(siblings.begin(), siblings.end(), entered)->token);
    compute(level, first, count);
    if (steps_ == CachedSteps::along) step_together(level, parent);
    path_.pop_back();
    for (std::size_t i = 0; i < count; ++i) {
      if (!entered(siblings[i])) continue;
      const bool along = steps_ == CachedSteps::along;
      arrive(level, siblings[i], static_cast<int>(i), along ? level.sequences[i] : SequenceId{});
    }
    for (const SequenceId sequence : level.sequences) engine_.close(sequence);
    level.sequences.clear();
  }
}

// Over given sequences every row was fed, never copied or rolled back: the first child goes on with
// the parent's sequence, a further one with a new one that is fed the prefix again.
void PrefixWalk::descend_alone(const PrefixTree::Node& node, SequenceId sequence) {
  Level& level = levels_[static_cast<std::size_t>(node.depth)];
  bool used = false;
  for (std::size_t i = 0; i < level.children.size(); ++i) {
    const PrefixTree::Child child = level.children[i];
    if (!scope_.enters(node.depth + 1, child.token)) continue;
    path_.push_back(child.token);
    node_ = child.node;
    if (static_cast<int>(path_.size()) >= scope_.shortest) compute(level, i, 1);
    const bool along = steps_ == CachedSteps::along;
    const SequenceId own = along && used ? fed_again() : sequence;
    if (along) {
      engine_.feed(own, std::span(path_).last(1), Rows::all, level.cached);
      require_rows(engine_, level.cached, 1);
    }
    path_.pop_back();
    arrive(level, child, 0, own);
    if (along && used) engine_.close(own);
    used = true;
  }
}

void PrefixWalk::arrive(Level& level, const PrefixTree::Child& child, int chosen,
                        SequenceId sequence) {
  level.chosen = chosen;
  path_.push_back(child.token);
  node_ = child.node;
  if (scope_.visits(child.node.depth)) {
    leaf_ = tree_.leaf(child.node);
    (*visit_)(*this);
  }
  const bool finished = static_cast<int>(path_.size()) >= scope_.longest ||
                        (scope_.path_only && path_.size() == scope_.path.size());
  if (!finished) descend(child.node, sequence);
  path_.pop_back();
  if (path_.size() < branch_.stem) branch_.stem = 0;
}

// The oracle's rows of the path with its last token replaced by each of the children's.
void PrefixWalk::compute(Level& level, std::size_t first, std::size_t count) {
  level.siblings = static_cast<int>(count);
  level.floors.clear();
  level.tokens.resize(path_.size() * count);
  auto at = level.tokens.begin();
  for (const int token : std::span(path_).first(path_.size() - 1)) {
    at = std::fill_n(at, count, token);
  }
  for (std::size_t i = first; i < first + count; ++i) *at++ = level.children[i].token;
  const int length = static_cast<int>(path_.size());
  if (oracle_ == OracleChoice::sampled && !sampled_length(length) && !tree_.leaf(node_)) {
    level.uncached = {};
    return;
  }
  if (oracle_ == OracleChoice::full && !sampled_length(length) &&
      (branch_.holds(length) || find_branch(length))) {
    const std::span<const double> row = branch_row(length);
    level.uncached.vocabulary = branch_.rows.vocabulary;
    level.uncached.values.assign(row.begin(), row.end());
    return;
  }
  engine_.full({level.tokens, level.siblings}, Rows::last, level.uncached);
  require_rows(engine_, level.uncached, count);
}

// An engine that cannot copy sequences is fed the prefix again for each sibling; one that cannot
// feed several at once is fed one after the other.
void PrefixWalk::step_together(Level& level, SequenceId parent) {
  const Capabilities& can = engine_.hello().can;
  const auto count = static_cast<std::size_t>(level.siblings);
  const std::span<const int> last = std::span<const int>(level.tokens).last(count);
  feeds_.clear();
  for (std::size_t i = 0; i < count; ++i) {
    level.sequences.push_back(can.fork ? engine_.fork(parent) : fed_again());
    feeds_.push_back({level.sequences.back(), last.subspan(i, 1)});
  }
  if (can.batch) {
    engine_.batch(feeds_, Rows::all, level.cached);
  } else {
    feed_singly(level.cached);
  }
  require_rows(engine_, level.cached, count);
}

void PrefixWalk::feed_singly(Logits& out) {
  out.values.clear();
  for (const Feed& feed : feeds_) {
    engine_.feed(feed.sequence, feed.tokens, Rows::all, row_);
    require_rows(engine_, row_, feed.tokens.size());
    out.vocabulary = row_.vocabulary;
    out.values.insert(out.values.end(), row_.values.begin(), row_.values.end());
  }
}

// A sequence that was fed the path up to its last token.
SequenceId PrefixWalk::fed_again() {
  const SequenceId sequence = engine_.open();
  for (const int& token : std::span(path_).first(path_.size() - 1)) {
    engine_.feed(sequence, std::span<const int>(&token, 1), Rows::last, row_);
  }
  return sequence;
}

}  // namespace kvcheck
