// SPDX-License-Identifier: MIT
// The caches of all sequences of an engine, or of several, of one kind: which slots their rows get,
// what copies share, and what is wrong with the memory, should something be.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/cache_kind.h"
#include "engine/error.h"
#include "engine/kv_cache.h"
#include "engine/reuse_rules.h"

namespace kvcheck {

template <Scalar T>
class CachePool {
 public:
  virtual ~CachePool() = default;

  // A cache that holds nothing. It lives as long as the pool does.
  [[nodiscard]] virtual KvCache<T>& make() = 0;
  // Slots for the tokens of a step; the feeds fit the context.
  virtual void reserve(std::span<const CacheFeed<T>> feeds) = 0;
  // After a step of the model with this identity: no row of one model is reused for another.
  virtual void settle(std::span<const CacheFeed<T>>, std::uint64_t /*identity*/) {}
  // Forgets the rows from `length` on; where nobody else holds them, they are poisoned.
  virtual void truncate(KvCache<T>& cache, int length) = 0;
  // Gives an empty cache the rows of another one.
  virtual void copy(const KvCache<T>& from, KvCache<T>& to) = 0;
  // Makes sure that nobody else sees it when rows from `first` on are changed in place.
  virtual void own(KvCache<T>&, int /*first*/) {}
  // Rows that prefix reuse would provide for a prompt to this model, and takes them into an empty
  // cache.
  [[nodiscard]] virtual int lookup(std::span<const int>, std::uint64_t /*identity*/) const {
    return 0;
  }
  virtual int adopt(KvCache<T>&, std::span<const int>, std::uint64_t /*identity*/) { return 0; }
  // Asked from now on. Throws InternalError where nothing is reused.
  virtual void reuse_rules(ReuseRules) {
    require(false, "a pool that reuses nothing has no rules");
  }
  // What is wrong with the memory of a cache: guards, poison, counts of references. Empty if
  // nothing.
  [[nodiscard]] virtual std::string complaint(const KvCache<T>& cache) const = 0;
};

template <Scalar T>
[[nodiscard]] std::unique_ptr<CachePool<T>> make_pool(const Config& config, const CacheKind& kind);

// For make_pool().
template <Scalar T>
[[nodiscard]] std::unique_ptr<CachePool<T>> make_paged_pool(const Config& config, int block);
enum class Padding { left, right };
template <Scalar T>
[[nodiscard]] std::unique_ptr<CachePool<T>> make_padded_pool(const Config& config, Padding padding);

inline constexpr std::string_view kGuardComplaint = "memory around the cache was overwritten";
inline constexpr std::string_view kPoisonComplaint = "a row that is not held was written";

}  // namespace kvcheck
