// SPDX-License-Identifier: MIT
// Storage, poison and guards of the flat cache.
#include "engine/kv_cache.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/error.h"

namespace kvcheck {
namespace {

template <Scalar T>
constexpr T kPoison = std::numeric_limits<T>::quiet_NaN();
// Any number that no computation gives by chance and that is exact in every scalar.
template <Scalar T>
constexpr T kPattern = T(-1234.5);

template <Scalar T>
AlignedVector<T> guarded(std::ptrdiff_t guard, std::ptrdiff_t scalars) {
  AlignedVector<T> storage(static_cast<std::size_t>(scalars + 2 * guard), kPoison<T>);
  std::fill_n(storage.begin(), guard, kPattern<T>);
  std::fill_n(storage.end() - guard, guard, kPattern<T>);
  return storage;
}

template <Scalar T>
bool guard_holds(const AlignedVector<T>& storage, std::ptrdiff_t guard) {
  const T* const front = storage.data();
  const T* const back = front + storage.size() - guard;
  bool holds = true;  // without leaving early, so that it takes a few vector comparisons
  for (std::ptrdiff_t i = 0; i < guard; ++i) {
    holds &= front[i] == kPattern<T> && back[i] == kPattern<T>;
  }
  return holds;
}

}  // namespace

template <Scalar T>
KvCache<T>::KvCache(const Config& config)
    : layers_(config.layers),
      capacity_(config.context),
      row_(config.kv_width()),
      keys_(guarded<T>(kGuard, row_ * capacity_ * layers_)),
      values_(guarded<T>(kGuard, row_ * capacity_ * layers_)) {}

template <Scalar T>
std::int64_t KvCache<T>::bytes(int rows) const {
  // From what was allocated, not from the formula that it is checked against.
  const auto scalars = static_cast<std::int64_t>(keys_.size() + values_.size()) - 4 * kGuard;
  return scalars / capacity_ * rows * static_cast<std::int64_t>(sizeof(T));
}

template <Scalar T>
void KvCache<T>::truncate(int length) {
  require(length >= 0 && length <= length_, "a cache truncates to at most its length");
  poison(length);
  length_ = length;
}

template <Scalar T>
void KvCache<T>::poison(int from) {
  // To the end, not only to the length: a wrong plan may have written anywhere.
  const std::ptrdiff_t count = (capacity_ - from) * row_;
  for (int l = 0; l < layers_; ++l) {
    std::fill_n(key(l, from), count, kPoison<T>);
    std::fill_n(value(l, from), count, kPoison<T>);
  }
}

template <Scalar T>
void KvCache<T>::copy_from(const KvCache& other) {
  require(capacity_ == other.capacity_ && row_ == other.row_, "caches of one shape are copied");
  if (other.length_ < length_) truncate(other.length_);
  for (int l = 0; l < layers_; ++l) {
    std::copy_n(other.key(l, 0), other.length_ * row_, key(l, 0));
    std::copy_n(other.value(l, 0), other.length_ * row_, value(l, 0));
  }
  length_ = other.length_;
}

template <Scalar T>
bool KvCache<T>::guards_intact() const {
  return guard_holds(keys_, kGuard) && guard_holds(values_, kGuard);
}

template <Scalar T>
bool KvCache<T>::poison_intact() const {
  const auto poisoned = [](T value) { return std::isnan(value); };
  const std::ptrdiff_t count = (capacity_ - length_) * row_;
  for (int l = 0; l < layers_; ++l) {
    const T* k = keys_.data() + offset(l, length_);
    const T* v = values_.data() + offset(l, length_);
    if (!std::all_of(k, k + count, poisoned) || !std::all_of(v, v + count, poisoned)) return false;
  }
  return true;
}

template class KvCache<float>;
template class KvCache<double>;

}  // namespace kvcheck
