// SPDX-License-Identifier: MIT
// Dropping, renumbering, saving and loading rows of one cache: what it holds afterwards, in every
// kind of cache, and that no other cache notices.
#include "engine/cache_edit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "engine/error.h"
#include "engine/random.h"
#include "engine/test_support.h"

namespace kvcheck {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::uint64_t kIdentity = 77;
constexpr int kContext = 16;

// A ring of 4 in the first layer, none in the second.
Config shape() {
  Config c = tiny_config();
  c.vocabulary = 50;
  c.layers = 2;
  c.windows = {4, 0};
  c.query_heads = 2;
  c.kv_heads = 2;
  c.head_size = 4;
  c.context = kContext;
  c.positions = Positions::rotary;
  return c;
}

std::vector<CacheKind> kinds() {
  std::vector<CacheKind> kinds = cache_kinds();
  for (const auto* paged : {"paged:1", "paged:3", "paged:4"}) {
    kinds.push_back(cache_kind(paged, "test"));
  }
  return kinds;
}

// Rings hold the last rows only: the engine drops none of them.
std::vector<CacheKind> kinds_that_drop() {
  std::vector<CacheKind> found = kinds();
  std::erase_if(found, [](const CacheKind& kind) { return kind.layout == CacheLayout::ring; });
  return found;
}

template <Scalar T>
std::vector<T> random_row(std::uint64_t seed, std::uint64_t counter) {
  Draw draw{.seed = seed, .stream = stream_of("rows"), .counter = 1000 * counter};
  std::vector<T> row(static_cast<std::size_t>(shape().kv_width()));
  for (T& value : row) value = static_cast<T>(draw.next_normal());
  return row;
}

// The rows that a cache holds, decoded: [layer, row].
template <Scalar T>
struct Row {
  std::vector<T> key, value;
  bool operator==(const Row&) const = default;
};
template <Scalar T>
using LayersOfRows = std::vector<std::vector<Row<T>>>;

template <Scalar T>
LayersOfRows<T> rows_of(const KvCache<T>& cache) {
  LayersOfRows<T> all;
  const auto width = static_cast<std::size_t>(cache.store().row());
  for (int l = 0; l < cache.store().layers(); ++l) {
    all.emplace_back();
    for (int row = cache.oldest_row(l); row < cache.length(); ++row) {
      Row<T> one{std::vector<T>(width), std::vector<T>(width)};
      cache.store().read(l, cache.slot(l, row), one.key.data(), one.value.data());
      all.back().push_back(std::move(one));
    }
  }
  return all;
}

template <Scalar T>
std::vector<int> positions_of(const KvCache<T>& cache) {
  std::vector<int> positions;
  for (int row = 0; row < cache.length(); ++row) positions.push_back(cache.position(row));
  return positions;
}

// A pool whose caches hold rows as a decoder would have written them.
template <Scalar T>
struct Caches {
  explicit Caches(const CacheKind& kind, const Config& config = shape())
      : pool(make_pool<T>(config, kind)) {}

  // Feeds tokens 0, 1, 2 ...; the rows are random, drawn from `seed`.
  void feed(KvCache<T>& cache, int count, std::uint64_t seed) {
    std::vector<int> tokens(static_cast<std::size_t>(count));
    std::iota(tokens.begin(), tokens.end(), cache.length());
    const CacheFeed<T> feed{&cache, tokens};
    pool->reserve(std::span(&feed, 1));
    const int end = cache.length() + count;
    for (int row = cache.length(); row < end; ++row) {
      for (int l = 0; l < cache.store().layers(); ++l) {
        const auto counter = static_cast<std::uint64_t>(2 * (l * kContext + row));
        cache.store().write(l, cache.slot(l, row), random_row<T>(seed, counter).data(),
                            random_row<T>(seed, counter + 1).data());
      }
    }
    cache.set_length(end);
    pool->settle(std::span(&feed, 1), kIdentity);
  }
  KvCache<T>& with(int count, std::uint64_t seed) {
    KvCache<T>& cache = pool->make();
    feed(cache, count, seed);
    return cache;
  }
  KvCache<T>& copy_of(const KvCache<T>& cache) {
    KvCache<T>& copy = pool->make();
    pool->copy(cache, copy);
    return copy;
  }

