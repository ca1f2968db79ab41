// SPDX-License-Identifier: MIT
// Row arithmetic gives every row the same bits in any company, and both arithmetics are right.
#include "engine/ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "engine/random.h"
#include "engine/test_exponential.h"
#include "engine/test_support.h"

namespace kvcheck {
namespace {

template <typename T>
constexpr T kEpsilon = std::numeric_limits<T>::epsilon();
template <typename T>
constexpr T kNaN = std::numeric_limits<T>::quiet_NaN();

// Where a block lies in memory: scalars before its first row, and between its features.
struct Place {
  int offset = 0;
  int gap = 0;
};

Place any_place(Draw& draw) { return {draw.next_below(9), draw.next_below(6)}; }

// A block inside more memory than it needs; all of it is NaN at first.
template <typename T>
class Placed {
 public:
  Placed(int rows, int features, Place at)
      : storage_(static_cast<std::size_t>(at.offset + (rows + at.gap) * features + 9), kNaN<T>),
        view_{storage_.data() + at.offset, rows, features, rows + at.gap} {}
  Placed(int rows, int features, Place at, Draw& draw) : Placed(rows, features, at) {
    for (int i = 0; i < rows * features; ++i) {
      view_.feature(i / rows)[i % rows] = static_cast<T>(draw.next_normal());
    }
  }
  Placed(const Placed&) = delete;
  Placed& operator=(const Placed&) = delete;

  [[nodiscard]] View<T> view() const { return view_; }
  // True if every entry is a number and nothing around them was written.
  [[nodiscard]] bool just_filled() const {
    const auto numbers =
        std::count_if(storage_.begin(), storage_.end(), [](T value) { return !std::isnan(value); });
    bool inside = numbers == view_.rows * view_.features;
    for (int i = 0; i < numbers && inside; ++i) {
      inside = !std::isnan(view_.feature(i / view_.rows)[i % view_.rows]);
    }
    return inside;
  }

