// SPDX-License-Identifier: MIT
// Row arithmetic for any scalar. Every kernel works on chunks of rows (or, for a single row, of
// outputs), and each element of a chunk sees the same operations in the same order as a lone one
// would: vector registers only run several elements side by side.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "engine/ops.h"

namespace kvcheck::row {

template <typename T, int W>
using Lanes = Eigen::Array<T, W, 1>;
template <int W>
using Width = std::integral_constant<int, W>;

template <int W, typename T>
Eigen::Map<Lanes<std::remove_const_t<T>, W>> lanes(T* at) requires(!std::is_const_v<T>) {
  return Eigen::Map<Lanes<T, W>>(at);
}
template <int W, typename T>
Eigen::Map<const Lanes<T, W>> lanes(const T* at) {
  return Eigen::Map<const Lanes<T, W>>(at);
}

// Calls work(Width<W>, first) until `count` elements are covered, widest first.
template <int Widest = 8, typename Work>
void chunks(int count, Work work) {
  int at = 0;
  for (; Widest > 8 && at + Widest <= count; at += Widest) work(Width<Widest>{}, at);
  for (; at + 8 <= count; at += 8) work(Width<8>{}, at);
  for (; at + 4 <= count; at += 4) work(Width<4>{}, at);
  for (; at < count; ++at) work(Width<1>{}, at);
}

// e^x for float and double from multiplications and additions only, so that an element does not
// depend on its neighbours: range reduction by ln 2 in two parts (Cody and Waite), then the Taylor
// series on |r| <= ln 2 / 2, whose first dropped term is below a quarter of an ULP. Below the
// smallest normal result 0; above 88 (float) and 709 (double) infinity; NaN stays NaN.
template <typename T>
struct ExpConstants;
template <>
struct ExpConstants<float> {
  using Bits = std::uint32_t;
  static constexpr float kLow = -87.0f, kHigh = 88.0f;
  static constexpr float kShift = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  static constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  static constexpr int kMantissa = 23, kBias = 127, kTerms = 7;
};
template <>
struct ExpConstants<double> {
  using Bits = std::uint64_t;
  static constexpr double kLow = -708.0, kHigh = 709.0;
  static constexpr double kShift = 6755399441055744.0;  // 1.5 * 2^52
  static constexpr double kLn2High = 0.693147180369123816490, kLn2Low = 1.90821492927058770002e-10;
  static constexpr int kMantissa = 52, kBias = 1023, kTerms = 13;
};

// 1 / n!
template <typename T>
constexpr T reciprocal_factorial(int n) {
  long double product = 1;
  for (int i = 2; i <= n; ++i) product *= i;
  return static_cast<T>(1 / product);
}

// r and its powers of two.
template <typename T>
struct Powers {
  T first;
  T second = first * first;
  T fourth = second * second;
  T eighth = fourth * fourth;
};

// `Count` terms r^(i - First) / i! from i = First on, halves side by side (Estrin's scheme):
// Horner's would leave each step waiting for the one before. By recursion, since a loop would keep
// the compiler from running the elements of a block side by side.
template <int First, int Count, typename T>
inline T exponential_terms(const Powers<T>& r) {
  if constexpr (Count == 1) {
    return reciprocal_factorial<T>(First);
  } else {
    constexpr int half = static_cast<int>(std::bit_ceil(static_cast<unsigned>(Count)) / 2);
    const T power = half == 1 ? r.first : half == 2 ? r.second : half == 4 ? r.fourth : r.eighth;
    return exponential_terms<First, half>(r) +
           power * exponential_terms<First + half, Count - half>(r);
  }
}

// The terms r^(i - N) / i! from i = N on. The two largest are added last, so that their sum is
// rounded about as a sum from the smallest term on would be.
template <int N, typename T>
inline T exponential_series(T r) {
  const Powers<T> powers{r};
  const T rest = exponential_terms<N + 2, ExpConstants<T>::kTerms - N - 1>(powers);
  return reciprocal_factorial<T>(N) + (r * reciprocal_factorial<T>(N + 1) + powers.second * rest);
}

template <typename T>
inline T exponential(T x) {
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
    using C = ExpConstants<T>;
    constexpr T infinity = std::numeric_limits<T>::infinity();
    // Written so that a NaN is kept: both comparisons are false for it.
    const T low = x < C::kLow ? C::kLow : x;
    const T bounded = low > C::kHigh ? C::kHigh : low;
    const T shifted = bounded * static_cast<T>(1.4426950408889634074L) + C::kShift;
    const T whole = shifted - C::kShift;
    const T r = (bounded - whole * C::kLn2High) - whole * C::kLn2Low;
    const T series = exponential_series<0>(r);
    const auto bits = std::bit_cast<typename C::Bits>(shifted);
    const auto within = static_cast<typename C::Bits>((bits + C::kBias) << C::kMantissa);
    // The power of two is chosen instead of the result: a compiler would otherwise do what follows
    // once for each result, a division for instance, and choose then.
    const auto power = x > C::kHigh ? std::bit_cast<typename C::Bits>(infinity) : within;
    return series * std::bit_cast<T>(x < C::kLow ? typename C::Bits{0} : power);
  } else {
    using std::exp;
    return exp(x);
  }
}

