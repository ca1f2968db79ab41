// SPDX-License-Identifier: MIT
// Where the rows of layers with unequal numbers of slots lie, in every format; what is poison; and
// that no stray scalar next to the rows goes unnoticed.
#include "engine/kv_store.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "engine/error.h"

namespace kvcheck {
namespace {

constexpr RowFormat kFormats[] = {RowFormat::native, RowFormat::bf16, RowFormat::f16,
                                  RowFormat::int8};
const std::vector<int> kSlots{3, 1, 4};  // of three layers
constexpr int kRow = 6;

// Every row has other numbers; the first, 127, makes the step of int8 1.
template <Scalar T>
std::vector<T> key_of(int layer, int slot) {
  std::vector<T> row(kRow, T(127));
  std::iota(row.begin() + 1, row.end(), T(20 * layer + 5 * slot));
  return row;
}

template <Scalar T>
std::vector<T> value_of(int layer, int slot) {
  std::vector<T> row = key_of<T>(layer, slot);
  for (T& value : row) value = -value;
  return row;
}

template <Scalar T>
KvStore<T> filled(RowFormat format) {
  KvStore<T> store(kSlots, kRow, format);
  for (int l = 0; l < store.layers(); ++l) {
    for (int s = 0; s < store.slots(l); ++s) {
      store.write(l, s, key_of<T>(l, s).data(), value_of<T>(l, s).data());
    }
  }
  return store;
}

// True if `slot` holds what `filled` put into slot `as` of the layer.
template <Scalar T>
bool holds(const KvStore<T>& store, int layer, int slot, int as) {
  std::vector<T> key(kRow), value(kRow);
  store.read(layer, slot, key.data(), value.data());
  return key == key_of<T>(layer, as) && value == value_of<T>(layer, as);
}

template <typename T>
class KvStoreOf : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(KvStoreOf, Scalars);

TYPED_TEST(KvStoreOf, layers_follow_each_other_each_with_its_own_slots) {
  for (const RowFormat format : kFormats) {
    const KvStore<TypeParam> store(kSlots, kRow, format);
    const int first[] = {0, 3, 4};
    ASSERT_EQ(store.layers(), 3);
    for (int l = 0; l < 3; ++l) {
      EXPECT_EQ(store.slots(l), kSlots[static_cast<std::size_t>(l)]);
      for (int s = 0; s < store.slots(l); ++s) {
        const std::ptrdiff_t expected = (first[l] + s) * store.stride();
        EXPECT_EQ(store.key(l, s) - store.key(0, 0), expected);
        EXPECT_EQ(store.value(l, s) - store.value(0, 0), expected);
      }
    }
  }
}

TYPED_TEST(KvStoreOf, a_row_takes_the_fewest_scalars_that_hold_its_bytes) {
  constexpr int kSize = sizeof(TypeParam);
  EXPECT_EQ(KvStore<TypeParam>({1}, 6, RowFormat::native).stride(), 6);
  EXPECT_EQ(KvStore<TypeParam>({1}, 6, RowFormat::bf16).stride(), kSize == 4 ? 3 : 2);
  EXPECT_EQ(KvStore<TypeParam>({1}, 5, RowFormat::f16).stride(), kSize == 4 ? 3 : 2);
  EXPECT_EQ(KvStore<TypeParam>({1}, 5, RowFormat::int8).stride(), kSize == 4 ? 3 : 2);
  EXPECT_EQ(KvStore<TypeParam>({1}, 6, RowFormat::native).row_bytes(), 2 * 6 * kSize);
  EXPECT_EQ(KvStore<TypeParam>({1}, 5, RowFormat::f16).row_bytes(), 2 * 10);
  EXPECT_EQ(KvStore<TypeParam>({1}, 5, RowFormat::int8).row_bytes(), 2 * 9);
}

TYPED_TEST(KvStoreOf, every_slot_keeps_what_was_written_to_it_in_every_format) {
  for (const RowFormat format : kFormats) {
    const auto store = filled<TypeParam>(format);
    for (int l = 0; l < store.layers(); ++l) {
      for (int s = 0; s < store.slots(l); ++s) EXPECT_TRUE(holds(store, l, s, s)) << name(format);
    }
    EXPECT_TRUE(store.guards_intact()) << name(format);
  }
}

TYPED_TEST(KvStoreOf, a_native_row_is_its_numbers) {
  const auto store = filled<TypeParam>(RowFormat::native);
  const auto key = key_of<TypeParam>(2, 3);
  EXPECT_EQ(std::memcmp(store.key(2, 3), key.data(), kRow * sizeof(TypeParam)), 0);
}

TYPED_TEST(KvStoreOf, slots_are_poison_until_they_are_written) {
  for (const RowFormat format : kFormats) {
    KvStore<TypeParam> store(kSlots, kRow, format);
    for (int l = 0; l < store.layers(); ++l) EXPECT_TRUE(store.poisoned(l, 0, store.slots(l)));
    std::vector<TypeParam> key(kRow), value(kRow);
    store.read(2, 1, key.data(), value.data());
    for (int i = 0; i < kRow; ++i) {
      EXPECT_TRUE(std::isnan(key[static_cast<std::size_t>(i)])) << name(format);
      EXPECT_TRUE(std::isnan(value[static_cast<std::size_t>(i)])) << name(format);
    }
    store.write(2, 1, key_of<TypeParam>(2, 1).data(), value_of<TypeParam>(2, 1).data());
    EXPECT_FALSE(store.poisoned(2, 1, 1)) << name(format);
    EXPECT_FALSE(store.poisoned(2, 0, 4)) << name(format);
    EXPECT_TRUE(store.poisoned(2, 0, 1) && store.poisoned(2, 2, 2)) << name(format);
    EXPECT_TRUE(store.poisoned(0, 0, 3) && store.poisoned(1, 0, 1)) << name(format);
  }
}

TYPED_TEST(KvStoreOf, poisoning_some_slots_leaves_the_others) {
  for (const RowFormat format : kFormats) {
    auto store = filled<TypeParam>(format);
    store.poison(2, 1, 2);
    EXPECT_TRUE(store.poisoned(2, 1, 2)) << name(format);
    EXPECT_TRUE(holds(store, 2, 0, 0) && holds(store, 2, 3, 3)) << name(format);
    EXPECT_TRUE(holds(store, 1, 0, 0) && holds(store, 0, 2, 2)) << name(format);
    EXPECT_TRUE(store.guards_intact());
  }
}

// Any scalar of a slot, in the key or in the value; a NaN of other bits is not poison either.
TYPED_TEST(KvStoreOf, one_changed_scalar_is_no_poison) {
  KvStore<TypeParam> store(kSlots, kRow, RowFormat::native);
  for (const bool is_key : {true, false}) {
    for (int i = 0; i < 2 * kRow; ++i) {
      TypeParam& scalar = (is_key ? store.key(0, 1) : store.value(0, 1))[i];
      const TypeParam before = scalar;
      for (const TypeParam changed : {TypeParam(0), std::numeric_limits<TypeParam>::quiet_NaN()}) {
        scalar = changed;
        EXPECT_FALSE(store.poisoned(0, 1, 2)) << i;
      }
      std::memcpy(&scalar, &before, sizeof before);
    }
  }
  EXPECT_TRUE(store.poisoned(0, 1, 2));
  EXPECT_TRUE(store.poisoned(0, 1, 0));
}

TYPED_TEST(KvStoreOf, overlapping_slots_are_copied_as_they_were) {
  for (const RowFormat format : kFormats) {
    auto up = filled<TypeParam>(format);
    up.copy(up, 2, 0, 1, 3);
    auto down = filled<TypeParam>(format);
    down.copy(down, 2, 1, 0, 3);
    for (int s = 0; s < 4; ++s) {
      EXPECT_TRUE(holds(up, 2, s, s == 0 ? 0 : s - 1)) << name(format) << " " << s;
      EXPECT_TRUE(holds(down, 2, s, s == 3 ? 3 : s + 1)) << name(format) << " " << s;
    }
    EXPECT_TRUE(holds(up, 1, 0, 0) && holds(down, 1, 0, 0)) << name(format);
  }
}

TYPED_TEST(KvStoreOf, slots_come_from_a_store_of_another_shape_but_not_of_other_rows) {
  KvStore<TypeParam> bigger({9, 9, 9}, kRow, RowFormat::f16);
  const auto store = filled<TypeParam>(RowFormat::f16);
  bigger.copy(store, 2, 1, 5, 2);
  EXPECT_TRUE(holds(bigger, 2, 5, 1) && holds(bigger, 2, 6, 2));
  EXPECT_TRUE(bigger.poisoned(2, 0, 5) && bigger.poisoned(2, 7, 2));
  EXPECT_TRUE(bigger.poisoned(1, 0, 9));
  const KvStore<TypeParam> wider({9}, 2 * kRow, RowFormat::f16);
  EXPECT_THROW(bigger.copy(wider, 0, 0, 0, 1), InternalError);
  EXPECT_THROW(bigger.copy(filled<TypeParam>(RowFormat::bf16), 0, 0, 0, 1), InternalError);
}

TYPED_TEST(KvStoreOf, growing_keeps_rows_and_poisons_the_new_slots) {
  for (const RowFormat format : kFormats) {
    auto store = filled<TypeParam>(format);
    store.grow({3, 5, 6});
    for (int l = 0; l < 3; ++l) {
      const int held = kSlots[static_cast<std::size_t>(l)];
      EXPECT_EQ(store.slots(l), (std::vector{3, 5, 6}[static_cast<std::size_t>(l)]));
      for (int s = 0; s < held; ++s) EXPECT_TRUE(holds(store, l, s, s)) << name(format);
      EXPECT_TRUE(store.poisoned(l, held, store.slots(l) - held)) << name(format);
    }
    EXPECT_TRUE(store.guards_intact()) << name(format);
    store.value(2, 6)[0] = 0;  // the guard has moved to the new end
    EXPECT_FALSE(store.guards_intact()) << name(format);
  }
}

TYPED_TEST(KvStoreOf, the_guards_notice_every_scalar_that_is_written_next_to_the_rows) {
  constexpr std::ptrdiff_t kGuard = 16;
  for (const RowFormat format : kFormats) {
    auto store = filled<TypeParam>(format);
    for (TypeParam* const begin : {store.key(0, 0), store.value(0, 0)}) {
      const std::ptrdiff_t end = 8 * store.stride();  // of the slots of all layers
      for (std::ptrdiff_t i = 0; i < kGuard; ++i) {
        for (TypeParam* const stray : {begin - 1 - i, begin + end + i}) {
          const TypeParam before = *stray;
          for (const TypeParam other :
               {TypeParam(0), -before, std::numeric_limits<TypeParam>::quiet_NaN()}) {
            *stray = other;
            EXPECT_FALSE(store.guards_intact()) << name(format) << " " << i;
          }
          *stray = before;
        }
      }
    }
    EXPECT_TRUE(store.guards_intact()) << name(format);
  }
}

}  // namespace
}  // namespace kvcheck
