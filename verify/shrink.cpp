// SPDX-License-Identifier: MIT
// Simpler sequences: first edited as plain lists, then made valid again in one pass that renumbers
// what is left and drops what has lost its meaning.
#include "verify/shrink.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "verify/token_log.h"

namespace kvcheck {
namespace {

// ---- What is simpler

// Fewer and plainer operations first, then lower numbers. Every accepted candidate has less of it,
// so shrinking ends.
struct Weight {
  std::int64_t parts = 0;
  std::int64_t numbers = 0;

  bool operator<(const Weight& other) const {
    return std::tie(parts, numbers) < std::tie(other.parts, other.numbers);
  }
};

// A batch weighs more than its feeds, a copy more than an empty sequence.
std::int64_t parts_of(const Operation& o) {
  const auto count = static_cast<std::int64_t>(o.sequences.size());
  if (o.verb == Verb::batch) return 1 + 2 * count;
  if (o.verb == Verb::reorder) return 2 + count;
  const bool copies = o.verb == Verb::prompt || o.verb == Verb::fork || o.verb == Verb::load;
  return copies ? 3 : 2;
}

Weight weight(const Operations& operations) {
  Weight sum;
  for (const Operation& o : operations) {
    sum.parts += parts_of(o);
    for (const int number : o.numbers) sum.numbers += number;
  }
  return sum;
}

// ---- Making a list valid again

constexpr int kGone = -1;

int at(const std::vector<int>& values, int i) { return values[static_cast<std::size_t>(i)]; }

struct Move {
  int target;
  int source;
};

// A sequence whose source does not take part keeps what it holds.
Operation reorder_of(const std::vector<Move>& moves) {
  Operation o{Verb::reorder, {}, {}};
  for (const Move& move : moves) o.sequences.push_back(move.target);
  for (const Move& move : moves) {
    auto found = std::find(o.sequences.begin(), o.sequences.end(), move.source);
    if (found == o.sequences.end()) {
      found = std::find(o.sequences.begin(), o.sequences.end(), move.target);
    }
    o.numbers.push_back(static_cast<int>(found - o.sequences.begin()));
  }
  return o;
}

std::vector<Move> moves_of(const Operation& reorder) {
  std::vector<Move> moves;
  for (std::size_t i = 0; i < reorder.sequences.size(); ++i) {
    moves.push_back({reorder.sequences[i], at(reorder.sequences, reorder.numbers[i])});
  }
  return moves;
}

// What becomes of operations on a sequence that is no longer made.
enum class Orphans {
  dropped,
  moved,  // to the sequence that it would have been a copy of, or to the one made before it
};

class Rebuilder {
 public:
  Rebuilder(const OperationLimits& limits, Orphans orphans) : orphans_(orphans), log_(limits) {}

  void keep(const Operation& o) {
    std::optional<Operation> here = renumbered(o);
    if (here) fit(*here);
    if (!here || log_.why_not(*here)) return remove(o);
    const OperationStep step = log_.apply(*here);
    if (step.created) handles_.push_back(*step.created);
    if (o.verb == Verb::save) save(o, *step.saved);
    result_.push_back(*std::move(here));
  }

  void remove(const Operation& o) {
    if (makes_handle(o.verb)) handles_.push_back(stand_in(o));
    if (o.verb == Verb::save) save(o, kGone);
  }

  Operations take() { return std::move(result_); }

 private:
  void save(const Operation& o, int state) {
    states_.push_back(state);
    savers_.push_back(o.sequences[0]);
  }

  int stand_in(const Operation& o) const {
    if (orphans_ == Orphans::dropped) return kGone;
    if (o.verb == Verb::fork) return at(handles_, o.sequences[0]);
    if (o.verb == Verb::load) return at(handles_, at(savers_, o.numbers[0]));
    return handles_.empty() ? kGone : handles_.back();
  }

  std::optional<Operation> renumbered(const Operation& o) const {
    if (o.verb == Verb::batch) return renumbered_batch(o);
    if (o.verb == Verb::reorder) return renumbered_reorder(o);
    Operation here = o;
    for (int& handle : here.sequences) handle = at(handles_, handle);
    if (o.verb == Verb::load) here.numbers[0] = at(states_, o.numbers[0]);
    const auto is_gone = [](const std::vector<int>& values) {
      return std::find(values.begin(), values.end(), kGone) != values.end();
    };
    if (is_gone(here.sequences) || is_gone(here.numbers)) return std::nullopt;
    return here;
  }

  bool is_new(const Operation& o, int handle) const {
    return log_.is_live(handle) &&
           std::find(o.sequences.begin(), o.sequences.end(), handle) == o.sequences.end();
  }