  std::unique_ptr<CachePool<T>> pool;
};

template <typename T>
class CacheEditOf : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(CacheEditOf, Scalars);

TYPED_TEST(CacheEditOf, dropped_rows_are_gone_and_the_later_ones_keep_rows_and_positions) {
  for (const CacheKind& kind : kinds_that_drop()) {
    for (const auto& [first, count] : {std::pair{0, 1}, {0, 10}, {3, 4}, {5, 2}, {7, 3}, {4, 0}}) {
      Caches<TypeParam> caches(kind);
      KvCache<TypeParam>& cache = caches.with(10, 1);
      auto rows = rows_of(cache);
      auto positions = positions_of(cache);
      drop_rows(*caches.pool, cache, first, count);
      for (auto& layer : rows) layer.erase(layer.begin() + first, layer.begin() + first + count);
      positions.erase(positions.begin() + first, positions.begin() + first + count);
      EXPECT_EQ(rows_of(cache), rows) << name(kind) << " " << first << " " << count;
      EXPECT_EQ(positions_of(cache), positions) << name(kind);
      EXPECT_EQ(cache.next_position(), 10) << name(kind);
      EXPECT_EQ(caches.pool->complaint(cache), "") << name(kind);
    }
  }
}

TYPED_TEST(CacheEditOf, dropping_again_and_feeding_between_counts_rows_and_not_positions) {
  for (const CacheKind& kind : kinds_that_drop()) {
    Caches<TypeParam> caches(kind);
    KvCache<TypeParam>& cache = caches.with(8, 1);
    drop_rows(*caches.pool, cache, 1, 3);
    caches.feed(cache, 2, 2);
    EXPECT_THAT(positions_of(cache), ElementsAre(0, 4, 5, 6, 7, 8, 9)) << name(kind);
    drop_rows(*caches.pool, cache, 3, 3);
    EXPECT_THAT(positions_of(cache), ElementsAre(0, 4, 5, 9)) << name(kind);
    EXPECT_EQ(cache.next_position(), 10) << name(kind);
    EXPECT_EQ(caches.pool->complaint(cache), "") << name(kind);
  }
}

TYPED_TEST(CacheEditOf, neither_copies_nor_other_caches_notice_dropped_rows) {
  for (const CacheKind& kind : kinds_that_drop()) {
    Caches<TypeParam> caches(kind);
    KvCache<TypeParam>& cache = caches.with(10, 1);
    KvCache<TypeParam>& copy = caches.copy_of(cache);
    KvCache<TypeParam>& other = caches.with(7, 2);
    const auto rows = rows_of(copy);
    const auto others = rows_of(other);
    drop_rows(*caches.pool, cache, 2, 3);
    const auto left = rows_of(cache);
    EXPECT_EQ(rows_of(copy), rows) << name(kind);
    EXPECT_EQ(rows_of(other), others) << name(kind);
    EXPECT_EQ(copy.next_position(), 10) << name(kind);
    EXPECT_FALSE(copy.numbered()) << name(kind);
    drop_rows(*caches.pool, copy, 0, 9);
    EXPECT_EQ(rows_of(cache), left) << name(kind);
    for (const auto* any : {&cache, &copy, &other}) {
      EXPECT_EQ(caches.pool->complaint(*any), "") << name(kind);
    }
  }
}

TYPED_TEST(CacheEditOf, a_prompt_finds_only_rows_that_were_not_moved) {
  std::vector<int> prompt(10);
  std::iota(prompt.begin(), prompt.end(), 0);
  for (const auto& [first, found] : {std::pair{0, 0}, {3, 0}, {4, 4}, {6, 4}}) {
    Caches<TypeParam> caches(cache_kind("paged:4", "test"));
    KvCache<TypeParam>& cache = caches.with(10, 1);
    auto rows = rows_of(cache);
    drop_rows(*caches.pool, cache, first, 2);
    KvCache<TypeParam>& next = caches.pool->make();
    ASSERT_EQ(caches.pool->lookup(prompt, kIdentity), found) << first;
    EXPECT_EQ(caches.pool->adopt(next, prompt, kIdentity), found) << first;
    for (auto& layer : rows) layer.resize(static_cast<std::size_t>(found));
    EXPECT_EQ(rows_of(next), rows) << first;
  }
}

// ---- Moving back

template <Scalar T>
void rotate_row(const RotaryTable<T>& table, const Config& config, int position, T* row) {
  rotate(table, config.rotary_pairs, std::span(&position, 1), config.head_size,
         View<T>{row, 1, config.kv_width(), 1});
}

// A few roundings of the length of the pair, whatever the angle.
template <Scalar T>
double distance_in_ulps(const std::vector<T>& a, const std::vector<T>& b) {
  double largest = 0;
  double difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, static_cast<double>(std::abs(b[i])));
    difference = std::max(difference, static_cast<double>(std::abs(a[i] - b[i])));
  }
  return difference / largest / static_cast<double>(std::numeric_limits<T>::epsilon());
}

