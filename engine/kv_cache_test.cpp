// SPDX-License-Identifier: MIT
// Where the rows of a flat cache lie, what is poisoned when, and which stray writes are noticed.
#include "engine/kv_cache.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "engine/error.h"
#include "engine/test_support.h"

namespace kvcheck {
namespace {

constexpr int kLayers = 3;
constexpr int kCapacity = 5;
constexpr int kRow = 6;     // 2 K/V heads of size 3
constexpr int kGuard = 16;  // scalars before and after the rows

Config shape() {
  Config c = tiny_config();
  c.layers = kLayers;
  c.windows.assign(kLayers, 0);
  c.query_heads = 4;
  c.kv_heads = 2;
  c.head_size = 3;
  c.context = kCapacity;
  return c;
}

// Of every scalar that the cache could hold, another number.
template <typename T>
T number(int layer, int slot, int i) {
  return T(100 * layer + 10 * slot + i + 1);
}

template <typename T>
KvCache<T> filled(int rows) {
  KvCache<T> cache(shape());
  for (int l = 0; l < kLayers; ++l) {
    for (int i = 0; i < rows * kRow; ++i) {
      cache.key(l, i / kRow)[i % kRow] = number<T>(l, i / kRow, i % kRow);
      cache.value(l, i / kRow)[i % kRow] = -number<T>(l, i / kRow, i % kRow);
    }
  }
  cache.set_length(rows);
  return cache;
}

// True if slots 0 .. rows - 1 are as filled and all others poisoned.
template <typename T>
bool holds_exactly(const KvCache<T>& cache, int rows) {
  bool right = cache.length() == rows;
  for (int l = 0; l < kLayers; ++l) {
    for (int i = 0; i < kCapacity * kRow; ++i) {
      const int slot = i / kRow;
      const T k = cache.key(l, slot)[i % kRow];
      const T v = cache.value(l, slot)[i % kRow];
      const T expected = number<T>(l, slot, i % kRow);
      right = right && (slot < rows ? k == expected && v == -expected
                                    : std::isnan(k) && std::isnan(v));
    }
  }
  return right;
}

template <typename T>
class KvCacheOf : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(KvCacheOf, Scalars);

TYPED_TEST(KvCacheOf, holds_nothing_but_poison_at_first) {
  const KvCache<TypeParam> cache(shape());
  EXPECT_EQ(cache.capacity(), kCapacity);
  EXPECT_TRUE(holds_exactly(cache, 0));
  EXPECT_TRUE(cache.poison_intact());
  EXPECT_TRUE(cache.guards_intact());
}

TYPED_TEST(KvCacheOf, lays_out_layers_then_slots_then_one_row_of_heads) {
  KvCache<TypeParam> cache(shape());
  EXPECT_EQ(cache.slot_stride(), kRow);
  for (int l = 0; l < kLayers; ++l) {
    for (int s = 0; s < kCapacity; ++s) {
      EXPECT_EQ(cache.key(l, s) - cache.key(0, 0), (l * kCapacity + s) * kRow);
      EXPECT_EQ(cache.value(l, s) - cache.value(0, 0), (l * kCapacity + s) * kRow);
    }
  }
}

TYPED_TEST(KvCacheOf, keeps_what_was_written) {
  EXPECT_TRUE(holds_exactly(filled<TypeParam>(kCapacity), kCapacity));
  EXPECT_TRUE(filled<TypeParam>(kCapacity).guards_intact());
}

TYPED_TEST(KvCacheOf, truncation_forgets_and_poisons_the_later_rows) {
  for (int length = 0; length <= 4; ++length) {
    KvCache<TypeParam> cache = filled<TypeParam>(4);
    cache.truncate(length);
    EXPECT_TRUE(holds_exactly(cache, length)) << length;
    EXPECT_TRUE(cache.poison_intact() && cache.guards_intact()) << length;
  }
}

TYPED_TEST(KvCacheOf, truncation_to_more_than_it_holds_is_a_mistake) {
  KvCache<TypeParam> cache = filled<TypeParam>(2);
  EXPECT_THROW(cache.truncate(3), InternalError);
  EXPECT_THROW(cache.truncate(-1), InternalError);
  EXPECT_TRUE(holds_exactly(cache, 2));
}

TYPED_TEST(KvCacheOf, a_copy_holds_the_same_rows_and_poison_after_them) {
  for (int before = 0; before <= kCapacity; ++before) {
    KvCache<TypeParam> copy = filled<TypeParam>(before);
    for (int l = 0; l < kLayers; ++l) copy.key(l, 0)[0] = before > 0 ? 77 : copy.key(l, 0)[0];
    copy.copy_from(filled<TypeParam>(3));
    EXPECT_TRUE(holds_exactly(copy, 3)) << before;
    EXPECT_TRUE(copy.guards_intact()) << before;
  }
}

TYPED_TEST(KvCacheOf, a_copy_of_nothing_holds_nothing) {
  KvCache<TypeParam> copy = filled<TypeParam>(kCapacity);
  copy.copy_from(filled<TypeParam>(0));
  EXPECT_TRUE(holds_exactly(copy, 0));
}

TYPED_TEST(KvCacheOf, a_copy_does_not_share_memory) {
  KvCache<TypeParam> original = filled<TypeParam>(2);
  KvCache<TypeParam> copy(shape());
  copy.copy_from(original);
  original.key(1, 1)[0] = 9999;
  original.value(0, 0)[5] = 9999;
  EXPECT_TRUE(holds_exactly(copy, 2));
}

TYPED_TEST(KvCacheOf, a_cache_of_another_shape_is_not_copied) {
  Config longer = shape();
  ++longer.context;
  Config wider = shape();
  ++wider.head_size;
  KvCache<TypeParam> cache(shape());
  EXPECT_THROW(cache.copy_from(KvCache<TypeParam>(longer)), InternalError);
  EXPECT_THROW(cache.copy_from(KvCache<TypeParam>(wider)), InternalError);
}

// The guard scalars before and after the rows of `first`, where `last` is the row of the last slot.
template <typename T>
std::vector<T*> guards(T* first, T* last) {
  std::vector<T*> found;
  for (int i = 1; i <= kGuard; ++i) found.push_back(first - i);
  for (int i = 0; i < kGuard; ++i) found.push_back(last + kRow + i);
  return found;
}

TYPED_TEST(KvCacheOf, any_write_just_outside_the_rows_breaks_a_guard) {
  KvCache<TypeParam> cache = filled<TypeParam>(kCapacity);
  std::vector<TypeParam*> all = guards(cache.key(0, 0), cache.key(kLayers - 1, kCapacity - 1));
  for (TypeParam* at : guards(cache.value(0, 0), cache.value(kLayers - 1, kCapacity - 1))) {
    all.push_back(at);
  }
  for (TypeParam* at : all) {
    const TypeParam before = *at;
    for (const TypeParam stray : {TypeParam(0), std::numeric_limits<TypeParam>::quiet_NaN()}) {
      *at = stray;
      EXPECT_FALSE(cache.guards_intact());
    }
    *at = before;
    EXPECT_TRUE(cache.guards_intact());
  }
}

TYPED_TEST(KvCacheOf, one_scalar_written_to_a_row_that_is_not_held_breaks_the_poison) {
  for (int l = 0; l < kLayers; ++l) {
    for (int i = 2 * kRow; i < kCapacity * kRow; ++i) {
      KvCache<TypeParam> keys = filled<TypeParam>(2);
      keys.key(l, 0)[i] = 0;
      EXPECT_FALSE(keys.poison_intact()) << l << " " << i;
      KvCache<TypeParam> values = filled<TypeParam>(2);
      values.value(l, 0)[i] = 0;
      EXPECT_FALSE(values.poison_intact()) << l << " " << i;
    }
  }
}

TYPED_TEST(KvCacheOf, what_the_held_rows_contain_is_no_matter_of_the_poison) {
  KvCache<TypeParam> cache = filled<TypeParam>(2);
  EXPECT_TRUE(cache.poison_intact());
  cache.key(0, 1)[0] = std::numeric_limits<TypeParam>::quiet_NaN();
  EXPECT_TRUE(cache.poison_intact());
}

TYPED_TEST(KvCacheOf, bytes_count_keys_and_values_of_all_layers) {
  const KvCache<TypeParam> cache(shape());
  EXPECT_EQ(cache.bytes(0), 0);
  EXPECT_EQ(cache.bytes(4), 2 * 3 * 4 * 6 * static_cast<int>(sizeof(TypeParam)));
  EXPECT_EQ(cache.bytes(4), cache_bytes(shape(), 4, sizeof(TypeParam)));
}

}  // namespace
}  // namespace kvcheck
