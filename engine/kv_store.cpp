// SPDX-License-Identifier: MIT
// Storage, poison and guards.
#include "engine/kv_store.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>
#include <utility>

#include "engine/counted.h"
#include "engine/error.h"

namespace kvcheck {
namespace {

template <Scalar T>
struct BitsOf;
template <>
struct BitsOf<float> {
  using Type = std::uint32_t;
};
template <>
struct BitsOf<double> {
  using Type = std::uint64_t;
};
template <>
struct BitsOf<Counted> {
  using Type = std::uint64_t;
};

// All bits set: NaN in every scalar and in every row format.
template <Scalar T>
const T kPoison = std::bit_cast<T>(static_cast<typename BitsOf<T>::Type>(~0ULL));
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
  const auto holds = [&](const T* at) {
    using Bits = typename BitsOf<T>::Type;
    Bits different = 0;
    for (std::ptrdiff_t i = 0; i < guard; ++i) {
      different |= std::bit_cast<Bits>(at[i]) ^ std::bit_cast<Bits>(kPattern<T>);
    }
    return different == 0;
  };
  return holds(storage.data()) && holds(storage.data() + storage.size() - guard);
}

template <Scalar T>
bool all_poison(const T* at, std::ptrdiff_t count) {
  return std::all_of(at, at + count, [](T value) {
    return std::bit_cast<typename BitsOf<T>::Type>(value) ==
           std::bit_cast<typename BitsOf<T>::Type>(kPoison<T>);
  });
}

template <Scalar T>
std::ptrdiff_t memory_of_row(RowFormat format, int row) {
  const auto bytes = row_bytes<T>(format, row);
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(T));
  return static_cast<std::ptrdiff_t>((bytes + kSize - 1) / kSize);
}

}  // namespace

template <Scalar T>
KvStore<T>::KvStore(std::vector<int> slots, int row, RowFormat format)
    : row_(row), format_(format), stride_(memory_of_row<T>(format, row)) {
  lay_out(slots);
}

template <Scalar T>
void KvStore<T>::lay_out(const std::vector<int>& slots) {
  slots_ = slots;
  first_.clear();
  std::ptrdiff_t all = 0;
  for (const int count : slots_) {
    first_.push_back(all);
    all += count;
  }
  keys_ = guarded<T>(kGuard, all * stride_);
  values_ = guarded<T>(kGuard, all * stride_);
}

template <Scalar T>
std::int64_t KvStore<T>::row_bytes() const {
  return 2 * kvcheck::row_bytes<T>(format_, row_);
}

template <Scalar T>
void KvStore<T>::write(int layer, int slot, const T* key, const T* value) {
  const auto width = static_cast<std::size_t>(row_);
  encode<T>(format_, {key, width}, reinterpret_cast<std::byte*>(this->key(layer, slot)));
  encode<T>(format_, {value, width}, reinterpret_cast<std::byte*>(this->value(layer, slot)));
}

template <Scalar T>
void KvStore<T>::read(int layer, int slot, T* key, T* value) const {
  const auto width = static_cast<std::size_t>(row_);
  decode<T>(format_, reinterpret_cast<const std::byte*>(this->key(layer, slot)), {key, width});
  decode<T>(format_, reinterpret_cast<const std::byte*>(this->value(layer, slot)), {value, width});
}

template <Scalar T>
void KvStore<T>::copy(const KvStore& from, int layer, int from_slot, int to_slot, int count) {
  require(stride_ == from.stride_ && format_ == from.format_, "rows of one kind are copied");
  const auto bytes = static_cast<std::size_t>(count * stride_) * sizeof(T);
  std::memmove(key(layer, to_slot), from.key(layer, from_slot), bytes);
  std::memmove(value(layer, to_slot), from.value(layer, from_slot), bytes);
}

template <Scalar T>
void KvStore<T>::poison(int layer, int first, int count) {
  std::fill_n(key(layer, first), count * stride_, kPoison<T>);
  std::fill_n(value(layer, first), count * stride_, kPoison<T>);
}

template <Scalar T>
bool KvStore<T>::poisoned(int layer, int first, int count) const {
  return all_poison(key(layer, first), count * stride_) &&
         all_poison(value(layer, first), count * stride_);
}

template <Scalar T>
bool KvStore<T>::holds(int layer, int slot) const {
  return !all_poison(key(layer, slot), stride_) && !all_poison(value(layer, slot), stride_);
}

template <Scalar T>
void KvStore<T>::grow(const std::vector<int>& slots) {
  KvStore bigger(slots, row_, format_);
  for (int l = 0; l < layers(); ++l) bigger.copy(*this, l, 0, 0, this->slots(l));
  *this = std::move(bigger);
}

template <Scalar T>
bool KvStore<T>::guards_intact() const {
  return guard_holds(keys_, kGuard) && guard_holds(values_, kGuard);
}

template class KvStore<float>;
template class KvStore<double>;
template class KvStore<Counted>;

}  // namespace kvcheck