TYPED_TEST(CacheEditOf, a_key_moved_back_is_the_key_rotated_at_the_lower_position) {
  for (const RotaryPairs pairs : {RotaryPairs::interleaved, RotaryPairs::halves}) {
    Config config = shape();
    config.rotary_pairs = pairs;
    if (pairs == RotaryPairs::halves) config.rotary_base_windowed = 20;  // of the first layer
    const auto tables = rotary_tables<TypeParam>(config);
    const auto table_of = [&](int layer) -> const RotaryTable<TypeParam>& {
      return *tables.at(static_cast<std::size_t>(config.rotary_base_of(layer)));
    };
    for (const CacheKind& kind : kinds_that_drop()) {
      if (kind.lossy()) continue;
      Caches<TypeParam> caches(kind, config);
      KvCache<TypeParam>& cache = caches.with(10, 1);
      const auto plain = rows_of(cache);
      for (int l = 0; l < 2; ++l) {
        for (int r = 0; r < 10; ++r) {
          rotate_row(table_of(l), config, r, cache.key(l, cache.slot(l, r)));
        }
      }
      KvCache<TypeParam>& copy = caches.copy_of(cache);
      const auto before = rows_of(cache);
      drop_rows(*caches.pool, cache, 3, 2);
      KvCache<TypeParam>& dropped = caches.copy_of(cache);
      const auto left = rows_of(dropped);
      move_back(*caches.pool, cache, 3, 2, config, rotary_tables<TypeParam>(config, Turning::back));
      EXPECT_THAT(positions_of(cache), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7)) << name(kind);
      EXPECT_EQ(cache.next_position(), 8) << name(kind);
      const auto after = rows_of(cache);
      for (std::size_t l = 0; l < 2; ++l) {
        for (std::size_t r = 0; r < 8; ++r) {
          const std::size_t was = r < 3 ? r : r + 2;
          EXPECT_EQ(after[l][r].value, before[l][was].value) << name(kind);
          EXPECT_TRUE(r >= 3 || after[l][r].key == before[l][was].key) << name(kind);
          auto expected = plain[l][was].key;
          rotate_row(table_of(static_cast<int>(l)), config, static_cast<int>(r), expected.data());
          EXPECT_LE(distance_in_ulps(after[l][r].key, expected), 4) << name(kind) << " " << r;
        }
      }
      EXPECT_EQ(rows_of(copy), before) << name(kind);
      EXPECT_EQ(rows_of(dropped), left) << name(kind);
      EXPECT_EQ(caches.pool->complaint(cache) + caches.pool->complaint(copy), "") << name(kind);
    }
  }
}

TYPED_TEST(CacheEditOf, without_rotation_moving_back_renumbers_and_changes_no_row) {
  Config config = shape();
  config.positions = Positions::none;
  for (const CacheKind& kind : kinds_that_drop()) {
    Caches<TypeParam> caches(kind, config);
    KvCache<TypeParam>& cache = caches.with(6, 1);
    drop_rows(*caches.pool, cache, 1, 2);
    const auto before = rows_of(cache);
    move_back(*caches.pool, cache, 1, 2, config, rotary_tables<TypeParam>(config, Turning::back));
    EXPECT_EQ(rows_of(cache), before) << name(kind);
    EXPECT_THAT(positions_of(cache), ElementsAre(0, 1, 2, 3)) << name(kind);
    EXPECT_EQ(cache.next_position(), 4) << name(kind);
  }
}

// Beyond the table, angles are computed; they must be negative there too.
TYPED_TEST(CacheEditOf, a_table_of_negative_angles_turns_back_what_a_table_turned) {
  Config config = shape();
  config.context = kRotaryPositionsMax + 10;
  const auto table = rotary_table<TypeParam>(config, config.rotary_base);
  const auto tables = rotary_tables<TypeParam>(config, Turning::back);
  for (const int position : {0, 1, 5, kRotaryPositionsMax - 1, kRotaryPositionsMax + 5}) {
    const auto row = random_row<TypeParam>(3, static_cast<std::uint64_t>(position));
    auto turned = row;
    rotate_row(table, config, position, turned.data());
    rotate_row(*tables.at(0), config, position, turned.data());
    EXPECT_LE(distance_in_ulps(turned, row), 4) << position;
  }
}