// tanh x = m / (m + 2) with m = e^2x - 1, of |x|: near 0 from the series without its first term,
// elsewhere nothing cancels. Beyond 20 it is 1 in double. A NaN stays one, and so does -0.
template <typename T>
inline T hyperbolic_tangent(T x) {
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
    constexpr T flat = 20;
    constexpr T near = T(0.34L);  // ln 2 / 2: what the series is made for
    const T size = x < T(0) ? -x : x;
    const T twice = T(2) * (size > flat ? flat : size);
    const T series = exponential_series<1>(twice) * twice;
    const T difference = exponential<T>(twice) - T(1);
    const T m = twice < near ? series : difference;
    const T result = m / (m + T(2));
    return x < T(0) ? -result : result;
  } else {
    using std::tanh;
    return tanh(x);
  }
}

// Columns of a weight: entry [k, j], of output first + j, lies at data[k * stride + j].
template <typename T>
struct Columns {
  const T* data;
  std::ptrdiff_t stride;
  int first;
  int count;
};

template <Scalar T>
void product_of_chunk(View<const T> x, const Columns<T>& weight, const Vector<T>& bias, View<T> out,
                      int first, auto width) {
  constexpr int W = decltype(width)::value;
  constexpr int kTogether = 4;  // outputs at once: enough independent sums to hide their latency
  const auto outputs = [&](auto together, int j) {
    constexpr int N = decltype(together)::value;
    Lanes<T, W> sum[N];
    for (auto& s : sum) s.setConstant(T(0));
    const T* w = weight.data + j;
    for (int k = 0; k < x.features; ++k, w += weight.stride) {
      const Lanes<T, W> xs = lanes<W>(x.feature(k) + first);
      for (int n = 0; n < N; ++n) sum[n] += xs * w[n];
    }
    for (int n = 0; n < N; ++n) {
      const int o = weight.first + j + n;
      if (bias.size() > 0) sum[n] += bias[o];
      lanes<W>(out.feature(o) + first) = sum[n];
    }
  };
  int j = 0;
  for (; j + kTogether <= weight.count; j += kTogether) outputs(Width<kTogether>{}, j);
  for (; j < weight.count; ++j) outputs(Width<1>{}, j);
}

