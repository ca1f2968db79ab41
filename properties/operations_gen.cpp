// SPDX-License-Identifier: MIT
// A sequence is written operation by operation beside its token log: which verbs are possible is
// read off the log, which one is taken is drawn by weight.
#include "properties/operations_gen.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <ostream>
#include <utility>
#include <vector>

#include "engine/error.h"
#include "engine/random.h"
#include "verify/operation_coverage.h"
#include "verify/shrink.h"
#include "verify/token_log.h"

namespace kvcheck {
namespace {

// RapidCheck's generator of bits. Values are taken from it directly: an rc::Gen for every number
// would cost more than the whole sequence.
class Choices {
 public:
  explicit Choices(const rc::Random& random) : random_(random) {}

  // In [0, n).
  int below(int n) {
    return static_cast<int>(((random_.next() >> 32) * static_cast<std::uint64_t>(n)) >> 32);
  }
  int in(IntRange range) { return range.low + below(range.high - range.low + 1); }
  bool one_in(int n) { return below(n) == 0; }
  int of(const std::vector<int>& values) {
    return values[static_cast<std::size_t>(below(static_cast<int>(values.size())))];
  }

 private:
  rc::Random random_;
};

// The lengths that are aimed at, wherever they fit.
std::vector<int> edges_of(const OperationSpace& space) {
  const int context = space.limits.context;
  std::vector<int> edges{context - 1, context};
  const auto add_around = [&](int size) {
    for (const int edge : {size - 1, size, size + 1}) {
      if (size > 0 && 1 <= edge && edge < context) edges.push_back(edge);
    }
  };
  add_around(space.window);
  add_around(2 * space.window);
  add_around(space.block);
  add_around(2 * space.block);
  return edges;
}

class Writer {
 public:
  Writer(const OperationSpace& space, const rc::Random& random)
      : space_(space), choices_(random), log_(space.limits), edges_(edges_of(space)) {
    require(space.operations_max >= 1 && space.live_max >= 1 && possible(Verb::open, space),
            "the first operation is an open");
  }

  Operations write() {
    const int count = length();
    while (static_cast<int>(written_.size()) < count) {
      std::optional<Operation> operation = next();
      if (!operation) break;
      log_.apply(*operation);
      live_ = log_.live();
      written_.push_back(*std::move(operation));
    }
    return std::move(written_);
  }

 private:
  struct Rule {
    Verb verb;
    int weight;
    bool (Writer::*possible)() const;
    Operation (Writer::*make)();
  };
  static const std::array<Rule, kVerbs> kRules;

  // Three in four are long: three quarters of the most and more.
  int length() {
    const int most = space_.operations_max;
    return choices_.one_in(4) ? choices_.in({1, most})
                              : choices_.in({std::max(1, most * 3 / 4), most});
  }

  // None where nothing is left to do, as in full sequences that cannot be closed.
  std::optional<Operation> next() {
    std::array<int, kVerbs> weights{};
    int sum = 0;
    for (std::size_t i = 0; i < kRules.size(); ++i) {
      const Rule& rule = kRules[i];
      if (possible(rule.verb, space_) && (this->*rule.possible)()) weights[i] = rule.weight;
      sum += weights[i];
    }
    if (sum == 0) return std::nullopt;
    int drawn = choices_.below(sum);
    std::size_t i = 0;
    while (drawn >= weights[i]) drawn -= weights[i++];
    return (this->*kRules[i].make)();
  }

  // ---- Which sequence

  bool has_length(int handle, int least) const { return log_.length(handle) >= least; }
  bool has_room(int handle) const { return log_.room(handle) > 0; }
  bool may_open() const { return static_cast<int>(live_.size()) < space_.live_max; }

  template <typename Predicate>
  int count(Predicate predicate) const {
    return static_cast<int>(std::count_if(live_.begin(), live_.end(), predicate));
  }
  // Each open one for which it holds alike.
  template <typename Predicate>
  int pick(Predicate predicate) {
    int skip = choices_.below(count(predicate));
    return *std::find_if(live_.begin(), live_.end(),
                         [&](int handle) { return predicate(handle) && skip-- == 0; });
  }
  int pick_held() {
    return pick([this](int h) { return has_length(h, 1); });
  }

