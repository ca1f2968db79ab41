// SPDX-License-Identifier: MIT
// Where the rows of a flat cache lie, what is poisoned when, which stray writes are noticed, and
// that attention over cached rows is attention over the tokens.
#include "engine/kv_cache.h"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <vector>

#include "engine/error.h"
#include "engine/ops.h"
#include "engine/random.h"
#include "engine/test_support.h"

namespace kvcheck {
namespace {

template <typename T>
constexpr T kNaN = std::numeric_limits<T>::quiet_NaN();

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
      right =
          right && (slot < rows ? k == expected && v == -expected : std::isnan(k) && std::isnan(v));
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
  Config shorter = shape();
  --shorter.context;
  Config wider = shape();
  ++wider.head_size;
  KvCache<TypeParam> cache(shape());
  EXPECT_THROW(cache.copy_from(KvCache<TypeParam>(wider)), InternalError);
  EXPECT_THROW(KvCache<TypeParam>(shorter).copy_from(filled<TypeParam>(kCapacity)), InternalError);
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
    for (const TypeParam stray : {TypeParam(0), kNaN<TypeParam>}) {
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
  cache.key(0, 1)[0] = kNaN<TypeParam>;
  EXPECT_TRUE(cache.poison_intact());
}

TYPED_TEST(KvCacheOf, bytes_count_keys_and_values_of_all_layers) {
  const KvCache<TypeParam> cache(shape());
  EXPECT_EQ(cache.bytes(0), 0);
  EXPECT_EQ(cache.bytes(4), 2 * 3 * 4 * 6 * static_cast<int>(sizeof(TypeParam)));
  EXPECT_EQ(cache.bytes(4), cache_bytes(shape(), 4, sizeof(TypeParam)));
}

// Attention over a cache against attention over tokens of several sequences side by side: the query
// of token `last` over tokens first .. last. Whatever must not be read is NaN.
template <typename T>
class Attention {
 public:
  explicit Attention(Draw& draw)
      : heads{0, draw.next_in({1, 3}), draw.next_in({1, 17})},
        shape{draw.next_in({1, 19}), draw.next_in({1, 12})},
        visible{0, draw.next_below(shape.length)} {
    heads.query_heads = heads.kv_heads * draw.next_in({1, 3});
    visible.first = draw.next_below(visible.last + 1);
    query = block(heads.query_heads, visible.last, draw);
    key = block(heads.kv_heads, visible.first, draw);
    value = block(heads.kv_heads, visible.first, draw);
    for (int h = 0; h < heads.query_heads; ++h) {
      kv_head_of.push_back(h / (heads.query_heads / heads.kv_heads));
    }
    for (int i = 0; i < visible.count(); ++i) slots.push_back((i * 5 + 2) % 12);
  }

  [[nodiscard]] std::size_t at(int h, int i, int b) const {
    return static_cast<std::size_t>((h * visible.count() + i) * shape.sequences + b);
  }
  [[nodiscard]] std::size_t size() const { return at(heads.query_heads, 0, 0); }
  // Entry d of head h of token t of sequence b.
  [[nodiscard]] T of(View<T> block, int h, int d, int t, int b) const {
    return block.feature(h * heads.head_size + d)[t * shape.sequences + b];
  }
  // Sequence b's rows of a block in a cache whose slots are in no order.
  [[nodiscard]] CachedRows<T> cached(View<T> block, int b) {
    const std::ptrdiff_t stride = block.features + 3;
    AlignedVector<T>& rows = memory_.emplace_back(static_cast<std::size_t>(12 * stride), kNaN<T>);
    for (int i = 0; i < visible.count() * block.features; ++i) {
      const int f = i % block.features;
      const int token = visible.first + i / block.features;
      rows[static_cast<std::size_t>(slots[static_cast<std::size_t>(i / block.features)] * stride +
                                    f)] = block.feature(f)[token * shape.sequences + b];
    }
    return {rows.data(), stride, slots, kv_head_of};
  }

  Heads heads;
  BlockShape shape;
  VisibleTokens visible;
  View<T> query, key, value;
  std::vector<int> kv_head_of, slots;

 private:
  View<T> block(int block_heads, int first, Draw& draw) {
    const int rows = shape.sequences * shape.length;
    const int features = block_heads * heads.head_size;
    const int stride = rows + draw.next_below(5);
    AlignedVector<T>& all =
        memory_.emplace_back(static_cast<std::size_t>(stride * features), kNaN<T>);
    const View<T> view{all.data(), rows, features, stride};
    for (int f = 0; f < features; ++f) {
      const int end = (visible.last + 1) * shape.sequences;
      for (int r = first * shape.sequences; r < end; ++r) {
        view.feature(f)[r] = static_cast<T>(draw.next_normal());
      }
    }
    return view;
  }

  std::deque<AlignedVector<T>> memory_;
};

// Sums from low to high: what row arithmetic must give to the last bit. Beside it the sum of the
// sizes, by which matrix arithmetic may be off.
template <typename T>
struct Sum {
  T value = 0;
  T size = 0;