template <Scalar T>
void product_of_row(View<const T> x, const Columns<T>& weight, const Vector<T>& bias, View<T> out,
                    int row) {
  const auto outputs = [&](auto width, auto together, int j) {
    constexpr int W = decltype(width)::value;
    constexpr int N = decltype(together)::value;
    Lanes<T, W> sum[N];
    for (auto& s : sum) s.setConstant(T(0));
    const T* w = weight.data + j;
    for (int k = 0; k < x.features; ++k, w += weight.stride) {
      const T input = x.feature(k)[row];
      for (int n = 0; n < N; ++n) sum[n] += lanes<W>(w + n * W) * input;
    }
    for (int n = 0; n < N; ++n) {
      const int o = weight.first + j + n * W;
      if (bias.size() > 0) sum[n] += lanes<W>(bias.data() + o);
      for (int i = 0; i < W; ++i) out.feature(o + i)[row] = sum[n][i];
    }
  };
  // A wide weight is read by whole cache lines, some at once.
  constexpr int kLanes = 16, kTogether = 4;
  int j = 0;
  for (; j + kLanes * kTogether <= weight.count; j += kLanes * kTogether) {
    outputs(Width<kLanes>{}, Width<kTogether>{}, j);
  }
  chunks(weight.count - j, [&](auto width, int rest) { outputs(width, Width<1>{}, j + rest); });
}

// A weight of more numbers than that does not stay in a cache while chunk after chunk of the rows
// is multiplied with it: some columns at a time do, once they lie side by side.
constexpr std::ptrdiff_t kWeightInCache = 1 << 16;
constexpr int kColumnsInCache = 64;

template <Scalar T>
void product(View<const T> x, const Matrix<T>& weight, const Vector<T>& bias, View<T> out) {
  const auto multiply = [&](const Columns<T>& columns) {
    // Wide chunks pay once their sums are long enough to hide how they begin and end.
    constexpr int kWide = 16, kLongSum = 32;
    int first = 0;
    for (; x.features >= kLongSum && first + kWide <= x.rows; first += kWide) {
      product_of_chunk(x, columns, bias, out, first, Width<kWide>{});
    }
    chunks(x.rows - first, [&](auto width, int rest) {
      if constexpr (decltype(width)::value == 1) {
        product_of_row(x, columns, bias, out, first + rest);
      } else {
        product_of_chunk(x, columns, bias, out, first + rest, width);
      }
    });
  };
  if (x.rows == 1 || weight.size() <= kWeightInCache) {
    return multiply({weight.data(), weight.outerStride(), 0, out.features});
  }
  AlignedVector<T> copied(static_cast<std::size_t>(x.features) * kColumnsInCache);
  for (int first = 0; first < out.features; first += kColumnsInCache) {
    const int count = std::min(kColumnsInCache, out.features - first);
    for (int k = 0; k < x.features; ++k) {
      std::copy_n(weight.data() + k * weight.outerStride() + first, count,
                  copied.data() + std::ptrdiff_t{k} * kColumnsInCache);
    }
    multiply({copied.data(), kColumnsInCache, first, count});
  }
}

template <Scalar T>
void normalize(View<const T> x, const NormWeights<T>& weights, T epsilon, View<T> out) {
  const bool centred = weights.shift.size() > 0;
  const int width = x.features;
  // Wide enough to hide how long a division and a square root take.
  chunks<16>(x.rows, [&](auto lanes_width, int first) {
    constexpr int W = decltype(lanes_width)::value;
    using L = Lanes<T, W>;
    L mean = L::Constant(T(0));
    if (centred) {
      for (int f = 0; f < width; ++f) mean += lanes<W>(x.feature(f) + first);
      mean /= T(width);
    }
    L squares = L::Constant(T(0));
    for (int f = 0; f < width; ++f) {
      const L centre = lanes<W>(x.feature(f) + first) - mean;
      squares += centre * centre;
    }
    squares = squares / T(width) + epsilon;
    L inverse;
    // Not Eigen's square root, which may be an approximation.
    for (int j = 0; j < W; ++j) {
      using std::sqrt;
      inverse[j] = T(1) / sqrt(squares[j]);
    }
    for (int f = 0; f < width; ++f) {
      L y = (lanes<W>(x.feature(f) + first) - mean) * inverse * weights.scale[f];
      if (centred) y += weights.shift[f];
      lanes<W>(out.feature(f) + first) = y;
    }
  });
}

