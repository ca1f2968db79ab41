// SPDX-License-Identifier: MIT
// Caches with a store each: flat, growing, ring, and the reduced formats.
#include "engine/cache_pool.h"

#include <algorithm>
#include <utility>

#include "engine/error.h"

namespace kvcheck {
namespace {

template <Scalar T>
class SeparatePool final : public CachePool<T> {
 public:
  SeparatePool(const Config& config, const CacheKind& kind) : config_(config), kind_(kind) {}

  KvCache<T>& make() override {
    caches_.push_back(std::make_unique<KvCache<T>>(
        std::make_shared<KvStore<T>>(slots(first_capacity()), config_.kv_width(), kind_.format),
        rings()));
    return *caches_.back();
  }

  void reserve(std::span<const CacheFeed<T>> feeds) override {
    if (kind_.layout != CacheLayout::growing) return;
    for (const CacheFeed<T>& feed : feeds) {
      grow(*feed.cache, feed.cache->length() + static_cast<int>(feed.tokens.size()));
    }
  }

  void truncate(KvCache<T>& cache, int length) override {
    if (!cache.can_go_back(length)) {
      throw bad_input({"truncate", "rows that a ring has overwritten",
                       "a length from which all rows of the window are still held, or 0",
                       std::to_string(length)});
    }
    cache.truncate(length);
  }

  void copy(const KvCache<T>& from, KvCache<T>& to) override {
    grow(to, from.length());
    to.copy_from(from);
  }

  std::string complaint(const KvCache<T>& cache) const override {
    if (!cache.guards_intact()) return std::string(kGuardComplaint);
    return cache.poison_intact() ? "" : std::string(kPoisonComplaint);
  }

 private:
  [[nodiscard]] int first_capacity() const {
    return kind_.layout == CacheLayout::growing ? 1 : config_.context;
  }
  // Of each layer: the ring, or `capacity`.
  [[nodiscard]] std::vector<int> slots(int capacity) const {
    std::vector<int> slots = rings();
    slots.resize(static_cast<std::size_t>(config_.layers), 0);
    std::ranges::replace(slots, 0, capacity);
    return slots;
  }
  [[nodiscard]] std::vector<int> rings() const {
    if (kind_.layout != CacheLayout::ring) return {};
    std::vector<int> rings = config_.windows;
    for (int& ring : rings) ring = std::min(ring, config_.context);
    return rings;
  }
  void grow(KvCache<T>& cache, int rows) {
    int capacity = cache.capacity();
    if (rows <= capacity) return;
    while (capacity < rows) capacity *= 2;
    cache.store().grow(slots(std::min(capacity, config_.context)));
  }

  const Config config_;
  const CacheKind kind_;
  std::vector<std::unique_ptr<KvCache<T>>> caches_;
};

}  // namespace

template <Scalar T>
std::unique_ptr<CachePool<T>> make_pool(const Config& config, const CacheKind& kind) {
  switch (kind.layout) {
    case CacheLayout::paged:
      return make_paged_pool<T>(config, std::min(kind.block, config.context));
    case CacheLayout::padded_left:
      return make_padded_pool<T>(config, Padding::left);
    case CacheLayout::padded_right:
      return make_padded_pool<T>(config, Padding::right);
    case CacheLayout::flat:
    case CacheLayout::growing:
    case CacheLayout::ring:
      break;
  }
  return std::make_unique<SeparatePool<T>>(config, kind);
}

template std::unique_ptr<CachePool<float>> make_pool(const Config&, const CacheKind&);
template std::unique_ptr<CachePool<double>> make_pool(const Config&, const CacheKind&);

}  // namespace kvcheck
