// SPDX-License-Identifier: MIT
// Each edge is a row: its name, the spaces that can reach it, and how it is recognised.
#include "verify/operation_coverage.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

#include "verify/token_log.h"

namespace kvcheck {
namespace {

// An operation with what stood before it.
struct Moment {
  const Operation& operation;
  const OperationStep& step;
  const TokenLog& after;
  const OperationSpace& space;
  std::vector<int> lengths_before;  // of the operation's sequences; -1: not open
  const std::set<int>& cut;         // handles that lost rows and were not fed since
  const std::set<int>& forked;      // handles that a fork made or copied
  bool saver_changed;               // of a load

  bool is(Verb verb) const { return operation.verb == verb; }
  // Of the verbs that name one sequence.
  int length_before() const { return lengths_before[0]; }
  int number(std::size_t i) const { return operation.numbers[i]; }
  int prompt_length() const { return is(Verb::prompt) ? number(0) : 0; }
};

bool reaches(const Moment& m, int length) {
  return std::any_of(m.step.changed.begin(), m.step.changed.end(),
                     [&](int handle) { return m.after.length(handle) == length; });
}

bool is_partial(int length, int block) { return block > 0 && length % block != 0; }

bool fits(const OperationSpace& space, int length) {
  return 1 <= length && length <= space.limits.context;
}

bool always(const OperationSpace&) { return true; }
bool prompts(const OperationSpace& s) { return possible(Verb::prompt, s); }
bool has_blocks(const OperationSpace& s) { return s.block > 1 && s.limits.context > 1; }

template <Verb Offered, int ContextMin>
bool offers(const OperationSpace& s) {
  return possible(Offered, s) && s.limits.context >= ContextMin;
}
template <int Extra>
bool fits_window(const OperationSpace& s) {
  return s.window > 0 && fits(s, s.window + Extra);
}
template <int Extra>
bool fits_block(const OperationSpace& s) {
  return s.block > 0 && fits(s, s.block + Extra);
}
template <int Extra>
bool shares_block(const OperationSpace& s) {
  return prompts(s) && fits_block<Extra>(s);
}

template <int Extra>
bool at_window(const Moment& m) {
  return reaches(m, m.space.window + Extra);
}
template <int Extra>
bool at_block(const Moment& m) {
  return reaches(m, m.space.block + Extra);
}
template <int Extra>
bool prompt_at_block(const Moment& m) {
  return m.is(Verb::prompt) && m.prompt_length() == m.space.block + Extra;
}
template <int Left>
bool leaves_room(const Moment& m) {
  return std::any_of(m.step.feeds.begin(), m.step.feeds.end(),
                     [&](const FedTokens& fed) { return m.after.room(fed.handle) == Left; });
}
template <int Length>
bool truncates_to(const Moment& m) {
  return m.is(Verb::truncate) && m.number(0) == Length && m.length_before() > Length;
}
template <int Rows>
bool truncates_by(const Moment& m) {
  return m.is(Verb::truncate) && m.length_before() - m.number(0) == Rows;
}

bool wraps(const Moment& m) {
  return std::any_of(m.step.feeds.begin(), m.step.feeds.end(), [&](const FedTokens& fed) {
    return m.after.length(fed.handle) >= 2 * m.space.window;
  });
}
bool goes_on_in_block(const Moment& m) {
  if (!m.is(Verb::feed) && !m.is(Verb::batch)) return false;
  return std::any_of(m.lengths_before.begin(), m.lengths_before.end(),
                     [&](int length) { return is_partial(length, m.space.block); });
}
bool forks_partial_block(const Moment& m) {
  return m.is(Verb::fork) && is_partial(m.length_before(), m.space.block);
}
bool is_unequal(const Moment& m) {
  const std::vector<int>& n = m.operation.numbers;
  return m.is(Verb::batch) &&
         std::adjacent_find(n.begin(), n.end(), std::not_equal_to<>()) != n.end();
}
bool refills(const Moment& m) {
  return std::any_of(m.step.feeds.begin(), m.step.feeds.end(),
                     [&](const FedTokens& fed) { return m.cut.contains(fed.handle); });
}
bool reforks(const Moment& m) {
  return m.is(Verb::fork) && m.forked.contains(m.operation.sequences[0]);
}
bool repeats(const Moment& m) {
  const std::set<int> sources(m.operation.numbers.begin(), m.operation.numbers.end());
  return m.is(Verb::reorder) && sources.size() < m.operation.numbers.size();
}
bool shares_whole(const Moment& m) {
  return m.is(Verb::prompt) && m.number(1) == 0 && m.lengths_before[1] == m.number(0);
}
bool shares_closed(const Moment& m) {
  return m.is(Verb::prompt) && !m.after.is_live(m.operation.sequences[1]);
}
bool loads_changed(const Moment& m) { return m.is(Verb::load) && m.saver_changed; }

struct EdgeRow {
  Edge edge;
  std::string_view name;
  bool (*applies)(const OperationSpace&);
  bool (*hit)(const Moment&);
};

constexpr std::array<EdgeRow, kEdges> kEdgeRows{{
    {Edge::below_window, "below-window", fits_window<-1>, at_window<-1>},
    {Edge::at_window, "at-window", fits_window<0>, at_window<0>},
    {Edge::above_window, "above-window", fits_window<1>, at_window<1>},
    {Edge::wrapped, "wrapped",
     [](const OperationSpace& s) { return s.window > 0 && fits(s, 2 * s.window); }, wraps},
    {Edge::below_block, "below-block", fits_block<-1>, at_block<-1>},
    {Edge::at_block, "at-block", fits_block<0>, at_block<0>},
    {Edge::above_block, "above-block", fits_block<1>, at_block<1>},
    {Edge::partial_block, "partial-block", has_blocks, goes_on_in_block},
    {Edge::fork_partial_block, "fork-partial-block",
     [](const OperationSpace& s) { return has_blocks(s) && possible(Verb::fork, s); },
     forks_partial_block},
    {Edge::below_capacity, "below-capacity",
     [](const OperationSpace& s) { return s.limits.context >= 2; }, leaves_room<1>},
    {Edge::at_capacity, "at-capacity", always, leaves_room<0>},
    {Edge::unequal_batch, "unequal-batch", offers<Verb::batch, 2>, is_unequal},
    {Edge::truncate_to_0, "truncate-to-0", offers<Verb::truncate, 1>, truncates_to<0>},
    {Edge::truncate_to_1, "truncate-to-1", offers<Verb::truncate, 2>, truncates_to<1>},
    {Edge::truncate_by_1, "truncate-by-1", offers<Verb::truncate, 1>, truncates_by<1>},
    {Edge::truncate_by_0, "truncate-by-0", offers<Verb::truncate, 1>, truncates_by<0>},
    {Edge::refill, "refill",
     [](const OperationSpace& s) {
       return possible(Verb::truncate, s) || possible(Verb::reset, s);
     },
     refills},
    {Edge::refork, "refork", offers<Verb::fork, 1>, reforks},
    {Edge::reorder_repeat, "reorder-repeat", offers<Verb::reorder, 1>, repeats},
    {Edge::prompt_below_block, "prompt-below-block", shares_block<-1>, prompt_at_block<-1>},
    {Edge::prompt_at_block, "prompt-at-block", shares_block<0>, prompt_at_block<0>},
    {Edge::prompt_above_block, "prompt-above-block", shares_block<1>, prompt_at_block<1>},
    {Edge::prompt_whole, "prompt-whole", prompts, shares_whole},
    {Edge::prompt_of_closed, "prompt-of-closed", prompts, shares_closed},
    {Edge::load_after_change, "load-after-change", offers<Verb::load, 1>, loads_changed},
}};

static_assert(std::all_of(kEdgeRows.begin(), kEdgeRows.end(), [](const EdgeRow& row) {
  return &row == &kEdgeRows[static_cast<std::size_t>(row.edge)];
}));

const EdgeRow& row_of(Edge edge) { return kEdgeRows[static_cast<std::size_t>(edge)]; }

// Applies a sequence and counts on the way.
class Counter {
 public:
  explicit Counter(const OperationSpace& space) : space_(space), log_(space.limits) {}