// Calls work(first, count) for the stretches of elements that lie side by side: the whole block
// where its features follow each other without a gap.
template <typename T, typename Work>
void stretches(View<T> x, Work work) {
  if (x.stride == x.rows) {
    work(std::ptrdiff_t{0}, x.rows * x.features);
  } else {
    for (int f = 0; f < x.features; ++f) work(f * x.stride, x.rows);
  }
}

// 0.5 x (1 + tanh(u)) with u = sqrt(2/pi) (x + 0.044715 x^3) is x / (1 + e^(-2u)): Hendrycks and
// Gimpel (arXiv 1606.08415), the approximation that GPT-2 uses.
template <Scalar T>
T gelu_tanh_of(T x) {
  const T linear = T(-1.5957691216057307117597842397375L);  // -2 sqrt(2/pi)
  const T exponent = linear * (x + T(0.044715L) * (x * x * x));
  return x / (T(1) + exponential<T>(exponent));
}

template <Scalar T>
void gelu_tanh(View<T> x) {
  stretches(x, [&](std::ptrdiff_t first, int count) {
    T* v = x.data + first;
    for (int i = 0; i < count; ++i) v[i] = gelu_tanh_of(v[i]);
  });
}

// `gate` and `up` have the same shape and stride.
template <Scalar T>
void swiglu(View<const T> gate, View<T> up) {
  stretches(up, [&](std::ptrdiff_t first, int count) {
    const T* g = gate.data + first;
    T* u = up.data + first;
    for (int i = 0; i < count; ++i) u[i] = g[i] / (T(1) + exponential<T>(-g[i])) * u[i];
  });
}

// `gate` and `up` have the same shape and stride.
template <Scalar T>
void geglu(View<const T> gate, View<T> up) {
  stretches(up, [&](std::ptrdiff_t first, int count) {
    const T* g = gate.data + first;
    T* u = up.data + first;
    for (int i = 0; i < count; ++i) u[i] = gelu_tanh_of(g[i]) * u[i];
  });
}

// `x` and `sum` have the same shape and stride.
template <Scalar T>
void add(View<const T> x, View<T> sum) {
  stretches(sum, [&](std::ptrdiff_t first, int count) {
    const T* from = x.data + first;
    T* to = sum.data + first;
    for (int i = 0; i < count; ++i) to[i] = to[i] + from[i];
  });
}

template <Scalar T>
void soft_cap(View<T> x, T cap) {
  stretches(x, [&](std::ptrdiff_t first, int count) {
    T* v = x.data + first;
    for (int i = 0; i < count; ++i) v[i] = cap * hyperbolic_tangent<T>(v[i] / cap);
  });
}

template <Scalar T>
void lower(std::span<const T> slopes, std::span<const std::int64_t> distances, int lanes_count,
           T* scores) {
  for (const T& slope : slopes) {
    for (const std::int64_t distance : distances) {
      const T fall = slope * static_cast<T>(distance);
      for (int b = 0; b < lanes_count; ++b) scores[b] = scores[b] - fall;
      scores += lanes_count;
    }
  }
}

// Of one sequence: keys side by side. The scale is that of the sums, or of the query before.
enum class Scaled { sum, query };
template <Scaled kScaled, Scalar T>
void scores_of_one(Heads heads, View<const T> query, View<const T> key, VisibleTokens visible,
                   T scale, T* out) {
  const int size = heads.head_size;
  for (int h = 0; h < heads.query_heads; ++h, out += visible.count()) {
    const int kv = h / (heads.query_heads / heads.kv_heads);
    chunks(visible.count(), [&](auto width, int k) {
      constexpr int W = decltype(width)::value;
      Lanes<T, W> sum = Lanes<T, W>::Constant(T(0));
      for (int d = 0; d < size; ++d) {
        T q = query.feature(h * size + d)[visible.last];
        if constexpr (kScaled == Scaled::query) q = q * scale;
        sum += lanes<W>(key.feature(kv * size + d) + visible.first + k) * q;
      }
      if constexpr (kScaled == Scaled::sum) sum = sum * scale;
      lanes<W>(out + k) = sum;
    });
  }
}