// ---- Saving and loading

TYPED_TEST(CacheEditOf, what_was_saved_is_loaded_with_every_byte) {
  for (const CacheKind& kind : kinds()) {
    for (const int length : {0, 1, 3, 9, kContext}) {
      Caches<TypeParam> caches(kind);
      KvCache<TypeParam>& cache = caches.with(length, 1);
      const auto state = save_rows(cache, kIdentity);
      Caches<TypeParam> elsewhere(kind);
      (void)elsewhere.with(5, 2);
      KvCache<TypeParam>& loaded = elsewhere.pool->make();
      load_rows(*elsewhere.pool, loaded, shape(), state, kIdentity);
      EXPECT_EQ(rows_of(loaded), rows_of(cache)) << name(kind) << " " << length;
      EXPECT_EQ(loaded.next_position(), length) << name(kind);
      EXPECT_EQ(save_rows(loaded, kIdentity), state) << name(kind) << " " << length;
      EXPECT_EQ(fingerprint(loaded), fingerprint(cache)) << name(kind) << " " << length;
      EXPECT_EQ(elsewhere.pool->complaint(loaded), "") << name(kind) << " " << length;
    }
  }
}

TYPED_TEST(CacheEditOf, positions_that_are_not_rows_are_saved_with_them) {
  for (const CacheKind& kind : kinds_that_drop()) {
    Caches<TypeParam> caches(kind);
    KvCache<TypeParam>& cache = caches.with(9, 1);
    drop_rows(*caches.pool, cache, 2, 4);
    const auto state = save_rows(cache, kIdentity);
    KvCache<TypeParam>& loaded = caches.pool->make();
    load_rows(*caches.pool, loaded, shape(), state, kIdentity);
    EXPECT_THAT(positions_of(loaded), ElementsAre(0, 1, 6, 7, 8)) << name(kind);
    EXPECT_EQ(loaded.next_position(), 9) << name(kind);
    EXPECT_EQ(rows_of(loaded), rows_of(cache)) << name(kind);
    EXPECT_EQ(save_rows(loaded, kIdentity), state) << name(kind);
  }
}

// What a refused load says; the cache must stay empty and the others of its pool as they were.
std::string refusal(const CacheKind& kind, const std::vector<std::byte>& state) {
  Caches<float> caches(kind);
  const KvCache<float>& other = caches.with(5, 2);
  const auto rows = rows_of(other);
  KvCache<float>& cache = caches.pool->make();
  std::string message =
      error_of([&] { load_rows(*caches.pool, cache, shape(), state, kIdentity); });
  if (message == "no error") return message;
  EXPECT_EQ(cache.length(), 0);
  EXPECT_EQ(cache.next_position(), 0);
  EXPECT_EQ(caches.pool->complaint(cache), "");
  EXPECT_EQ(rows_of(other), rows);
  return message;
}

std::vector<std::byte> saved(const CacheKind& kind, std::uint64_t identity = kIdentity) {
  Caches<float> caches(kind);
  return save_rows(caches.with(6, 1), identity);
}

