// SPDX-License-Identifier: MIT
// The alphabet as a table, and the walk through all of its words.
#include "verify/exhaustive.h"

#include <algorithm>
#include <array>
#include <optional>

#include "engine/error.h"

namespace kvcheck {
namespace {

using Letter = std::optional<Operation>;

Letter feed_one(const TokenLog&, int h) { return Operation{Verb::feed, {h}, {1}}; }
Letter feed_two(const TokenLog&, int h) { return Operation{Verb::feed, {h}, {2}}; }

Letter truncate_by_one(const TokenLog& log, int h) {
  if (log.length(h) == 0) return std::nullopt;
  return Operation{Verb::truncate, {h}, {log.length(h) - 1}};
}

Letter truncate_to_zero(const TokenLog& log, int h) {
  if (log.length(h) == 0) return std::nullopt;
  return Operation{Verb::truncate, {h}, {0}};
}

Letter fork(const TokenLog&, int h) { return Operation{Verb::fork, {h}, {}}; }

Letter reset(const TokenLog& log, int h) {
  if (log.length(h) == 0) return std::nullopt;
  return Operation{Verb::reset, {h}, {}};
}

Letter close(const TokenLog&, int h) { return Operation{Verb::close, {h}, {}}; }
Letter save(const TokenLog&, int h) { return Operation{Verb::save, {h}, {}}; }
Letter shift_first(const TokenLog&, int h) { return Operation{Verb::shift, {h}, {0, 1}}; }
Letter evict_second(const TokenLog&, int h) { return Operation{Verb::evict, {h}, {1, 1}}; }

Letter prompt(const TokenLog& log, int h) {
  if (log.length(h) > 0) return std::nullopt;
  for (int g = 0; g < log.handles(); ++g) {
    const int told = log.told_length(g);
    if (g == h || told == 0) continue;
    return Operation{Verb::prompt, {h, g}, {told, told < log.limits().context ? 1 : 0}};
  }
  return std::nullopt;
}

constexpr std::array kLettersOfOne{feed_one, feed_two,    truncate_by_one, truncate_to_zero,
                                   prompt,   fork,        reset,           close,
                                   save,     shift_first, evict_second};

Operations letters_of_all(const TokenLog& log) {
  Operations letters{{Verb::open, {}, {}}};
  if (log.saved() > 0) letters.push_back({Verb::load, {}, {log.saved() - 1}});
  const std::vector<int> live = log.live();
  if (live.size() < 2) return letters;
  const std::vector<int> two{live[0], live[1]};
  letters.push_back({Verb::batch, two, {1, 2}});
  letters.push_back({Verb::reorder, two, {1, 0}});
  letters.push_back({Verb::reorder, two, {1, 1}});
  return letters;
}

class Walk {
 public:
  Walk(const OperationSpace& space, const EnterSequence& enter) : space_(space), enter_(enter) {}

  void below(const TokenLog& log, int depth) {
    if (depth == 0) return;
    for (const Operation& operation : alphabet_at(log, space_)) {
      TokenLog after = log;
      after.apply(operation);
      path_.push_back(operation);
      if (enter_(path_, after)) below(after, depth - 1);
      path_.pop_back();
    }
  }

 private:
  const OperationSpace& space_;
  const EnterSequence& enter_;
  Operations path_;
};

}  // namespace

Operations alphabet_at(const TokenLog& log, const OperationSpace& space) {
  Operations found;
  const std::vector<int> live = log.live();
  const bool full = static_cast<int>(live.size()) >= space.live_max;
  const auto add = [&](const Operation& operation) {
    if (full && makes_handle(operation.verb)) return;
    if (log.why_not(operation)) return;
    if (std::find(found.begin(), found.end(), operation) == found.end()) {
      found.push_back(operation);
    }
  };
  for (const int handle : live) {
    for (const auto& letter : kLettersOfOne) {
      if (const Letter operation = letter(log, handle)) add(*operation);
    }
  }
  for (const Operation& operation : letters_of_all(log)) add(operation);
  return found;
}

void each_sequence(const OperationSpace& space, int depth, const EnterSequence& enter) {
  require(depth >= 1, "a walk has at least one step");
  Walk(space, enter).below(TokenLog(space.limits), depth);
}

std::uint64_t count_sequences(const OperationSpace& space, int depth, std::uint64_t most) {
  std::uint64_t count = 0;
  // Beyond the limit nothing is entered any deeper, so what is left is short.
  const auto enter = [&](const Operations&, const TokenLog&) { return ++count <= most; };
  each_sequence(space, depth, enter);
  return std::min(count, most + 1);
}

}  // namespace kvcheck
