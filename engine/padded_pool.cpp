// SPDX-License-Identifier: MIT
// A padded batch: one store, a lane of columns for each sequence. A step takes as many columns as
// its longest feed has tokens, in every lane; a shorter feed leaves some empty before its rows
// (left padding) or after them (right). When the columns are used up, the rows of every lane are
// moved together.
#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/cache_pool.h"

namespace kvcheck {
namespace {

template <Scalar T>
class PaddedPool final : public CachePool<T> {
 public:
  // A step of a context's length fits after the rows of a full context were moved together.
  PaddedPool(const Config& config, Padding padding)
      : layers_(config.layers),
        columns_(2 * config.context),
        padding_(padding),
        store_(std::make_shared<KvStore<T>>(slots(1), config.kv_width(), RowFormat::native)),
        scratch_(slots(1), config.kv_width(), RowFormat::native) {}

  KvCache<T>& make() override {
    const int lane = static_cast<int>(caches_.size());
    const int lanes = store_->slots(0) / columns_;
    if (lane >= lanes) store_->grow(slots(2 * lanes));
    caches_.push_back(std::make_unique<KvCache<T>>(store_, std::vector<int>{}));
    caches_.back()->places() = {lane};
    return *caches_.back();
  }

  void reserve(std::span<const CacheFeed<T>> feeds) override {
    int longest = 0;
    for (const CacheFeed<T>& feed : feeds) {
      longest = std::max(longest, static_cast<int>(feed.tokens.size()));
    }
    if (longest_held() == 0) used_ = 0;
    if (used_ + longest > columns_) move_together();
    for (const CacheFeed<T>& feed : feeds) {
      const int tokens = static_cast<int>(feed.tokens.size());
      const int padding = padding_ == Padding::left ? longest - tokens : 0;
      feed.cache->reserve(run(*feed.cache, used_ + padding, tokens));
    }
    used_ += longest;
  }

  void truncate(KvCache<T>& cache, int length) override {
    for (int row = length; row < cache.length(); ++row) poison(cache.slot(0, row), 1);
    cache.forget(length);
    if (length == 0) poison(first_slot(cache), columns_);  // also what a wrong plan wrote
  }

  void copy(const KvCache<T>& from, KvCache<T>& to) override {
    std::vector<int> slots;
    for (int row = 0; row < from.length(); ++row) {
      slots.push_back(from.slot(0, row) - first_slot(from) + first_slot(to));
      for (int l = 0; l < layers_; ++l)
        store_->copy(*store_, l, from.slot(0, row), slots.back(), 1);
    }
    const std::vector<int> lane = to.places();
    to.assume(from);
    to.places() = lane;
    to.place(std::move(slots));
  }

  std::string complaint(const KvCache<T>& cache) const override {
    if (!store_->guards_intact()) return std::string(kGuardComplaint);
    std::vector<bool> held(static_cast<std::size_t>(columns_), false);
    const int first = first_slot(cache);
    for (int row = 0; row < cache.length(); ++row) {
      held[static_cast<std::size_t>(cache.slot(0, row) - first)] = true;
    }
    for (int column = 0; column < columns_; ++column) {
      if (held[static_cast<std::size_t>(column)]) continue;
      for (int l = 0; l < layers_; ++l) {
        if (!store_->poisoned(l, first + column, 1)) return std::string(kPoisonComplaint);
      }
    }
    return "";
  }

 private:
  [[nodiscard]] std::vector<int> slots(int lanes) const {
    return std::vector<int>(static_cast<std::size_t>(layers_), lanes * columns_);
  }
  [[nodiscard]] int first_slot(const KvCache<T>& cache) const {
    return cache.places().front() * columns_;
  }
  // `count` slots of the cache's lane from a column on.
  [[nodiscard]] std::vector<int> run(const KvCache<T>& cache, int column, int count) const {
    std::vector<int> slots(static_cast<std::size_t>(count));
    std::iota(slots.begin(), slots.end(), first_slot(cache) + column);
    return slots;
  }
  [[nodiscard]] int longest_held() const {
    int longest = 0;
    for (const auto& cache : caches_) longest = std::max(longest, cache->length());
    return longest;
  }
  void poison(int first, int count) {
    for (int l = 0; l < layers_; ++l) store_->poison(l, first, count);
  }
  void move_together() {
    used_ = longest_held();
    for (const auto& cache : caches_) {
      const int length = cache->length();
      const int first = padding_ == Padding::left ? used_ - length : 0;
      std::vector<int> slots = run(*cache, first, length);
      for (int l = 0; l < layers_; ++l) move(l, *cache, slots);
      if (length > 0) cache->place(std::move(slots));
    }
  }
  // By way of the scratch store: rows may move either way.
  void move(int layer, const KvCache<T>& cache, const std::vector<int>& to) {
    for (int row = 0; row < cache.length(); ++row) {
      scratch_.copy(*store_, layer, cache.slot(layer, row), row, 1);
    }
    store_->poison(layer, first_slot(cache), columns_);
    for (int row = 0; row < cache.length(); ++row) {
      store_->copy(scratch_, layer, row, to[static_cast<std::size_t>(row)], 1);
    }
  }

  const int layers_;
  const int columns_;  // of a lane
  const Padding padding_;
  int used_ = 0;  // columns
  std::shared_ptr<KvStore<T>> store_;
  KvStore<T> scratch_;
  std::vector<std::unique_ptr<KvCache<T>>> caches_;
};

}  // namespace

template <Scalar T>
std::unique_ptr<CachePool<T>> make_padded_pool(const Config& config, Padding padding) {
  return std::make_unique<PaddedPool<T>>(config, padding);
}

template std::unique_ptr<CachePool<float>> make_padded_pool(const Config&, Padding);
template std::unique_ptr<CachePool<double>> make_padded_pool(const Config&, Padding);

}  // namespace kvcheck