  std::optional<Operation> renumbered_batch(const Operation& o) const {
    Operation here{Verb::batch, {}, {}};
    for (std::size_t i = 0; i < o.sequences.size(); ++i) {
      const int handle = at(handles_, o.sequences[i]);
      if (!is_new(here, handle) || log_.room(handle) == 0) continue;
      here.sequences.push_back(handle);
      here.numbers.push_back(o.numbers[i]);
    }
    return here;
  }

  std::optional<Operation> renumbered_reorder(const Operation& o) const {
    Operation targets{Verb::reorder, {}, {}};
    std::vector<Move> moves;
    for (const Move& move : moves_of(o)) {
      const int target = at(handles_, move.target);
      if (!is_new(targets, target)) continue;
      targets.sequences.push_back(target);
      moves.push_back({target, at(handles_, move.source)});
    }
    return reorder_of(moves);
  }

  // Cuts numbers to what is held and what has room.
  void fit(Operation& o) const {
    std::vector<int>& n = o.numbers;
    if (o.sequences.empty() || !log_.is_live(o.sequences[0])) return;
    const int length = log_.length(o.sequences[0]);
    switch (o.verb) {
      case Verb::feed:
      case Verb::batch:
        for (std::size_t i = 0; i < n.size(); ++i) n[i] = std::min(n[i], log_.room(o.sequences[i]));
        break;
      case Verb::prompt:
        n[0] = std::min(n[0], log_.told_length(o.sequences[1]));
        n[1] = std::min(n[1], log_.limits().context - n[0]);
        break;
      case Verb::truncate:
        n[0] = std::min(n[0], length);
        break;
      case Verb::shift:
        n[1] = std::min(n[1], length - 1);
        break;
      case Verb::evict:
        n[1] = std::min(n[1], length - 1 - n[0]);
        break;
      default:
        break;
    }
  }

  Orphans orphans_;
  TokenLog log_;
  Operations result_;
  std::vector<int> handles_;  // new number of each old handle
  std::vector<int> states_;   // new number of each old saved state
  std::vector<int> savers_;   // old handle of each old saved state
};

// [begin, end) is left out.
struct Range {
  std::size_t begin;
  std::size_t end;
};

Operations rebuilt(const Operations& operations, const OperationLimits& limits,
                   Range removed = {0, 0}, Orphans orphans = Orphans::dropped) {
  Rebuilder rebuilder(limits, orphans);
  for (std::size_t i = 0; i < operations.size(); ++i) {
    if (removed.begin <= i && i < removed.end) {
      rebuilder.remove(operations[i]);
    } else {
      rebuilder.keep(operations[i]);
    }
  }
  return rebuilder.take();
}

// ---- Edits of one operation

// What may stand in its place.
std::vector<Operations> plainer(const Operation& o) {
  std::vector<Operations> found;
  if (o.verb == Verb::prompt) {
    for (const int count : {std::max(1, o.numbers[1]), o.numbers[0] + o.numbers[1]}) {
      found.push_back({{Verb::feed, {o.sequences[0]}, {count}}});
    }
  }
  if (o.verb == Verb::fork || o.verb == Verb::load) found.push_back({{Verb::open, {}, {}}});
  if (o.verb == Verb::batch) {
    Operations feeds;
    for (std::size_t i = 0; i < o.sequences.size(); ++i) {
      feeds.push_back({Verb::feed, {o.sequences[i]}, {o.numbers[i]}});
    }
    found.push_back(std::move(feeds));
  }
  for (std::size_t i = 0; o.sequences.size() > 1 && i < o.sequences.size(); ++i) {
    Operation less = o;
    if (o.verb == Verb::batch) {
      less.sequences.erase(less.sequences.begin() + static_cast<std::ptrdiff_t>(i));
      less.numbers.erase(less.numbers.begin() + static_cast<std::ptrdiff_t>(i));
    } else if (o.verb == Verb::reorder) {
      std::vector<Move> moves = moves_of(o);
      moves.erase(moves.begin() + static_cast<std::ptrdiff_t>(i));
      less = reorder_of(moves);
    } else {
      break;
    }
    found.push_back({less});
  }
  return found;
}

int least(const Operation& o, std::size_t i) {
  switch (o.verb) {
    case Verb::feed:
    case Verb::batch:
      return 1;
    case Verb::prompt:
      return i == 0 ? 1 : 0;
    case Verb::shift:
      return i == 0 ? 0 : o.numbers[0] + 1;
    case Verb::evict:
      return i == 0 ? 0 : 1;
    default:
      return 0;
  }
}

// Lower numbers, the lowest first.
std::vector<int> lower(int number, int least) {
  std::vector<int> found;
  for (const int candidate : {least, least + (number - least) / 2, number - 1}) {
    if (candidate < number && candidate >= least && (found.empty() || candidate > found.back())) {
      found.push_back(candidate);
    }
  }
  return found;
}

// Lengths that are named after row `from` has become `less` rows shorter.
void lower_lengths(Operations& operations, std::size_t from, int less) {
  const auto reduce = [less](int& number) { number = std::max(0, number - less); };
  for (std::size_t i = from; i < operations.size(); ++i) {
    Operation& o = operations[i];
    if (o.verb == Verb::truncate || o.verb == Verb::evict) reduce(o.numbers[0]);
    if (o.verb != Verb::shift) continue;
    const int dropped = o.numbers[1] - o.numbers[0];
    reduce(o.numbers[0]);
    o.numbers[1] = o.numbers[0] + dropped;
  }
}

// ---- All candidates

class Simpler {
 public:
  using Visit = std::function<bool(const Operations&)>;

