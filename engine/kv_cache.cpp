// SPDX-License-Identifier: MIT
// The rows of a sequence.
#include "engine/kv_cache.h"

#include <algorithm>
#include <utility>

#include "engine/counted.h"
#include "engine/error.h"

namespace kvcheck {

template <Scalar T>
KvCache<T>::KvCache(const Config& config)
    : KvCache(std::make_shared<KvStore<T>>(
                  std::vector<int>(static_cast<std::size_t>(config.layers), config.context),
                  config.kv_width(), RowFormat::native),
              {}) {}

template <Scalar T>
KvCache<T>::KvCache(std::shared_ptr<KvStore<T>> store, std::vector<int> rings)
    : store_(std::move(store)), rings_(std::move(rings)) {}

template <Scalar T>
int KvCache<T>::capacity() const {
  int most = 0;
  for (int l = 0; l < store_->layers(); ++l) most = std::max(most, store_->slots(l));
  return most;
}

template <Scalar T>
std::int64_t KvCache<T>::bytes(int rows) const {
  // From what was allocated, not from the formula that it is checked against.
  std::int64_t all = 0;
  for (int l = 0; l < store_->layers(); ++l) all += ring(l) > 0 ? std::min(rows, ring(l)) : rows;
  return all * store_->row_bytes();
}

template <Scalar T>
int KvCache<T>::slot(int layer, int row) const {
  if (ring(layer) > 0) return row % ring(layer);
  return slots_.empty() ? row : slots_[static_cast<std::size_t>(row)];
}

template <Scalar T>
int KvCache<T>::oldest_row(int layer) const {
  return ring(layer) == 0 ? 0 : std::min(length_, oldest(ring(layer)));
}

template <Scalar T>
int KvCache<T>::position(int row) const {
  return !numbered_ ? row : positions_[static_cast<std::size_t>(row)];
}

template <Scalar T>
void KvCache<T>::set_length(int length) {
  const int next = next_position_ + length - length_;
  if (numbered_) {
    for (int row = length_; row < length; ++row) positions_.push_back(next + row - length);
    positions_.resize(static_cast<std::size_t>(length));
  }
  if (!slots_.empty()) slots_.resize(static_cast<std::size_t>(length));
  length_ = length;
  next_position_ = next;
  peak_ = std::max(peak_, length);
}

template <Scalar T>
void KvCache<T>::renumber(std::vector<int> positions, int next_position) {
  numbered_ = true;
  positions_ = std::move(positions);
  next_position_ = next_position;
  tokens_.clear();
}

template <Scalar T>
void KvCache<T>::assume(const KvCache& other) {
  require(store_ == other.store_, "rows are shared within a store");
  *this = other;
}

template <Scalar T>
void KvCache<T>::forget(int length) {
  require(length >= 0 && length <= length_, "a cache truncates to at most its length");
  next_position_ = length == length_ ? next_position_ : length == 0 ? 0 : position(length - 1) + 1;
  if (numbered_) positions_.resize(static_cast<std::size_t>(length));
  if (!slots_.empty()) slots_.resize(static_cast<std::size_t>(length));
  if (static_cast<std::size_t>(length) < tokens_.size()) {
    tokens_.resize(static_cast<std::size_t>(length));
  }
  length_ = length;
  if (length == 0) {
    peak_ = 0;
    numbered_ = false;
    next_position_ = 0;
  }
}

template <Scalar T>
bool KvCache<T>::can_go_back(int length) const {
  if (length == 0) return true;
  // The row that is fed next sees ring - 1 rows before it.
  const auto holds = [&](int ring) {
    return ring == 0 || std::max(0, length - ring + 1) >= oldest(ring);
  };
  return std::ranges::all_of(rings_, holds);
}

template <Scalar T>
void KvCache<T>::truncate(int length) {
  require(length >= 0 && length <= length_, "a cache truncates to at most its length");
  for (int l = 0; l < store_->layers(); ++l) poison(l, length);
  forget(length);
}

template <Scalar T>
void KvCache<T>::poison(int layer, int from) {
  const int slots = store_->slots(layer);
  if (ring(layer) == 0 || from == 0) {
    // To the end, not only to the length: a wrong plan may have written anywhere.
    if (from < slots) store_->poison(layer, from, slots - from);
    return;
  }
  for (int row = from; row < length_; ++row) store_->poison(layer, slot(layer, row), 1);
}

template <Scalar T>
void KvCache<T>::copy_from(const KvCache& other) {
  const KvStore<T>& theirs = other.store();
  require(store_->layers() == theirs.layers() && store_->row() == theirs.row() &&
              rings_ == other.rings_,
          "caches of one shape are copied");
  for (int l = 0; l < store_->layers(); ++l) {
    require(ring(l) > 0 || other.length_ <= store_->slots(l), "a copy has room for the rows");
  }
  if (other.length_ < length_ || !rings_.empty()) truncate(rings_.empty() ? other.length_ : 0);
  for (int l = 0; l < store_->layers(); ++l) {
    store_->copy(theirs, l, 0, 0, ring(l) > 0 ? ring(l) : other.length_);
  }
  length_ = other.length_;
  next_position_ = other.next_position_;
  peak_ = other.peak_;
  numbered_ = other.numbered_;
  positions_ = other.positions_;
}

template <Scalar T>
bool KvCache<T>::poison_intact() const {
  for (int l = 0; l < store_->layers(); ++l) {
    if (!poison_intact(l)) return false;
  }
  return true;
}

template <Scalar T>
bool KvCache<T>::poison_intact(int layer) const {
  const int slots = store_->slots(layer);
  if (ring(layer) == 0) return store_->poisoned(layer, length_, slots - length_);
  std::vector<bool> held(static_cast<std::size_t>(slots), false);
  for (int row = oldest_row(layer); row < length_; ++row) {
    held[static_cast<std::size_t>(slot(layer, row))] = true;
  }
  for (int s = 0; s < slots; ++s) {
    if (!held[static_cast<std::size_t>(s)] && !store_->poisoned(layer, s, 1)) return false;
  }
  return true;
}

template class KvCache<float>;
template class KvCache<double>;
template class KvCache<Counted>;

}  // namespace kvcheck