  void add(T product) {
    value += product;
    size += std::abs(product);
  }
  [[nodiscard]] bool is(Arithmetic arithmetic, T found, int terms) const {
    if (arithmetic == Arithmetic::row) return found == value;
    return std::abs(found - value) <= T(2 * (terms + 1)) * size * std::numeric_limits<T>::epsilon();
  }
};

constexpr double kScale = 0.3;

template <typename T>
Sum<T> score(const Attention<T>& a, int h, int i, int b) {
  Sum<T> sum;
  const int kv = a.kv_head_of[static_cast<std::size_t>(h)];
  for (int d = 0; d < a.heads.head_size; ++d) {
    sum.add(a.of(a.query, h, d, a.visible.last, b) * a.of(a.key, kv, d, a.visible.first + i, b));
  }
  return {sum.value * T(kScale), sum.size * T(kScale)};
}

template <typename T>
Sum<T> mixed(const Attention<T>& a, const Vector<T>& weights, int h, int d, int b) {
  Sum<T> sum;
  const int kv = a.kv_head_of[static_cast<std::size_t>(h)];
  for (int i = 0; i < a.visible.count(); ++i) {
    sum.add(weights[static_cast<Eigen::Index>(a.at(h, i, b))] *
            a.of(a.value, kv, d, a.visible.first + i, b));
  }
  return sum;
}

template <typename T>
void expect_scores(const Ops<T>& ops, Attention<T>& a) {
  AlignedVector<T> scores(a.size());
  ops.scores(a.heads, a.shape, a.query, a.key, a.visible, T(kScale), scores.data());
  AlignedVector<T> query(static_cast<std::size_t>(a.query.features));
  AlignedVector<T> cached(a.size() / static_cast<std::size_t>(a.shape.sequences));
  for (int b = 0; b < a.shape.sequences; ++b) {
    for (int f = 0; f < a.query.features; ++f) {
      query[static_cast<std::size_t>(f)] = a.of(a.query, 0, f, a.visible.last, b);
    }
    ops.cached_scores(a.heads, query.data(), a.cached(a.key, b), T(kScale), cached.data());
    for (std::size_t i = 0; i < cached.size(); ++i) {
      const int keys = a.visible.count();
      const int h = static_cast<int>(i) / keys;
      const Sum<T> expected = score(a, h, static_cast<int>(i) % keys, b);
      const T found = scores[a.at(h, static_cast<int>(i) % keys, b)];
      ASSERT_TRUE(expected.is(ops.arithmetic, found, a.heads.head_size)) << found;
      ASSERT_TRUE(expected.is(ops.arithmetic, cached[i], a.heads.head_size)) << cached[i];
    }
  }
}

template <typename T>
void expect_mix(const Ops<T>& ops, Attention<T>& a, Draw& draw) {
  Vector<T> weights(static_cast<Eigen::Index>(a.size()));
  for (T& weight : weights) weight = static_cast<T>(draw.next_normal());
  const View<T> out = a.query;  // as large as the output; NaN except for the token's rows
  ops.mix(a.heads, a.shape, weights.data(), a.value, a.visible, out);
  AlignedVector<T> cached(static_cast<std::size_t>(out.features));
  for (int b = 0; b < a.shape.sequences; ++b) {
    Vector<T> own(a.heads.query_heads * a.visible.count());
    for (int i = 0; i < own.size(); ++i) own[i] = weights[i * a.shape.sequences + b];
    ops.cached_mix(a.heads, own.data(), a.cached(a.value, b), cached.data());
    for (int f = 0; f < out.features; ++f) {
      const Sum<T> sum = mixed(a, weights, f / a.heads.head_size, f % a.heads.head_size, b);
      const T found = a.of(out, 0, f, a.visible.last, b);
      ASSERT_TRUE(sum.is(ops.arithmetic, found, a.visible.count())) << found;
      ASSERT_TRUE(sum.is(ops.arithmetic, cached[static_cast<std::size_t>(f)], a.visible.count()));
      const int written = a.visible.last * a.shape.sequences;
      for (int r = 0; r < written; ++r) ASSERT_TRUE(std::isnan(out.feature(f)[r]));
    }
  }
}

template <typename T>
class CachedAttention : public testing::Test {};
TYPED_TEST_SUITE(CachedAttention, Scalars);

TYPED_TEST(CachedAttention, scores_are_those_of_the_tokens_and_of_no_others) {
  Draw draw{.seed = 1};
  for (int i = 0; i < 200; ++i) {
    Attention<TypeParam> attention(draw);
    expect_scores(row_ops<TypeParam>(), attention);
    expect_scores(matrix_ops<TypeParam>(), attention);
  }
}

TYPED_TEST(CachedAttention, mixes_the_values_of_the_tokens_and_of_no_others) {
  Draw draw{.seed = 2};
  for (int i = 0; i < 200; ++i) {
    Attention<TypeParam> attention(draw);
    expect_mix(row_ops<TypeParam>(), attention, draw);
    expect_mix(matrix_ops<TypeParam>(), attention, draw);
  }
}

}  // namespace
}  // namespace kvcheck
