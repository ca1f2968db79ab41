// SPDX-License-Identifier: MIT
// Changes to the rows of one cache that are the same for every kind: dropping some, renumbering
// them, writing them out and reading them back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/cache_pool.h"
#include "engine/rotary_tables.h"

namespace kvcheck {

// Rows [first, first + count) go; the later ones move into their slots and keep their positions.
template <Scalar T>
void drop_rows(CachePool<T>& pool, KvCache<T>& cache, int first, int count);

// The positions of the rows from `first` on, and the next one, fall by `by`; their keys are rotated
// back by as much with `back`, the tables of negative angles.
template <Scalar T>
void move_back(CachePool<T>& pool, KvCache<T>& cache, int first, int by, const Config& config,
               const RotaryTables<T>& back);

// All that a cache holds; `identity` tells models and kinds of cache apart.
template <Scalar T>
[[nodiscard]] std::vector<std::byte> save_rows(const KvCache<T>& cache, std::uint64_t identity);
// Into an empty cache. Throws Error, and leaves it empty, for bytes that were not saved from the
// same model and kind of cache.
template <Scalar T>
void load_rows(CachePool<T>& pool, KvCache<T>& cache, const Config& config,
               std::span<const std::byte> state, std::uint64_t identity);

// A hash of the positions and of every byte of the rows.
template <Scalar T>
[[nodiscard]] std::uint64_t fingerprint(const KvCache<T>& cache);

}  // namespace kvcheck