  Simpler(const Operations& operations, const OperationLimits& limits, const Visit& visit)
      : operations_(operations), limits_(limits), visit_(visit), weight_(weight(operations)) {}

  bool shorter() const {
    const std::size_t n = operations_.size();
    for (std::size_t size = (n + 1) / 2; size > 0; size = size == 1 ? 0 : (size + 1) / 2) {
      for (std::size_t end = n; end > 0; end -= std::min(end, size)) {
        const Range range{end - std::min(end, size), end};
        if (offer(rebuilt(operations_, limits_, range, Orphans::dropped))) return true;
        if (offer(rebuilt(operations_, limits_, range, Orphans::moved))) return true;
      }
    }
    return false;
  }

  bool joined() const {
    for (std::size_t i = 0; i + 1 < operations_.size(); ++i) {
      const Operation& first = operations_[i];
      const Operation& second = operations_[i + 1];
      const bool feeds = first.verb == Verb::feed && second.verb == Verb::feed;
      if (!feeds || first.sequences != second.sequences) continue;
      Operation both = first;
      both.numbers[0] += second.numbers[0];
      if (replace({i, i + 2}, {both})) return true;
    }
    return false;
  }

  bool plainer_ones() const {
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      for (const Operations& instead : plainer(operations_[i])) {
        if (replace({i, i + 1}, instead)) return true;
      }
    }
    return false;
  }

  bool lower_numbers() const {
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      const Operation& o = operations_[i];
      for (std::size_t k = 0; k < o.numbers.size(); ++k) {
        for (const int number : lower(o.numbers[k], least(o, k))) {
          if (set_number(i, k, number)) return true;
        }
      }
    }
    return false;
  }

 private:
  // Editing may leave things as they were, or simpler in one place and not in another.
  bool offer(const Operations& candidate) const {
    return weight(candidate) < weight_ && visit_(candidate);
  }

  bool replace(Range range, const Operations& instead) const {
    Operations edited = operations_;
    const auto begin = edited.begin() + static_cast<std::ptrdiff_t>(range.begin);
    const auto after =
        edited.erase(begin, begin + static_cast<std::ptrdiff_t>(range.end - range.begin));
    edited.insert(after, instead.begin(), instead.end());
    return offer(rebuilt(edited, limits_));
  }

  bool set_number(std::size_t i, std::size_t k, int number) const {
    Operations edited = operations_;
    edited[i].numbers[k] = number;
    if (offer(rebuilt(edited, limits_))) return true;
    // The lengths of later operations belong to that number: they go down with it. So does the end
    // of a range whose beginning goes down.
    const int less = operations_[i].numbers[k] - number;
    if (edited[i].verb == Verb::shift && k == 0) edited[i].numbers[1] -= less;
    lower_lengths(edited, i + 1, less);
    return offer(rebuilt(edited, limits_));
  }

  const Operations& operations_;
  const OperationLimits& limits_;
  const Visit& visit_;
  Weight weight_;
};

}  // namespace

bool each_simpler(const Operations& operations, const OperationLimits& limits,
                  const std::function<bool(const Operations&)>& visit) {
  const Simpler simpler(operations, limits, visit);
  return simpler.shorter() || simpler.joined() || simpler.plainer_ones() || simpler.lower_numbers();
}

Shrunk shrink(const Operations& operations,
              const std::function<bool(const Operations&)>& still_fails,
              const OperationLimits& limits, const ShrinkBudget& budget) {
  Shrunk result{.smallest = operations};
  std::set<std::string> tried{to_text(operations)};
  bool spent = false;
  const auto fails = [&](const Operations& candidate) {
    if (tried.contains(to_text(candidate))) return false;
    spent = result.tries >= budget.tries || std::chrono::steady_clock::now() >= budget.deadline;
    if (spent) return true;
    tried.insert(to_text(candidate));
    ++result.tries;
    return still_fails(candidate);
  };
  while (!spent) {
    Operations smaller;
    const bool found = each_simpler(result.smallest, limits, [&](const Operations& candidate) {
      if (!fails(candidate)) return false;
      smaller = candidate;
      return true;
    });
    result.complete = !found;
    if (!found || spent) break;
    result.smallest = std::move(smaller);
    ++result.accepted;
  }
  return result;
}

}  // namespace kvcheck