TEST(CacheEdit, bytes_that_end_early_or_late_are_refused) {
  for (const CacheKind& kind : kinds()) {
    auto state = saved(kind);
    const auto whole = state;
    for (std::size_t size = 0; size < whole.size(); ++size) {
      state.assign(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
      ASSERT_THAT(refusal(kind, state), HasSubstr("bytes that this engine saved"))
          << name(kind) << " " << size;
    }
    state = whole;
    state.push_back(std::byte{0});
    EXPECT_THAT(refusal(kind, state), HasSubstr("bytes of rows")) << name(kind);
    EXPECT_EQ(refusal(kind, whole), "no error") << name(kind);
  }
}

TEST(CacheEdit, bytes_of_another_engine_or_of_something_else_are_refused) {
  const CacheKind flat;
  EXPECT_EQ(refusal(flat, saved(flat, kIdentity + 1)),
            "load: state, expected bytes that this engine saved, got the state of another model, "
            "scalar or kind of cache");
  auto state = saved(flat);
  state[0] ^= std::byte{1};
  EXPECT_EQ(refusal(flat, state),
            "load: state, expected bytes that this engine saved, got bytes of something else");
}

// Headers with one 32-bit count replaced: length, next position, peak, numbered, tokens.
TEST(CacheEdit, counts_that_cannot_be_are_refused) {
  for (const CacheKind& kind : kinds()) {
    const auto good = saved(kind);
    for (const std::size_t field : {0U, 1U, 2U, 3U, 4U}) {
      for (const std::int32_t count : {-1, 5, kContext + 1, std::numeric_limits<int>::max(),
                                       std::numeric_limits<int>::min()}) {
        auto state = good;
        std::memcpy(&state[16 + 4 * field], &count, sizeof count);
        EXPECT_NE(refusal(kind, state), "no error") << name(kind) << " " << field << " " << count;
      }
    }
  }
}

// ---- Fingerprints

template <Scalar T>
std::byte* bytes_of(KvCache<T>& cache, int layer, int row, bool is_key) {
  const int slot = cache.slot(layer, row);
  return reinterpret_cast<std::byte*>(is_key ? cache.key(layer, slot) : cache.value(layer, slot));
}

TYPED_TEST(CacheEditOf, a_fingerprint_tells_any_changed_byte_of_a_held_row) {
  for (const CacheKind& kind : kinds()) {
    Caches<TypeParam> caches(kind);
    KvCache<TypeParam>& cache = caches.with(7, 1);
    const std::uint64_t before = fingerprint(cache);
    const std::int64_t bytes = cache.store().row_bytes() / 2;
    for (int l = 0; l < 2; ++l) {
      for (int row = cache.oldest_row(l); row < 7; ++row) {
        for (std::int64_t i = 0; i < 2 * bytes; ++i) {
          std::byte& byte = bytes_of(cache, l, row, i < bytes)[i % bytes];
          byte ^= std::byte{1};
          ASSERT_NE(fingerprint(cache), before) << name(kind) << " " << l << " " << row;
          byte ^= std::byte{0x81};
          ASSERT_NE(fingerprint(cache), before) << name(kind) << " " << l << " " << row;
          byte ^= std::byte{0x80};
        }
      }
    }
    EXPECT_EQ(fingerprint(cache), before) << name(kind);
  }
}

TYPED_TEST(CacheEditOf, a_fingerprint_is_of_what_is_held_and_not_of_where_it_lies) {
  for (const CacheKind& kind : kinds()) {
    Caches<TypeParam> caches(kind);
    KvCache<TypeParam>& cache = caches.with(7, 1);
    const std::uint64_t before = fingerprint(cache);
    KvCache<TypeParam>& copy = caches.copy_of(cache);
    EXPECT_EQ(fingerprint(copy), before) << name(kind);
    caches.feed(copy, 1, 2);
    EXPECT_NE(fingerprint(copy), before) << name(kind);
    caches.pool->truncate(copy, 0);
    caches.feed(copy, 7, 1);
    EXPECT_EQ(fingerprint(copy), before) << name(kind);
    EXPECT_EQ(fingerprint(cache), before) << name(kind);
  }
}

TYPED_TEST(CacheEditOf, a_fingerprint_tells_positions_and_the_order_of_rows) {
  for (const CacheKind& kind : kinds_that_drop()) {
    Caches<TypeParam> caches(kind);
    KvCache<TypeParam>& cache = caches.with(4, 1);
    const std::uint64_t before = fingerprint(cache);
    cache.renumber({0, 1, 2, 4}, 5);
    const std::uint64_t renumbered = fingerprint(cache);
    EXPECT_NE(renumbered, before) << name(kind);
    cache.renumber({0, 1, 3, 4}, 5);
    EXPECT_NE(fingerprint(cache), renumbered) << name(kind);
    cache.renumber({0, 1, 2, 4}, 6);
    EXPECT_NE(fingerprint(cache), renumbered) << name(kind);
    cache.renumber({0, 1, 2, 4}, 5);
    const auto bytes = static_cast<std::size_t>(cache.store().row_bytes() / 2);
    std::swap_ranges(bytes_of(cache, 0, 1, true), bytes_of(cache, 0, 1, true) + bytes,
                     bytes_of(cache, 0, 2, true));
    EXPECT_NE(fingerprint(cache), renumbered) << name(kind);
  }
}

}  // namespace
}  // namespace kvcheck