template <Scalar T>
void scores(Heads heads, BlockShape shape, View<const T> query, View<const T> key,
            VisibleTokens visible, T scale, T* out) {
  if (shape.sequences == 1) {
    return scores_of_one<Scaled::sum>(heads, query, key, visible, scale, out);
  }
  const int lanes_count = shape.sequences;
  const int keys = visible.count();
  for (int h = 0; h < heads.query_heads; ++h) {
    const int kv = h / (heads.query_heads / heads.kv_heads);
    for (int key_index = 0; key_index < keys; ++key_index) {
      T* to = out + (h * keys + key_index) * lanes_count;
      const int q_row = visible.last * lanes_count;
      const int k_row = (visible.first + key_index) * lanes_count;
      chunks(lanes_count, [&](auto width, int b) {
        constexpr int W = decltype(width)::value;
        Lanes<T, W> sum = Lanes<T, W>::Constant(T(0));
        for (int d = 0; d < heads.head_size; ++d) {
          sum += lanes<W>(query.feature(h * heads.head_size + d) + q_row + b) *
                 lanes<W>(key.feature(kv * heads.head_size + d) + k_row + b);
        }
        lanes<W>(to + b) = sum * scale;
      });
    }
  }
}

template <Scalar T>
void subtract_largest(int keys, int lanes_count, T* scores) {
  chunks(lanes_count, [&](auto width, int b) {
    constexpr int W = decltype(width)::value;
    Lanes<T, W> largest = lanes<W>(scores + b);
    for (int k = 1; k < keys; ++k) {
      const Lanes<T, W> next = lanes<W>(scores + k * lanes_count + b);
      for (int j = 0; j < W; ++j) largest[j] = largest[j] < next[j] ? next[j] : largest[j];
    }
    for (int k = 0; k < keys; ++k) lanes<W>(scores + k * lanes_count + b) -= largest;
  });
}

template <Scalar T>
void divide_by_sum(int keys, int lanes_count, T* scores) {
  chunks(lanes_count, [&](auto width, int b) {
    constexpr int W = decltype(width)::value;
    Lanes<T, W> sum = Lanes<T, W>::Constant(T(0));
    for (int k = 0; k < keys; ++k) sum += lanes<W>(scores + k * lanes_count + b);
    for (int k = 0; k < keys; ++k) lanes<W>(scores + k * lanes_count + b) /= sum;
  });
}

// Of one sequence; the largest is the same in any order.
template <Scalar T>
void subtract_largest_of_heads(int heads, int keys, T* scores) {
  for (T* row = scores; row < scores + heads * keys; row += keys) {
    T largest = row[0];
    for (int k = 1; k < keys; ++k) largest = largest < row[k] ? row[k] : largest;
    for (int k = 0; k < keys; ++k) row[k] = row[k] - largest;
  }
}

// Of one sequence. Sums are added up key by key, those of several heads side by side.
template <Scalar T>
void softmax_of_one(int heads, int keys, T* scores) {
  subtract_largest_of_heads(heads, keys, scores);
  for (int i = 0; i < heads * keys; ++i) scores[i] = exponential<T>(scores[i]);
  chunks(heads, [&](auto width, int h) {
    constexpr int W = decltype(width)::value;
    T* const first = scores + h * keys;
    T sum[W];
    for (int j = 0; j < W; ++j) sum[j] = T(0);
    for (int k = 0; k < keys; ++k) {
      for (int j = 0; j < W; ++j) sum[j] = sum[j] + first[j * keys + k];
    }
    for (int j = 0; j < W; ++j) {
      for (int k = 0; k < keys; ++k) first[j * keys + k] = first[j * keys + k] / sum[j];
    }
  });
}

template <Scalar T>
void softmax(int heads, int keys, int lanes_count, T* scores) {
  if (lanes_count == 1) return softmax_of_one(heads, keys, scores);
  const int size = keys * lanes_count;
  for (int h = 0; h < heads; ++h) subtract_largest(keys, lanes_count, scores + h * size);
  // Of all heads in one go: a few keys would not fill a register.
  for (int i = 0; i < heads * size; ++i) scores[i] = exponential<T>(scores[i]);
  for (int h = 0; h < heads; ++h) divide_by_sum(keys, lanes_count, scores + h * size);
}