  OperationCoverage count(const Operations& operations) {
    coverage_.sequences = 1;
    for (std::size_t i = 0; i < operations.size(); ++i) {
      const auto verb = static_cast<std::size_t>(operations[i].verb);
      ++coverage_.operations;
      ++coverage_.verbs[verb];
      if (i > 0) ++coverage_.pairs[static_cast<std::size_t>(operations[i - 1].verb)][verb];
      apply(operations[i]);
    }
    return coverage_;
  }

 private:
  struct Saved {
    int handle;
    std::vector<int> tokens;
  };

  void apply(const Operation& o) {
    std::vector<int> lengths;
    for (const int handle : o.sequences) {
      lengths.push_back(log_.is_live(handle) ? log_.length(handle) : -1);
    }
    if (o.verb == Verb::prompt) lengths[1] = log_.told_length(o.sequences[1]);
    if (o.verb == Verb::save) saved_.push_back({o.sequences[0], log_.tokens(o.sequences[0])});
    const bool saver_changed = o.verb == Verb::load && has_changed(o.numbers[0]);
    const OperationStep step = log_.apply(o);
    const Moment moment{o, step, log_, space_, std::move(lengths), cut_, forked_, saver_changed};
    for (const EdgeRow& row : kEdgeRows) {
      if (row.applies(space_) && row.hit(moment)) {
        ++coverage_.edges[static_cast<std::size_t>(row.edge)];
      }
    }
    remember(o, step);
  }

