// SPDX-License-Identifier: MIT
// Walking a prefix tree depth first.
#include "verify/walk.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <stdexcept>

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
  levels_.assign(static_cast<std::size_t>(tree_.depth_max()), {});
  path_.clear();
  branch_.stem = 0;
  if (steps_ == CachedSteps::none) return descend(tree_.root(), SequenceId{});
  const SequenceId root = engine_.open();
  descend(tree_.root(), root);
  let_go(0);
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
  if (level.floors.empty()) level.floors.resize(static_cast<std::size_t>(level.siblings));
  std::optional<NoiseFloor>& floor = level.floors[static_cast<std::size_t>(level.chosen)];
  if (!floor) measure_siblings(level, meter, seed);
  return *floor;
}

// Of the children of one parent, among which the walk is: a walk may end before it comes to others.
void PrefixWalk::measure_siblings(Level& level, NoiseMeter& meter, std::uint64_t seed) {
  const auto all = static_cast<std::size_t>(level.siblings);
  const std::size_t count = std::max<std::size_t>(1, level.family.children);
  const std::size_t first = static_cast<std::size_t>(level.chosen) / count * count;
  std::vector<int> tokens;
  for (std::size_t at = first; at < level.tokens.size(); at += all) {
    const std::span<const int> row = std::span<const int>(level.tokens).subspan(at, count);
    tokens.insert(tokens.end(), row.begin(), row.end());
  }
  Logits rows{level.uncached.vocabulary, {}};
  if (!level.uncached.values.empty()) {
    const std::span<const double> values =
        std::span<const double>(level.uncached.values)
            .subspan(first * static_cast<std::size_t>(rows.vocabulary),
                     count * static_cast<std::size_t>(rows.vocabulary));
    rows.values.assign(values.begin(), values.end());
  }
  std::vector<NoiseFloor> floors;
  meter.floors({tokens, static_cast<int>(count)}, rows, seed, floors);
  std::ranges::copy(floors, level.floors.begin() + static_cast<std::ptrdiff_t>(first));
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
  std::vector<PrefixTree::Child>& children = levels_[static_cast<std::size_t>(node.depth)].children;
  // Over a whole vocabulary they are the same after every prefix.
  if (children.empty() || !tree_.whole_vocabulary()) children = tree_.children(node);
  if (tree_.whole_vocabulary()) {
    descend_together(node.depth, sequence);
  } else {
    descend_alone(node, sequence);
  }
}

// Over a whole vocabulary all children are computed side by side, each on a copy of its parent's
// sequence, and those of several parents at once.
void PrefixWalk::descend_together(int depth, SequenceId root) {
  Level& level = levels_[static_cast<std::size_t>(depth)];
  for (std::size_t first = 0; first < level.children.size(); first += kSiblingsMax) {
    const Family family = family_at(depth, first);
    const auto siblings = std::span(level.children).subspan(first, family.children);
    const auto entered = [&](const PrefixTree::Child& child) {
      return scope_.enters(depth + 1, child.token);
    };
    const auto first_entered = std::ranges::find_if(siblings, entered);
    if (first_entered == siblings.end()) continue;
    // Should the engine fail, it failed at the first of them.
    path_.push_back(first_entered->token);
    if (level.family != family) hold(depth, family, root);
    path_.pop_back();
    const std::size_t before = (parent_at(depth) - level.family.parent) * family.children;
    for (std::size_t i = 0; i < siblings.size(); ++i) {
      if (!entered(siblings[i])) continue;
      arrive(level, siblings[i], static_cast<int>(before + i), root);
    }
  }
}

// The children from `child` on of the node that the walk is at, as many as fit, and where all of
// them do, those of nodes beside it that begin with the same token: of so many as the walk has
// passed behind that token, lest one that ends early have computed much for nothing. Which they are
// depends on the node alone, so that a walk which is restricted to it computes the same.
PrefixWalk::Family PrefixWalk::family_at(int depth, std::size_t child) const {
  constexpr auto most = std::size_t{kSiblingsMax};
  const std::size_t all = levels_[static_cast<std::size_t>(depth)].children.size();
  const std::size_t children = std::min(all - child, most);
  if (depth < 2) return {parent_at(depth), 1, child, children, child};
  const Level& above = levels_[static_cast<std::size_t>(depth - 1)];
  const std::size_t first = above.family.first;
  const std::size_t last = first + static_cast<std::size_t>(above.siblings);
  const std::size_t parent = first + parent_at(depth);
  const std::size_t fit = std::max<std::size_t>(1, most / all);
  const std::size_t together = std::bit_floor(std::clamp<std::size_t>(parent, 1, fit));
  const std::size_t aligned = parent / together * together;
  const std::size_t begin = std::max(first, aligned);
  const std::size_t end = std::min(last, aligned + together);
  return {begin - first, end - begin, child, children, begin * all + child};
}

