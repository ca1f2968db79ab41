// SPDX-License-Identifier: MIT
// Matrix arithmetic: whole-matrix products and vectorised reductions, whose order of adding depends
// on shapes, as in shipped engines: a single row is multiplied by another kernel than a block, and
// so is a block of few rows by weights that are neither small nor large; few keys are summed and
// divided by in another way than many, small attentions scored in another way than large ones. The
// rest, and what is too small for a difference, is taken from row arithmetic. No softmax depends on
// where its scores lie.
#include "engine/row_ops_impl.h"

namespace kvcheck {
namespace {

template <Scalar T>
using ColumnMajor = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;
using Stride = Eigen::OuterStride<>;

template <Scalar T>
using MatrixMap = Eigen::Map<const ColumnMajor<T>, Eigen::Unaligned, Stride>;
template <Scalar T>
using ArrayMap = Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1>>;
template <Scalar T>
using ConstVectorMap = Eigen::Map<const Vector<T>>;

// Up to this many multiply-adds of kSmallRows rows the set-up of a blocked product costs more than
// the product, and with more rows it gains nothing: small weights are multiplied by the product of
// row arithmetic however many rows there are.
constexpr int kSmallProduct = 4096;
constexpr int kSmallRows = 8;

// Up to this many multiply-adds of a head the same is true of a product of a matrix and a vector.
constexpr int kSmallAttention = 256;

// Fewer numbers than that do not fill a register, and Eigen takes them one by one.
template <Scalar T>
constexpr int kRegister = std::max<int>(4, Eigen::internal::packet_traits<T>::size);

template <Scalar T>
void product(View<const T> x, const Matrix<T>& weight, const Vector<T>& bias, View<T> out) {
  const MatrixMap<T> from(x.data, x.rows, x.features, Stride(x.stride));
  Eigen::Map<ColumnMajor<T>, Eigen::Unaligned, Stride> to(out.data, out.rows, out.features,
                                                          Stride(out.stride));
  if (x.rows == 1) {
    Eigen::Map<Vector<T>, 0, Eigen::InnerStride<>> row(out.data, out.features,
                                                       Eigen::InnerStride<>(out.stride));
    const Eigen::Map<const Vector<T>, 0, Eigen::InnerStride<>> input(
        x.data, x.features, Eigen::InnerStride<>(x.stride));
    row.noalias() = weight.transpose() * input;
  } else if (std::int64_t{std::min(x.rows, kSmallRows)} * x.features * out.features <=
             kSmallProduct) {
    return row::product(x, weight, bias, out);
  } else {
    to.noalias() = from * weight;
  }
  if (bias.size() > 0) to.rowwise() += bias.transpose();
}

template <Scalar T>
void normalize(View<const T> x, const NormWeights<T>& weights, T epsilon, View<T> out) {
  if (x.rows > 1 || x.stride != 1 || out.stride != 1)
    return row::normalize(x, weights, epsilon, out);
  const Eigen::Map<const Eigen::Array<T, Eigen::Dynamic, 1>> from(x.data, x.features);
  ArrayMap<T> to(out.data, out.features);
  using std::sqrt;
  const T mean = weights.shift.size() > 0 ? from.mean() : T(0);
  to = from - mean;
  const T variance = to.square().mean();
  to *= (T(1) / sqrt(variance + epsilon)) * weights.scale.array();
  if (weights.shift.size() > 0) to += weights.shift.array();
}

template <Scalar T>
void scores(Heads heads, BlockShape shape, View<const T> query, View<const T> key,
            VisibleTokens visible, T scale, T* out) {
  if (shape.sequences > 1) {
    return row::scores(heads, shape, query, key, visible, scale, out);
  }
  const int size = heads.head_size;
  if (size * visible.count() <= kSmallAttention) {
    return row::scores_of_one<row::Scaled::query>(heads, query, key, visible, scale, out);
  }
  for (int h = 0; h < heads.query_heads; ++h) {
    const int kv = h / (heads.query_heads / heads.kv_heads);
    const MatrixMap<T> keys(key.feature(kv * size) + visible.first, visible.count(), size,
                            Stride(key.stride));
    const Eigen::Map<const Vector<T>, 0, Eigen::InnerStride<>> q(
        query.feature(h * size) + visible.last, size, Eigen::InnerStride<>(query.stride));
    Eigen::Map<Vector<T>> to(out + h * visible.count(), visible.count());
    to.noalias() = scale * (keys * q);
  }
}

// The exponentials of all heads side by side, then a reciprocal instead of a division for each key.
template <Scalar T>
void softmax_of_few_keys(int heads, int keys, T* scores) {
  row::subtract_largest_of_heads(heads, keys, scores);
  for (int i = 0; i < heads * keys; ++i) scores[i] = row::exponential<T>(scores[i]);
  for (T* head = scores; head < scores + heads * keys; head += keys) {
    T sum = T(0);
    for (int k = 0; k < keys; ++k) sum = sum + head[k];
    const T reciprocal = T(1) / sum;
    for (int k = 0; k < keys; ++k) head[k] = head[k] * reciprocal;
  }
}

// Sums of as many keys as are taken together, added up at the end. Not a sum of Eigen's, which
// begins at an aligned address: the same scores must give the same wherever they lie.
template <Scalar T>
void softmax_of_head(int keys, T* scores) {
  constexpr int kTogether = 8;
  const T largest = ArrayMap<T>(scores, keys).maxCoeff();
  row::Lanes<T, kTogether> sums = row::Lanes<T, kTogether>::Zero();
  T rest = T(0);
  row::chunks(keys, [&](auto width, int k) {
    constexpr int W = decltype(width)::value;
    auto some = row::lanes<W>(scores + k);
    some = (some - largest).exp();
    if constexpr (W == kTogether) {
      sums += some;
    } else {
      rest += some.sum();
    }
  });
  const T sum = sums.sum() + rest;
  row::chunks(keys,
              [&](auto width, int k) { row::lanes<decltype(width)::value>(scores + k) /= sum; });
}

template <Scalar T>
void softmax(int heads, int keys, int lanes, T* scores) {
  if (lanes > 1) return row::softmax(heads, keys, lanes, scores);
  if (keys < kRegister<T>) return softmax_of_few_keys(heads, keys, scores);
  for (int h = 0; h < heads; ++h) softmax_of_head(keys, scores + h * keys);
}

template <Scalar T>
void mix(Heads heads, BlockShape shape, const T* probabilities, View<const T> value,
         VisibleTokens visible, View<T> out) {
  if (shape.sequences > 1) return row::mix(heads, shape, probabilities, value, visible, out);
  const int size = heads.head_size;
  for (int h = 0; h < heads.query_heads; ++h) {
    const int kv = h / (heads.query_heads / heads.kv_heads);
    const MatrixMap<T> values(value.feature(kv * size) + visible.first, visible.count(), size,
                              Stride(value.stride));
    const ConstVectorMap<T> p(probabilities + h * visible.count(), visible.count());
    Eigen::Map<Vector<T>, 0, Eigen::InnerStride<>> to(out.feature(h * size) + visible.last, size,
                                                      Eigen::InnerStride<>(out.stride));
    to.noalias() = values.transpose() * p;
  }
}

template <Scalar T>
void cached_scores(Heads heads, const T* query, const CachedRows<T>& keys, T scale, T* out) {
  const int size = heads.head_size;
  if (size < kRegister<T>) return row::cached_scores(heads, query, keys, scale, out);
  for (int h = 0; h < heads.query_heads; ++h) {
    const ConstVectorMap<T> q(query + h * size, size);
    const T* base = keys.base + keys.kv_head_of[static_cast<std::size_t>(h)] * size;
    for (const int slot : keys.slots) {
      *out++ = scale * q.dot(ConstVectorMap<T>(base + slot * keys.stride, size));
    }
  }
}

}  // namespace

template <Scalar T>
const Ops<T>& matrix_ops() {
  static constexpr Ops<T> kOps{
      .arithmetic = Arithmetic::matrix,
      .product = product<T>,
      .normalize = normalize<T>,
      .gelu_tanh = row::gelu_tanh<T>,
      .swiglu = row::swiglu<T>,
      .geglu = row::geglu<T>,
      .add = row::add<T>,
      .soft_cap = row::soft_cap<T>,
      .scores = scores<T>,
      .lower = row::lower<T>,
      .softmax = softmax<T>,
      .mix = mix<T>,
      .cached_scores = cached_scores<T>,
      .cached_mix = row::cached_mix<T>,
  };
  return kOps;
}

template const Ops<float>& matrix_ops<float>();
template const Ops<double>& matrix_ops<double>();
template const Ops<long double>& matrix_ops<long double>();

}  // namespace kvcheck