  bool has_changed(int state) const {
    const Saved& saved = saved_[static_cast<std::size_t>(state)];
    return !log_.is_live(saved.handle) || log_.tokens(saved.handle) != saved.tokens;
  }

  void remember(const Operation& o, const OperationStep& step) {
    if (o.verb == Verb::truncate || o.verb == Verb::reset) cut_.insert(o.sequences[0]);
    for (const FedTokens& fed : step.feeds) cut_.erase(fed.handle);
    if (o.verb != Verb::fork) return;
    forked_.insert(o.sequences[0]);
    forked_.insert(*step.created);
  }

  const OperationSpace& space_;
  TokenLog log_;
  OperationCoverage coverage_;
  std::vector<Saved> saved_;
  std::set<int> cut_;
  std::set<int> forked_;
};

template <std::size_t N>
void add(std::array<std::uint64_t, N>& sums, const std::array<std::uint64_t, N>& counts) {
  for (std::size_t i = 0; i < N; ++i) sums[i] += counts[i];
}

std::vector<Verb> possible_verbs(const OperationSpace& space) {
  std::vector<Verb> verbs;
  for (int i = 0; i < kVerbs; ++i) {
    if (possible(static_cast<Verb>(i), space)) verbs.push_back(static_cast<Verb>(i));
  }
  return verbs;
}

void add_missing_pairs(const OperationCoverage& coverage, const std::vector<Verb>& verbs,
                       std::vector<std::string>& found) {
  for (const Verb before : verbs) {
    for (const Verb after : verbs) {
      if (coverage.of(before, after) > 0) continue;
      found.push_back(fmt::format("{}.{}", name(before), name(after)));
    }
  }
}

}  // namespace

std::string_view name(Edge edge) { return row_of(edge).name; }

bool possible(Edge edge, const OperationSpace& space) { return row_of(edge).applies(space); }

bool possible(Verb verb, const OperationSpace& space) {
  if (!space.limits.allows(verb)) return false;
  switch (verb) {
    case Verb::batch:
    case Verb::fork:
    case Verb::reorder:
      return space.live_max >= 2;
    case Verb::load:
      return space.live_max >= 2 && space.limits.allows(Verb::save);
    case Verb::shift:
    case Verb::evict:
      return space.limits.context >= 2;
    default:
      return true;
  }
}

OperationCoverage& OperationCoverage::operator+=(const OperationCoverage& other) {
  sequences += other.sequences;
  operations += other.operations;
  add(verbs, other.verbs);
  for (std::size_t i = 0; i < pairs.size(); ++i) add(pairs[i], other.pairs[i]);
  add(edges, other.edges);
  return *this;
}

OperationCoverage coverage_of(const Operations& operations, const OperationSpace& space) {
  return Counter(space).count(operations);
}

std::vector<std::string> missing(const OperationCoverage& coverage, const OperationSpace& space) {
  const std::vector<Verb> verbs = possible_verbs(space);
  std::vector<std::string> found;
  for (const Verb verb : verbs) {
    if (coverage.of(verb) == 0) found.emplace_back(name(verb));
  }
  if (space.live_max >= kPairsLiveMin) add_missing_pairs(coverage, verbs, found);
  for (const EdgeRow& row : kEdgeRows) {
    if (row.applies(space) && coverage.of(row.edge) == 0) found.emplace_back(row.name);
  }
  return found;
}

}  // namespace kvcheck