 private:
  AlignedVector<T> storage_;
  View<T> view_;
};

template <typename T>
std::vector<T> row_of(View<T> view, int row) {
  std::vector<T> values;
  for (int f = 0; f < view.features; ++f) values.push_back(view.feature(f)[row]);
  return values;
}

template <typename T>
void copy(View<T> from, View<T> to) {
  for (int f = 0; f < from.features; ++f) std::copy_n(from.feature(f), from.rows, to.feature(f));
}

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

template <typename T>
Vector<T> normal_vector(int count, Draw& draw) {
  return Vector<T>::NullaryExpr(count, [&] { return static_cast<T>(draw.next_normal()); });
}

template <typename T>
Matrix<T> normal_matrix(int rows, int columns, Draw& draw) {
  return Matrix<T>::NullaryExpr(rows, columns, [&] { return static_cast<T>(draw.next_normal()); });
}

// What `op` makes of a block of `rows` rows, it makes of each row alone, to the last bit, wherever
// the block and the row lie.
template <typename T, typename Op>
void expect_rows_alone(int rows, int in, int out, Draw& draw, Op op) {
  const Placed<T> x(rows, in, any_place(draw), draw);
  const Placed<T> y(rows, out, any_place(draw));
  op(x.view(), y.view());
  ASSERT_TRUE(y.just_filled()) << rows << " rows, " << in << " to " << out;
  for (int r = 0; r < rows; ++r) {
    const Placed<T> lone(1, in, any_place(draw));
    const Placed<T> answer(1, out, any_place(draw));
    copy(x.view().rows_from(r, 1), lone.view());
    op(lone.view(), answer.view());
    ASSERT_TRUE(same_bits(row_of(y.view(), r), row_of(answer.view(), 0)))
        << "row " << r << " of " << rows << ", " << in << " to " << out;
  }
}

template <typename T>
class RowOps : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(RowOps, Scalars);
template <typename T>
class BothOps : public testing::Test {};
TYPED_TEST_SUITE(BothOps, Scalars);

TYPED_TEST(RowOps, normalize_of_a_row_does_not_depend_on_its_neighbours) {
  using T = TypeParam;
  Draw draw{.seed = 2};
  for (int i = 0; i < 120; ++i) {
    const int width = draw.next_in({1, 70});
    const NormWeights<T> weights{normal_vector<T>(width, draw),
                                 normal_vector<T>(i % 2 == 0 ? width : 0, draw)};
    expect_rows_alone<T>(1 + i % 40, width, width, draw, [&](View<T> x, View<T> y) {
      row_ops<T>().normalize(x, weights, T(1e-5), y);
    });
  }
}

// Some of the features of a window.
template <typename T>
View<T> features_of(View<T> x, int first, int count) {
  return {x.feature(first), x.rows, count, x.stride};
}

// 2 n features in: the gate and what it gates. Copied, since both must have one stride.
template <typename T>
void swiglu_of(View<T> x, View<T> y) {
  const Placed<T> both(x.rows, x.features, {3, static_cast<int>(x.stride) - x.rows});
  copy(x, both.view());
  const View<T> up = features_of(both.view(), y.features, y.features);
  row_ops<T>().swiglu(features_of(both.view(), 0, y.features), up);
  copy(up, y);
}

TYPED_TEST(RowOps, activation_of_a_row_does_not_depend_on_its_neighbours) {
  using T = TypeParam;
  Draw draw{.seed = 3};
  for (int rows = 1; rows <= 40; ++rows) {
    const int width = draw.next_in({1, 40});
    expect_rows_alone<T>(rows, width, width, draw, [](View<T> x, View<T> y) {
      copy(x, y);
      row_ops<T>().gelu_tanh(y);
    });
    expect_rows_alone<T>(rows, 2 * width, width, draw, swiglu_of<T>);
    expect_rows_alone<T>(rows, width, width, draw, [](View<T> x, View<T> y) {
      copy(x, y);
      row_ops<T>().soft_cap(y, T(1.5));
    });
  }
}

// e^x through the operations that use it, against long double. One gate value at a time in rows of
// 1: another row count is another loop, which the tests above compare with this one.

template <typename T>
T silu(T x) {
  T up = 1;
  row_ops<T>().swiglu({&x, 1, 1, 1}, {&up, 1, 1, 1});
  return up;
}

template <typename T>
T gelu(T x) {
  row_ops<T>().gelu_tanh({&x, 1, 1, 1});
  return x;
}

// Below this, e^x or the quotient leaves the normal numbers.
template <typename T>
constexpr T kSiluLow = std::is_same_v<T, float> ? T(-80) : T(-700);

template <typename T>
long double relative_error(T found, long double expected) {
  return std::abs(static_cast<long double>(found) - expected) / std::abs(expected);
}

TYPED_TEST(RowOps, silu_is_right_to_a_few_roundings) {
  using T = TypeParam;
  Draw draw{.seed = 6};
  for (int i = 0; i < 40000; ++i) {
    const T range = i % 2 == 0 ? -kSiluLow<T> : T(4);
    const T x = static_cast<T>(2 * draw.next_uniform() - 1) * range;
    const long double expected = x / (1 + std::exp(-static_cast<long double>(x)));
    ASSERT_LE(relative_error(silu(x), expected), 3 * kEpsilon<T>) << x;
  }
}

// The exponent takes seven roundings of half an epsilon, and e^x turns its absolute error into a
// relative one.
TYPED_TEST(RowOps, gelu_is_right_to_the_rounding_of_its_exponent) {
  using T = TypeParam;
  Draw draw{.seed = 7};
  const long double slope = std::sqrt(8 / std::acos(-1.0L));
  for (int i = 0; i < 40000; ++i) {
    const T x = static_cast<T>(2 * draw.next_uniform() - 1) * (i % 2 == 0 ? T(8) : T(1));
    const long double wide = x;
    const long double exponent = -slope * (wide + 0.044715L * wide * wide * wide);
    if (exponent > -static_cast<long double>(kSiluLow<T>)) continue;
    const long double bound = (3 + 3.5L * std::abs(exponent)) * kEpsilon<T>;
    ASSERT_LE(relative_error(gelu(x), wide / (1 + std::exp(exponent))), bound) << x;
  }
}

TYPED_TEST(RowOps, gelu_is_the_formula_with_tanh) {
  for (const long double x : {-2.5L, -0.75L, 0.125L, 1.0L, 3.0L}) {
    const long double inner = std::sqrt(2 / std::acos(-1.0L)) * (x + 0.044715L * x * x * x);
    EXPECT_NEAR(gelu(static_cast<TypeParam>(x)), double(0.5L * x * (1 + std::tanh(inner))),
                8 * kEpsilon<TypeParam>);
  }
}

TYPED_TEST(RowOps, activations_of_numbers_out_of_range_end_at_their_limits) {
  using T = TypeParam;
  for (const T x : {T(1000), T(1e30), std::numeric_limits<T>::max()}) {
    EXPECT_EQ(silu(x), x);
    EXPECT_EQ(gelu(x), x);
    EXPECT_EQ(silu(-x), T(0));
    EXPECT_EQ(gelu(-x), T(0));
  }
  EXPECT_EQ(silu(T(0)), T(0));
  EXPECT_EQ(gelu(T(0)), T(0));
}

TYPED_TEST(RowOps, activations_keep_a_nan) {
  EXPECT_TRUE(std::isnan(silu(kNaN<TypeParam>)));
  EXPECT_TRUE(std::isnan(gelu(kNaN<TypeParam>)));
}

template <typename T>
T capped(T x, T cap, Arithmetic arithmetic = Arithmetic::row) {
  ops_for<T>(arithmetic).soft_cap({&x, 1, 1, 1}, cap);
  return x;
}

// Near 0, where a tanh from exponentials cancels, as well as elsewhere.
TYPED_TEST(RowOps, soft_cap_is_right_to_a_few_roundings) {
  using T = TypeParam;
  Draw draw{.seed = 8};
  for (int i = 0; i < 40000; ++i) {
    const T range = std::pow(T(10), static_cast<T>(draw.next_in({-9, 3})));
    const T x = static_cast<T>(2 * draw.next_uniform() - 1) * range;
    for (const T cap : {T(1), T(50), T(0.3L)}) {
      const long double expected = cap * std::tanh(static_cast<long double>(x) / cap);
      ASSERT_LE(relative_error(capped(x, cap), expected), 5 * kEpsilon<T>) << x << " " << cap;
    }
  }
}

TYPED_TEST(BothOps, soft_caps_end_at_their_limits_and_keep_a_nan) {
  using T = TypeParam;
  for (const Arithmetic arithmetic : {Arithmetic::row, Arithmetic::matrix}) {
    for (const T x : {T(1000), T(1e30), std::numeric_limits<T>::infinity()}) {
      EXPECT_EQ(capped(x, T(30), arithmetic), T(30));
      EXPECT_EQ(capped(-x, T(30), arithmetic), T(-30));
    }
    EXPECT_EQ(capped(T(0), T(30), arithmetic), T(0));
    EXPECT_TRUE(std::isnan(capped(kNaN<T>, T(30), arithmetic)));
  }
}

// Both arithmetics. Small integers must come out exactly; other sums of K products within
// gamma sum |x w| with gamma about K half epsilons (Higham, section 3.1), doubled.

enum class Entries { normal, integer };

template <typename T>
void make(Entries entries, View<T> x, Matrix<T>& weight) {
  if (entries == Entries::normal) return;
  for (int f = 0; f < x.features; ++f) {
    for (int r = 0; r < x.rows; ++r) x.feature(f)[r] = std::round(3 * x.feature(f)[r]);
  }
  weight = (weight * 3).array().round();
}

template <typename T>
void expect_right_product(int rows, int in, int out, Entries entries, Draw& draw) {
  const Placed<T> x(rows, in, any_place(draw), draw);
  const Placed<T> y(rows, out, any_place(draw));
  const Placed<T> z(rows, out, any_place(draw));
  Matrix<T> weight = normal_matrix<T>(in, out, draw);
  make(entries, x.view(), weight);
  const Vector<T> bias = normal_vector<T>(entries == Entries::integer ? 0 : out, draw);
  row_ops<T>().product(x.view(), weight, bias, y.view());
  matrix_ops<T>().product(x.view(), weight, bias, z.view());
  ASSERT_TRUE(y.just_filled() && z.just_filled()) << rows << " " << in << " " << out;
  for (int i = 0; i < rows * out; ++i) {
    const int r = i % rows;
    const int o = i / rows;
    T sum = 0;
    T size = 0;
    for (int k = 0; k < in; ++k) {
      sum += x.view().feature(k)[r] * weight(k, o);
      size += std::abs(x.view().feature(k)[r] * weight(k, o));
    }
    if (bias.size() > 0) sum += bias[o];
    ASSERT_EQ(y.view().feature(o)[r], sum) << rows << " " << in << " " << out;
    const T bound = entries == Entries::integer ? 0 : 2 * T(in + 1) * (size + 4) * kEpsilon<T>;
    ASSERT_NEAR(z.view().feature(o)[r], sum, bound) << rows << " " << in << " " << out;
  }
}

TYPED_TEST(BothOps, products_of_rows_are_sums_from_low_to_high_or_close_to_them) {
  Draw draw{.seed = 8};
  for (int i = 0; i < 160; ++i) {
    const Entries entries = i % 4 == 0 ? Entries::integer : Entries::normal;
    const int in = draw.next_in({1, 70});
    const int out = draw.next_in({1, 40});
    expect_right_product<TypeParam>(1 + i % 40, in, out, entries, draw);
    expect_right_product<TypeParam>(1, in, out, entries, draw);
  }
  expect_right_product<TypeParam>(40, 70, 40, Entries::integer, draw);
  // A weight that does not stay in a cache is multiplied by some columns at a time.
  for (const int rows : {1, 2, 29}) {
    expect_right_product<TypeParam>(rows, 290, 230, Entries::normal, draw);
  }
}

// Against the formula in long double. The mean's error, next to the largest entry, is divided by
// the deviation.
template <typename T>
void expect_right_norm(const Ops<T>& ops, int rows, int width, bool centred, Draw& draw) {
  const Placed<T> x(rows, width, rows == 1 ? Place{} : any_place(draw), draw);
  const Placed<T> y(rows, width, rows == 1 ? Place{} : any_place(draw));
  const NormWeights<T> weights{normal_vector<T>(width, draw),
                               normal_vector<T>(centred ? width : 0, draw)};
  const T epsilon = T(0.01);
  ops.normalize(x.view(), weights, epsilon, y.view());
  for (int r = 0; r < rows; ++r) {
    const std::vector<T> row = row_of(x.view(), r);
    const long double mean = centred ? std::accumulate(row.begin(), row.end(), 0.0L) / width : 0.0L;
    long double variance = 0;
    for (const T value : row) variance += (value - mean) * (value - mean) / width;
    for (int f = 0; f < width; ++f) {
      const long double normed =
          (row[static_cast<std::size_t>(f)] - mean) / std::sqrt(variance + epsilon);
      const long double shift = centred ? weights.shift[f] : T(0);
      const auto expected = static_cast<double>(normed * weights.scale[f] + shift);
      ASSERT_NEAR(y.view().feature(f)[r], expected, T(64 * width) * kEpsilon<T>)
          << rows << " rows of " << width << (centred ? ", centred" : "");
    }
  }
}

TYPED_TEST(BothOps, normalize_is_the_formula) {
  Draw draw{.seed = 10};
  for (const Arithmetic arithmetic : {Arithmetic::row, Arithmetic::matrix}) {
    for (int width = 1; width <= 70; ++width) {
      for (const int rows : {1, 1 + width % 13}) {
        const Ops<TypeParam>& ops = ops_for<TypeParam>(arithmetic);
        expect_right_norm(ops, rows, width, false, draw);
        expect_right_norm(ops, rows, width, true, draw);
      }
    }
  }
}

// Softmax over [head][key][lane]. Scores are multiples of 1/16, so that subtracting the largest is
// exact and only e^x, the sum and the division round.

template <typename T>
AlignedVector<T> sixteenths(int count, double scale, Draw& draw) {
  AlignedVector<T> scores(static_cast<std::size_t>(count));
  for (T& s : scores) s = static_cast<T>(std::round(scale * draw.next_normal()) / 16);
  return scores;
}

TYPED_TEST(RowOps, softmax_of_a_lane_does_not_depend_on_the_others) {
  using T = TypeParam;
  Draw draw{.seed = 11};
  for (int lanes = 1; lanes <= 40; ++lanes) {
    const int heads = draw.next_in({1, 3});
    const int keys = draw.next_in({1, 30});
    const AlignedVector<T> scores = sixteenths<T>(heads * keys * lanes, 50, draw);
    AlignedVector<T> together = scores;
    row_ops<T>().softmax(heads, keys, lanes, together.data());
    for (int b = 0; b < lanes; ++b) {
      AlignedVector<T> alone;
      for (int i = 0; i < heads * keys; ++i) alone.push_back(scores[i * lanes + b]);
      row_ops<T>().softmax(heads, keys, 1, alone.data());
      for (int i = 0; i < heads * keys; ++i) ASSERT_EQ(together[i * lanes + b], alone[i]) << lanes;
    }
  }
}

TYPED_TEST(BothOps, softmax_is_right_to_the_rounding_of_its_sum) {
  using T = TypeParam;
  Draw draw{.seed = 12};
  for (int i = 0; i < 400; ++i) {
    const int keys = 1 + i % 40;
    const AlignedVector<T> scores = sixteenths<T>(keys, i % 2 == 0 ? 20 : 160, draw);
    const T largest = *std::max_element(scores.begin(), scores.end());
    long double sum = 0;
    for (const T s : scores) sum += std::exp(static_cast<long double>(s) - largest);
    for (const Arithmetic arithmetic : {Arithmetic::row, Arithmetic::matrix}) {
      AlignedVector<T> found = scores;
      ops_for<T>(arithmetic).softmax(1, keys, 1, found.data());
      for (std::size_t k = 0; k < scores.size(); ++k) {
        const long double expected = std::exp(static_cast<long double>(scores[k]) - largest) / sum;
        ASSERT_LE(relative_error(found[k], expected), T(keys + 6) * kEpsilon<T>) << keys;
      }
    }
  }
}

TYPED_TEST(RowOps, softmax_of_a_score_far_below_the_largest_is_0) {
  const TypeParam infinity = std::numeric_limits<TypeParam>::infinity();
  AlignedVector<TypeParam> scores{3, -1000, -infinity, 3};
  row_ops<TypeParam>().softmax(1, 4, 1, scores.data());
  EXPECT_EQ(scores, (AlignedVector<TypeParam>{0.5, 0, 0, 0.5}));
}

TYPED_TEST(BothOps, softmax_does_not_overflow_wherever_the_largest_score_stands) {
  for (std::size_t at = 0; at < 18; ++at) {
    AlignedVector<TypeParam> scores(9, TypeParam(500));
    scores[at % 9] = 3000;
    ops_for<TypeParam>(at < 9 ? Arithmetic::row : Arithmetic::matrix).softmax(1, 9, 1, &scores[0]);
    EXPECT_EQ(scores[at % 9], TypeParam(1));
  }
}

TYPED_TEST(BothOps, softmax_does_not_depend_on_where_its_scores_lie) {
  using T = TypeParam;
  Draw draw{.seed = 13};
  for (int keys = 1; keys <= 40; ++keys) {
    const AlignedVector<T> scores = sixteenths<T>(keys, 50, draw);
    for (const Arithmetic arithmetic : {Arithmetic::row, Arithmetic::matrix}) {
      AlignedVector<T> expected = scores;
      ops_for<T>(arithmetic).softmax(1, keys, 1, expected.data());
      for (std::size_t offset = 1; offset < 16; ++offset) {
        AlignedVector<T> room(scores.size() + offset);
        std::ranges::copy(scores, room.begin() + static_cast<std::ptrdiff_t>(offset));
        ops_for<T>(arithmetic).softmax(1, keys, 1, room.data() + offset);
        room.erase(room.begin(), room.begin() + static_cast<std::ptrdiff_t>(offset));
        ASSERT_EQ(room, expected) << keys << " keys at " << offset << ", " << name(arithmetic);
      }
    }
  }
}

template <typename T>
void expect_an_exponential(T low, T high) {
  constexpr T infinity = std::numeric_limits<T>::infinity();
  EXPECT_EQ(exponential_of(-infinity), T(0));
  EXPECT_EQ(exponential_of(std::nextafter(low, -infinity)), T(0));
  EXPECT_TRUE(std::isnormal(exponential_of(low)));
  EXPECT_TRUE(std::isfinite(exponential_of(high)));
  EXPECT_EQ(exponential_of(std::nextafter(high, infinity)), infinity);
  EXPECT_EQ(exponential_of(infinity), infinity);
  EXPECT_TRUE(std::isnan(exponential_of(kNaN<T>)));
  EXPECT_EQ(exponential_of(T(0)), T(1));
  Draw draw{.seed = 14};
  for (int i = 0; i < 20'000; ++i) {
    const T x = static_cast<T>((i % 2 == 0 ? 1 : 20) * draw.next_normal());
    ASSERT_LE(relative_error(exponential_of(x), std::exp(static_cast<long double>(x))),
              T(1.5) * kEpsilon<T>)
        << x;
  }
}

TEST(Exponential, is_right_to_its_last_bit_but_one_and_ends_at_its_limits) {
  expect_an_exponential<float>(-87, 88);
  expect_an_exponential<double>(-708, 709);
}

TYPED_TEST(BothOps, softmax_of_a_nan_is_nan_for_its_head_only) {
  using T = TypeParam;
  for (const Arithmetic arithmetic : {Arithmetic::row, Arithmetic::matrix}) {
    for (const std::size_t keys : {1U, 3U, 4U, 7U, 9U, 15U, 17U, 33U}) {
      for (std::size_t at = 0; at < keys; ++at) {
        AlignedVector<T> scores(2 * keys, T(2));
        scores[at] = kNaN<T>;
        ops_for<T>(arithmetic).softmax(2, static_cast<int>(keys), 1, scores.data());
        for (std::size_t i = 0; i < keys; ++i) EXPECT_TRUE(std::isnan(scores[i])) << at << " " << i;
        for (std::size_t i = keys; i < 2 * keys; ++i) {
          EXPECT_NEAR(scores[i], T(1) / T(keys), kEpsilon<T>);
        }
      }
    }
  }
}

// ---- Rotary positions

// A pair (1, 0) turns to (cosine, sine); the last position of the table, and the first ones beyond.
TYPED_TEST(BothOps, rotary_positions_beyond_the_table_turn_by_the_same_rule) {
  using T = TypeParam;
  Config config = tiny_config();
  config.positions = Positions::rotary;
  config.head_size = 4;
  config.context = 1 << 24;
  config.rotary_base = 10000;
  const RotaryTable<T> table = rotary_table<T>(config, config.rotary_base);
  EXPECT_EQ(table.cosine.size(), 2U * kRotaryPositionsMax);
  const int last = kRotaryPositionsMax - 1;
  for (const int position : {last, last + 1, last + 2, config.context - 1}) {
    std::vector<T> x{1, 1, 0, 0, 1, 1, 0, 0};  // [feature][row]
    rotate(table, RotaryPairs::interleaved, std::vector<int>{position, 0}, 4,
           View<T>{x.data(), 2, 4, 2});
    for (const std::size_t i : {0U, 1U}) {
      const long double frequency = i == 0 ? 1 : 1 / std::sqrt(10000.0L);
      const long double angle = position * frequency;
      const long double bound = kEpsilon<T> + 2 * angle * kEpsilon<long double>;
      EXPECT_LE(std::abs(x[4 * i] - std::cos(angle)), bound) << position;
      EXPECT_LE(std::abs(x[4 * i + 2] - std::sin(angle)), bound) << position;
      EXPECT_EQ(x[4 * i + 1], T(1)) << "position 0 stays";
    }
  }
}

TYPED_TEST(BothOps, only_the_first_dimensions_of_each_head_rotate) {
  using T = TypeParam;
  Config config = tiny_config();
  config.positions = Positions::rotary;
  config.head_size = 6;
  config.rotary_dimensions = 4;
  config.rotary_base = 100;
  const RotaryTable<T> table = rotary_table<T>(config, config.rotary_base);
  EXPECT_EQ(table.pairs, 2);
  for (const RotaryPairs pairs : {RotaryPairs::interleaved, RotaryPairs::halves}) {
    Draw draw{.seed = 4};
    const Placed<T> x(1, 12, {}, draw);  // two heads
    const std::vector<T> before = row_of(x.view(), 0);
    rotate(table, pairs, std::vector<int>{3}, 6, x.view());
    const std::vector<T> after = row_of(x.view(), 0);
    for (const std::size_t head : {0U, 6U}) {
      for (const std::size_t i : {0U, 1U}) {
        const std::size_t a = head + (pairs == RotaryPairs::halves ? i : 2 * i);
        const std::size_t b = pairs == RotaryPairs::halves ? a + 2 : a + 1;
        const long double angle = i == 0 ? 3.0L : 3 / std::sqrt(100.0L);  // over 4, not over 6
        const long double cosine = std::cos(angle), sine = std::sin(angle);
        EXPECT_NEAR(after[a], double(before[a] * cosine - before[b] * sine), 8 * kEpsilon<T>);
        EXPECT_NEAR(after[b], double(before[a] * sine + before[b] * cosine), 8 * kEpsilon<T>);
      }
      EXPECT_EQ(after[head + 4], before[head + 4]);
      EXPECT_EQ(after[head + 5], before[head + 5]);
    }
  }
}

// ---- ALiBi

// The paper's own numbers: for 8 heads, and for 12 by its code.
TEST(AlibiSlopes, are_those_of_the_paper) {
  const auto powers_of_two = [](const std::vector<long double>& exponents) {
    std::vector<long double> slopes;
    for (const long double exponent : exponents) slopes.push_back(std::exp2(exponent));
    return slopes;
  };
  EXPECT_EQ(alibi_slopes(1), powers_of_two({-8}));
  EXPECT_EQ(alibi_slopes(2), powers_of_two({-4, -8}));
  EXPECT_EQ(alibi_slopes(3), powers_of_two({-4, -8, -2}));
  EXPECT_EQ(alibi_slopes(6), powers_of_two({-2, -4, -6, -8, -1, -3}));
  EXPECT_EQ(alibi_slopes(8), powers_of_two({-1, -2, -3, -4, -5, -6, -7, -8}));
  EXPECT_EQ(alibi_slopes(12),
            powers_of_two({-1, -2, -3, -4, -5, -6, -7, -8, -0.5L, -1.5L, -2.5L, -3.5L}));
}

TYPED_TEST(BothOps, scores_fall_by_the_slope_of_their_head_times_the_distance_of_their_key) {
  using T = TypeParam;
  const std::vector<T> slopes{T(0.5L), T(2)};
  const std::vector<std::int64_t> distances{3, 0, -1};
  for (const Arithmetic arithmetic : {Arithmetic::row, Arithmetic::matrix}) {
    // [head][key][lane]
    std::vector<T> scores{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    ops_for<T>(arithmetic).lower(slopes, distances, 2, scores.data());
    const std::vector<T> expected{T(-0.5L), T(0.5L), 3, 4, T(5.5L), T(6.5L), 1, 2, 9, 10, 13, 14};
    EXPECT_EQ(scores, expected);
  }
}

// ---- Norms of heads

TYPED_TEST(BothOps, every_head_is_normed_as_if_it_were_alone) {
  using T = TypeParam;
  for (const Arithmetic arithmetic : {Arithmetic::row, Arithmetic::matrix}) {
    for (const int rows : {1, 2, 9}) {
      Draw draw{.seed = 5};
      const Placed<T> x(rows, 15, any_place(draw), draw);  // three heads of five
      const NormWeights<T> weights{normal_vector<T>(5, draw), {}};
      std::vector<std::vector<T>> expected;
      for (int r = 0; r < rows; ++r) expected.push_back(row_of(x.view(), r));
      for (auto& row : expected) {
        for (std::size_t head = 0; head < 15; head += 5) {
          long double squares = 0;
          for (std::size_t i = 0; i < 5; ++i) squares += row[head + i] * row[head + i];
          for (std::size_t i = 0; i < 5; ++i) {
            row[head + i] *=
                static_cast<T>(weights.scale[static_cast<int>(i)] / std::sqrt(squares / 5 + 0.25L));
          }
        }
      }
      normalize_heads(ops_for<T>(arithmetic), weights, T(0.25L), x.view());
      EXPECT_TRUE(x.just_filled());
      for (int r = 0; r < rows; ++r) {
        const std::vector<T> found = row_of(x.view(), r);
        for (std::size_t i = 0; i < 15; ++i) {
          EXPECT_NEAR(found[i], expected[static_cast<std::size_t>(r)][i],
                      16 * kEpsilon<T> * (1 + std::abs(found[i])));
        }
      }
    }
  }
}

}  // namespace
}  // namespace kvcheck