  // ---- How much

  // In the range, which holds a value: half of them give `offset` + value at an edge, as far as one
  // can be reached; a quarter are the lowest or its neighbour.
  int amount(IntRange range, int offset) {
    if (range.high <= range.low) return range.low;
    const int kind = choices_.below(4);
    if (kind == 0) return range.low + choices_.below(2);
    if (kind == 1) return choices_.in(range);
    const auto reached = [&](int edge) {
      return range.low <= edge - offset && edge - offset <= range.high;
    };
    const auto n = std::count_if(edges_.begin(), edges_.end(), reached);
    if (n == 0) return choices_.in(range);
    int skip = choices_.below(static_cast<int>(n));
    return *std::find_if(edges_.begin(), edges_.end(), [&](int edge) {
      return reached(edge) && skip-- == 0;
    }) - offset;
  }

  int feed_amount(int handle) { return amount({1, log_.room(handle)}, log_.length(handle)); }

  // ---- The verbs

  bool may_feed() const {
    return count([this](int h) { return has_room(h); }) >= 1;
  }
  bool may_batch() const {
    return count([this](int h) { return has_room(h); }) >= 2;
  }
  bool may_use_held() const {
    return count([this](int h) { return has_length(h, 1); }) >= 1;
  }
  bool may_drop() const {
    return count([this](int h) { return has_length(h, 2); }) >= 1;
  }
  bool may_fork() const { return may_open() && may_use_held(); }
  bool may_load() const { return may_open() && log_.saved() > 0; }
  bool may_close() const { return !live_.empty(); }
  bool may_reorder() const { return live_.size() >= 2 && may_use_held(); }
  bool may_prompt() const {
    return count([this](int h) { return !has_length(h, 1); }) >= 1 && !told().empty();
  }

  std::vector<int> told() const {
    std::vector<int> found;
    for (int g = 0; g < log_.handles(); ++g) {
      if (log_.told_length(g) > 0) found.push_back(g);
    }
    return found;
  }

  Operation open() { return {Verb::open, {}, {}}; }

  Operation feed() {
    const int h = pick([this](int handle) { return has_room(handle); });
    return {Verb::feed, {h}, {feed_amount(h)}};
  }

  // A third share all that there is, and a third of these have nothing of their own: then a cache
  // that holds every row must still answer.
  Operation prompt() {
    const int h = pick([this](int handle) { return !has_length(handle, 1); });
    const int g = choices_.of(told());
    const int most = log_.told_length(g);
    const int copied = choices_.one_in(3) ? most : amount({1, most}, 0);
    const int room = space_.limits.context - copied;
    const bool none = room == 0 || choices_.one_in(3);
    return {Verb::prompt, {h, g}, {copied, none ? 0 : amount({1, room}, copied)}};
  }

  Operation batch() {
    const auto roomy = [this](int handle) { return has_room(handle); };
    std::vector<int> handles;
    std::copy_if(live_.begin(), live_.end(), std::back_inserter(handles), roomy);
    shuffle(handles);
    handles.resize(static_cast<std::size_t>(choices_.in({2, static_cast<int>(handles.size())})));
    Operation o{Verb::batch, std::move(handles), {}};
    for (const int h : o.sequences) o.numbers.push_back(feed_amount(h));
    return o;
  }

  // Half of them go to the ends: nothing, one row, one row less, all.
  Operation truncate() {
    const int h = pick_held();
    const int length = log_.length(h);
    if (choices_.one_in(2)) return {Verb::truncate, {h}, {amount({0, length}, 0)}};
    const std::array<int, 4> ends{0, 1, length - 1, length};
    return {Verb::truncate, {h}, {ends[static_cast<std::size_t>(choices_.below(4))]}};
  }