// Of one sequence: dimensions of a head side by side.
template <Scalar T>
void mix_of_one(Heads heads, const T* probabilities, View<const T> value, VisibleTokens visible,
                View<T> out) {
  const int keys = visible.count();
  for (int h = 0; h < heads.query_heads; ++h) {
    const int kv = h / (heads.query_heads / heads.kv_heads);
    const T* const p = probabilities + h * keys;
    chunks(heads.head_size, [&](auto width, int d) {
      constexpr int W = decltype(width)::value;
      const T* const v = value.feature(kv * heads.head_size + d) + visible.first;
      T sum[W];
      for (int j = 0; j < W; ++j) sum[j] = T(0);
      for (int k = 0; k < keys; ++k) {
        for (int j = 0; j < W; ++j) sum[j] = sum[j] + p[k] * v[j * value.stride + k];
      }
      for (int j = 0; j < W; ++j) out.feature(h * heads.head_size + d + j)[visible.last] = sum[j];
    });
  }
}

template <Scalar T>
void mix(Heads heads, BlockShape shape, const T* probabilities, View<const T> value,
         VisibleTokens visible, View<T> out) {
  if (shape.sequences == 1) return mix_of_one(heads, probabilities, value, visible, out);
  const int lanes_count = shape.sequences;
  const int keys = visible.count();
  for (int h = 0; h < heads.query_heads; ++h) {
    const int kv = h / (heads.query_heads / heads.kv_heads);
    const T* p = probabilities + h * keys * lanes_count;
    for (int d = 0; d < heads.head_size; ++d) {
      const T* v = value.feature(kv * heads.head_size + d) + visible.first * lanes_count;
      T* to = out.feature(h * heads.head_size + d) + visible.last * lanes_count;
      chunks(lanes_count, [&](auto width, int b) {
        constexpr int W = decltype(width)::value;
        Lanes<T, W> sum = Lanes<T, W>::Constant(T(0));
        for (int k = 0; k < keys; ++k) {
          sum += lanes<W>(p + k * lanes_count + b) * lanes<W>(v + k * lanes_count + b);
        }
        lanes<W>(to + b) = sum;
      });
    }
  }
}

template <Scalar T>
void cached_scores(Heads heads, const T* query, const CachedRows<T>& keys, T scale, T* out) {
  const auto scores_of_size = [&](auto head_size) {  // the smallest are known to the compiler
    const int size = head_size;
    for (int h = 0; h < heads.query_heads; ++h) {
      const T* q = query + h * size;
      const T* base = keys.base + keys.kv_head_of[static_cast<std::size_t>(h)] * size;
      for (const int slot : keys.slots) {
        const T* k = base + slot * keys.stride;
        T sum = T(0);
        for (int d = 0; d < size; ++d) sum = sum + q[d] * k[d];
        *out++ = sum * scale;
      }
    }
  };
  if (heads.head_size == 2) return scores_of_size(Width<2>{});
  scores_of_size(heads.head_size);
}

template <Scalar T>
void cached_mix(Heads heads, const T* probabilities, const CachedRows<T>& values, T* out) {
  const int size = heads.head_size;
  for (int h = 0; h < heads.query_heads; ++h) {
    const T* p = probabilities + static_cast<std::ptrdiff_t>(h * values.slots.size());
    const T* base = values.base + values.kv_head_of[static_cast<std::size_t>(h)] * size;
    T* to = out + h * size;
    const auto dimensions = [&](auto width, int d) {
      constexpr int W = decltype(width)::value;
      Lanes<T, W> sum = Lanes<T, W>::Constant(T(0));
      for (std::size_t i = 0; i < values.slots.size(); ++i) {
        sum += lanes<W>(base + values.slots[i] * values.stride + d) * p[i];
      }
      lanes<W>(to + d) = sum;
    };
    // The smallest heads there are need not go over their keys twice.
    if (size == 2) {
      dimensions(Width<2>{}, 0);
    } else {
      chunks(size, dimensions);
    }
  }
}

}  // namespace kvcheck::row

