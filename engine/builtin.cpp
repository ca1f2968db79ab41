// SPDX-License-Identifier: MIT
// Sequences, and what is verified around every step of the built-in engine.
#include "engine/builtin.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "engine/error.h"

namespace kvcheck {

template <Scalar T>
Builtin<T>::Builtin(const Model<float>& model, Arithmetic arithmetic)
    : hello_{.name = "builtin",
             .vocabulary = model.config.vocabulary,
             .context = model.config.context,
             .compute = std::is_same_v<T, float> ? ScalarKind::f32 : ScalarKind::f64,
             .fork = true,
             .batch = true},
      model_(cast<T>(model)),
      uncached_(model_, ops_for<T>(arithmetic)),
      cached_(model_, ops_for<T>(arithmetic)) {}

template <Scalar T>
void Builtin<T>::full(const TokenBlock& block, Rows rows, Logits& out) {
  copy_rows(uncached_.logits(block, rows), out);
}

template <Scalar T>
SequenceId Builtin<T>::open() {
  if (free_.empty()) {
    caches_.push_back(std::make_unique<KvCache<T>>(model_.config));
    open_.push_back(true);
    next_position_.push_back(0);
    return static_cast<SequenceId>(caches_.size()) - 1;
  }
  const SequenceId sequence = free_.back();
  free_.pop_back();
  open_[static_cast<std::size_t>(sequence)] = true;
  next_position_[static_cast<std::size_t>(sequence)] = 0;
  return sequence;
}

template <Scalar T>
void Builtin<T>::close(SequenceId sequence) {
  cache(sequence).truncate(0);
  open_[static_cast<std::size_t>(sequence)] = false;
  free_.push_back(sequence);
}

template <Scalar T>
void Builtin<T>::feed(SequenceId sequence, std::span<const int> tokens, Rows rows, Logits& out) {
  const Feed one{sequence, tokens};
  batch(std::span<const Feed>(&one, 1), rows, out);
}

template <Scalar T>
void Builtin<T>::batch(std::span<const Feed> feeds, Rows rows, Logits& out) {
  feeds_.clear();
  for (const Feed& feed : feeds) {
    KvCache<T>* const fed = &cache(feed.sequence);
    const auto twice = [&](const CacheFeed<T>& other) { return other.cache == fed; };
    if (std::ranges::any_of(feeds_, twice)) {
      throw bad_input(
          {"batch", "a sequence twice", "each sequence once", fmt::format("{}", feed.sequence)});
    }
    feeds_.push_back({fed, feed.tokens});
  }
  copy_rows(cached_.feed(feeds_, rows, observer_ ? &observer_ : nullptr), out);
  for (const PlannedRow& row : cached_.plan().rows) {
    const SequenceId sequence = feeds[static_cast<std::size_t>(row.sequence)].sequence;
    next_position_[static_cast<std::size_t>(sequence)] = row.position + 1;
  }
  for (const Feed& feed : feeds) check_guards(feed.sequence);
}

template <Scalar T>
void Builtin<T>::truncate(SequenceId sequence, int length) {
  KvCache<T>& rows = cache(sequence);
  if (length < 0 || length > rows.length()) {
    throw bad_input(
        {"truncate", "length", fmt::format("0 to {}", rows.length()), fmt::format("{}", length)});
  }
  rows.truncate(length);
  next_position_[static_cast<std::size_t>(sequence)] = length;
}

template <Scalar T>
SequenceId Builtin<T>::fork(SequenceId sequence) {
  const KvCache<T>& parent = cache(sequence);  // before open(), which may hand out this very id
  const SequenceId child = open();
  cache(child).copy_from(parent);
  next_position_[static_cast<std::size_t>(child)] =
      next_position_[static_cast<std::size_t>(sequence)];
  return child;
}

template <Scalar T>
Held Builtin<T>::held(SequenceId sequence) const {
  const KvCache<T>& rows = cache(sequence);
  check_guards(sequence);
  if (!rows.poison_intact()) {
    throw EngineError(
        fmt::format("builtin: sequence {}: a row that is not held was written", sequence));
  }
  return {rows.length(), next_position_[static_cast<std::size_t>(sequence)],
          rows.bytes(rows.length())};
}

template <Scalar T>
KvCache<T>& Builtin<T>::cache(SequenceId sequence) {
  return const_cast<KvCache<T>&>(std::as_const(*this).cache(sequence));  // NOLINT: one look-up
}

template <Scalar T>
const KvCache<T>& Builtin<T>::cache(SequenceId sequence) const {
  const auto s = static_cast<std::size_t>(sequence);
  if (sequence < 0 || s >= caches_.size() || !open_[s]) {
    throw bad_input({"sequence", "not open", "an open sequence", fmt::format("{}", sequence)});
  }
  return *caches_[s];
}

template <Scalar T>
void Builtin<T>::check_guards(SequenceId sequence) const {
  if (cache(sequence).guards_intact()) return;
  throw EngineError(
      fmt::format("builtin: sequence {}: memory around the cache was overwritten", sequence));
}

template class Builtin<float>;
template class Builtin<double>;

std::unique_ptr<Engine> make_builtin(const Model<float>& model, ScalarKind scalar,
                                     Arithmetic arithmetic) {
  if (scalar == ScalarKind::f32) return std::make_unique<Builtin<float>>(model, arithmetic);
  return std::make_unique<Builtin<double>>(model, arithmetic);
}

}  // namespace kvcheck