  Operation fork() { return {Verb::fork, {pick_held()}, {}}; }

  Operation reorder() {
    Operation o{Verb::reorder, live_, {}};
    shuffle(o.sequences);
    const int count = choices_.in({2, static_cast<int>(live_.size())});
    o.sequences.resize(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) o.numbers.push_back(choices_.below(count));
    return o;
  }

  Operation reset() { return {Verb::reset, {pick_held()}, {}}; }
  Operation close() { return {Verb::close, {choices_.of(live_)}, {}}; }
  Operation save() { return {Verb::save, {pick_held()}, {}}; }
  Operation load() { return {Verb::load, {}, {choices_.below(log_.saved())}}; }

  // The row behind the dropped ones stays.
  Operation drop(Verb verb) {
    const int h = pick([this](int handle) { return has_length(handle, 2); });
    const int last = log_.length(h) - 1;
    const int from = amount({0, last - 1}, 0);
    const int count = amount({1, last - from}, 0);
    return {verb, {h}, {from, verb == Verb::shift ? from + count : count}};
  }
  Operation shift() { return drop(Verb::shift); }
  Operation evict() { return drop(Verb::evict); }

  void shuffle(std::vector<int>& values) {
    for (std::size_t i = values.size(); i > 1; --i) {
      std::swap(values[i - 1],
                values[static_cast<std::size_t>(choices_.below(static_cast<int>(i)))]);
    }
  }

  const OperationSpace& space_;
  Choices choices_;
  TokenLog log_;
  std::vector<int> edges_;
  std::vector<int> live_;
  Operations written_;
};

// Prompts are seldom possible, so they are likely where they are.
const std::array<Writer::Rule, kVerbs> Writer::kRules{{
    {Verb::open, 2, &Writer::may_open, &Writer::open},
    {Verb::feed, 8, &Writer::may_feed, &Writer::feed},
    {Verb::prompt, 10, &Writer::may_prompt, &Writer::prompt},
    {Verb::batch, 6, &Writer::may_batch, &Writer::batch},
    {Verb::truncate, 6, &Writer::may_use_held, &Writer::truncate},
    {Verb::fork, 5, &Writer::may_fork, &Writer::fork},
    {Verb::reorder, 4, &Writer::may_reorder, &Writer::reorder},
    {Verb::reset, 2, &Writer::may_use_held, &Writer::reset},
    {Verb::close, 3, &Writer::may_close, &Writer::close},
    {Verb::save, 2, &Writer::may_use_held, &Writer::save},
    {Verb::load, 7, &Writer::may_load, &Writer::load},
    {Verb::shift, 2, &Writer::may_drop, &Writer::shift},
    {Verb::evict, 2, &Writer::may_drop, &Writer::evict},
}};

rc::Seq<Operations> simpler(const Operations& operations, const OperationLimits& limits) {
  std::vector<Operations> all;
  each_simpler(operations, limits, [&](const Operations& candidate) {
    all.push_back(candidate);
    return false;
  });
  return rc::seq::fromContainer(std::move(all));
}

}  // namespace

rc::Gen<Operations> any_operations(const OperationSpace& space) {
  const auto draw = [space](const rc::Random& random, int) {
    return rc::shrinkable::shrinkRecur(
        Writer(space, random).write(),
        [limits = space.limits](const Operations& o) { return simpler(o, limits); });
  };
  return rc::Gen<Operations>(draw);
}

Operations random_operations(const OperationSpace& space, std::uint64_t seed, std::uint64_t index) {
  static const std::uint64_t kStream = stream_of("random operations");
  rc::Random::Key key;
  for (std::size_t i = 0; i < key.size(); ++i) key[i] = hash(seed, kStream + i, index);
  constexpr int kAnySize = 100;
  return any_operations(space)(rc::Random(key), kAnySize).value();
}

std::ostream& operator<<(std::ostream& out, const Operation& operation) {
  return out << to_text(operation);
}

}  // namespace kvcheck