namespace kvcheck {

template <Scalar T>
const Ops<T>& row_ops() {
  static constexpr Ops<T> kOps{
      .arithmetic = Arithmetic::row,
      .product = row::product<T>,
      .normalize = row::normalize<T>,
      .gelu_tanh = row::gelu_tanh<T>,
      .swiglu = row::swiglu<T>,
      .geglu = row::geglu<T>,
      .add = row::add<T>,
      .soft_cap = row::soft_cap<T>,
      .scores = row::scores<T>,
      .lower = row::lower<T>,
      .softmax = row::softmax<T>,
      .mix = row::mix<T>,
      .cached_scores = row::cached_scores<T>,
      .cached_mix = row::cached_mix<T>,
  };
  return kOps;
}

// Cosine and sine of the angle by which a pair is rotated.
template <Scalar T>
struct Turn {
  T cosine;
  T sine;
};

template <Scalar T>
Turn<T> turn_of(int position, long double frequency) {
  const long double angle = position * frequency;
  return {static_cast<T>(std::cos(angle)), static_cast<T>(std::sin(angle))};
}

template <Scalar T>
RotaryTable<T> rotary_table(const Config& config, double base) {
  RotaryTable<T> table;
  table.pairs = config.rotated() / 2;
  for (int i = 0; i < table.pairs; ++i) {
    const long double exponent = -2.0L * i / config.rotated();
    const long double divisor =
        config.rotary_divisors.empty() ? 1 : config.rotary_divisors[static_cast<std::size_t>(i)];
    table.frequencies.push_back(std::pow(static_cast<long double>(base), exponent) / divisor);
  }
  table.positions = std::min(config.context, kRotaryPositionsMax);
  for (int position = 0; position < table.positions; ++position) {
    for (const long double frequency : table.frequencies) {
      const Turn<T> turn = turn_of<T>(position, frequency);
      table.cosine.push_back(turn.cosine);
      table.sine.push_back(turn.sine);
    }
  }
  return table;
}

// turn_at(position, i) is that of pair i.
template <Scalar T, typename TurnAt>
void rotate_by(TurnAt turn_at, const RotaryTable<T>& table, RotaryPairs pairs,
               std::span<const int> positions, int head_size, View<T> x) {
  const bool halves = pairs == RotaryPairs::halves;
  for (int head = 0; head < x.features / head_size; ++head) {
    for (int i = 0; i < table.pairs; ++i) {
      const int first = head * head_size + (halves ? i : 2 * i);
      T* a = x.feature(first);
      T* b = x.feature(first + (halves ? table.pairs : 1));
      for (int r = 0; r < x.rows; ++r) {
        const Turn<T> turn = turn_at(positions[static_cast<std::size_t>(r)], i);
        const T rotated = a[r] * turn.cosine - b[r] * turn.sine;
        b[r] = a[r] * turn.sine + b[r] * turn.cosine;
        a[r] = rotated;
      }
    }
  }
}

template <Scalar T>
void rotate(const RotaryTable<T>& table, RotaryPairs pairs, std::span<const int> positions,
            int head_size, View<T> x) {
  const auto known = [&](int position) { return position >= 0 && position < table.positions; };
  if (std::all_of(positions.begin(), positions.end(), known)) {
    const auto look_up = [&](int position, int i) {
      const auto at = static_cast<std::size_t>(position * table.pairs + i);
      return Turn<T>{table.cosine[at], table.sine[at]};
    };
    rotate_by(look_up, table, pairs, positions, head_size, x);
  } else {
    const auto compute = [&](int position, int i) {
      return turn_of<T>(position, table.frequencies[static_cast<std::size_t>(i)]);
    };
    rotate_by(compute, table, pairs, positions, head_size, x);
  }
}

}  // namespace kvcheck