// Of the level above, where the walk is.
std::size_t PrefixWalk::parent_at(int depth) const {
  if (depth == 0) return 0;
  return static_cast<std::size_t>(levels_[static_cast<std::size_t>(depth - 1)].chosen);
}

// An engine that fails at several parents at once is asked for the one alone that the walk is at:
// the others are come to later, and which of them it fails at shows then.
void PrefixWalk::hold(int depth, const Family& family, SequenceId root) {
  try {
    fill(depth, family, root);
  } catch (const std::runtime_error&) {  // Error and EngineError
    if (family.parents == 1) throw;
    Family alone = family;
    alone.parent = parent_at(depth);
    alone.parents = 1;
    alone.first += (alone.parent - family.parent) * family.children;
    fill(depth, alone, root);
  }
}

// What is below are no longer children of what this level holds.
void PrefixWalk::fill(int depth, const Family& family, SequenceId root) {
  let_go(depth);
  Level& level = levels_[static_cast<std::size_t>(depth)];
  level.family = family;
  put_together(depth);
  compute(level);
  if (steps_ == CachedSteps::along) step_together(depth, root);
}

void PrefixWalk::let_go(int depth) {
  for (Level& level : std::span(levels_).subspan(static_cast<std::size_t>(depth))) {
    for (const SequenceId sequence : level.sequences) engine_.close(sequence);
    level.sequences.clear();
    level.family = {};
  }
}

// The tokens of the family's prefixes.
void PrefixWalk::put_together(int depth) {
  Level& level = levels_[static_cast<std::size_t>(depth)];
  const Family& family = level.family;
  level.siblings = static_cast<int>(family.size());
  level.tokens.resize(static_cast<std::size_t>(depth + 1) * family.size());
  auto at = level.tokens.begin();
  for (int t = 0; t < depth; ++t) {
    const Level& above = levels_[static_cast<std::size_t>(depth - 1)];
    const int* const parents = above.tokens.data() + t * above.siblings + family.parent;
    for (std::size_t p = 0; p < family.parents; ++p) {
      at = std::fill_n(at, family.children, parents[p]);
    }
  }
  for (std::size_t p = 0; p < family.parents; ++p) {
    for (std::size_t i = 0; i < family.children; ++i) {
      *at++ = level.children[family.child + i].token;
    }
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
    if (static_cast<int>(path_.size()) >= scope_.shortest) {
      level.siblings = 1;
      level.tokens = path_;
      compute(level);
    }
    const bool along = steps_ == CachedSteps::along;
    const SequenceId own =
        along && used ? fed_again(std::span(path_).first(path_.size() - 1)) : sequence;
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

// The oracle's rows of the level's tokens.
void PrefixWalk::compute(Level& level) {
  level.floors.clear();
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
  require_rows(engine_, level.uncached, static_cast<std::size_t>(level.siblings));
}

// An engine that cannot copy sequences is fed the prefix again for each sibling; one that cannot
// feed several at once is fed one after the other.
void PrefixWalk::step_together(int depth, SequenceId root) {
  Level& level = levels_[static_cast<std::size_t>(depth)];
  const Capabilities& can = engine_.hello().can;
  const auto count = static_cast<std::size_t>(level.siblings);
  const std::span<const int> last = std::span<const int>(level.tokens).last(count);
  std::vector<int> tokens(static_cast<std::size_t>(depth));
  const auto copy = [&](std::size_t i) {
    if (can.fork && depth == 0) return engine_.fork(root);
    if (can.fork) {
      const std::size_t parent = level.family.parent + i / level.family.children;
      return engine_.fork(levels_[static_cast<std::size_t>(depth - 1)].sequences[parent]);
    }
    for (std::size_t t = 0; t < tokens.size(); ++t) tokens[t] = level.tokens[t * count + i];
    return fed_again(tokens);
  };
  feeds_.clear();
  for (std::size_t i = 0; i < count; ++i) {
    level.sequences.push_back(copy(i));
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

// A sequence that was fed the tokens one by one.
SequenceId PrefixWalk::fed_again(std::span<const int> tokens) {
  const SequenceId sequence = engine_.open();
  for (const int& token : tokens) {
    engine_.feed(sequence, std::span<const int>(&token, 1), Rows::last, row_);
  }
  return sequence;
}

}  // namespace kvcheck
