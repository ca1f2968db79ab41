// SPDX-License-Identifier: MIT
// The weights of a decoder, a plain value. Every matrix is [in, out] with the outputs of one input
// side by side, so that one row times a matrix and a block of rows times a matrix both read it
// forwards.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config.h"
#include "engine/scalar.h"

namespace kvcheck {

template <Scalar T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <Scalar T>
using Vector = Eigen::Matrix<T, Eigen::Dynamic, 1>;

// y = x weight + bias; an empty bias is none.
template <Scalar T>
struct Linear {
  Matrix<T> weight;  // [in, out]
  Vector<T> bias;    // [out] or empty
};

// LayerNorm: (x - mean) / sqrt(variance + epsilon) * scale + shift. RMSNorm: x / sqrt(mean of
// squares + epsilon) * scale, shift empty.
template <Scalar T>
struct NormWeights {
  Vector<T> scale;  // [width], or [head_size] for a norm of heads
  Vector<T> shift;  // [width] or empty
};

template <Scalar T>
struct Layer {
  NormWeights<T> attention_norm;
  Linear<T> query;                     // [width, query_heads * head_size]
  Linear<T> key;                       // [width, kv_heads * head_size]
  Linear<T> value;                     // [width, kv_heads * head_size]
  NormWeights<T> query_norm;           // of each head, [head_size], scale only; with head_norm
  NormWeights<T> key_norm;             // likewise
  Linear<T> attention_output;          // [query_heads * head_size, width]
  NormWeights<T> attention_post_norm;  // with post_norms
  NormWeights<T> mlp_norm;
  Linear<T> mlp_gate;            // [width, mlp_width], where the MLP has a gate
  Linear<T> mlp_up;              // [width, mlp_width]
  Linear<T> mlp_down;            // [mlp_width, width]
  NormWeights<T> mlp_post_norm;  // with post_norms
};

template <Scalar T>
struct Model {
  Config config;
  Matrix<T> embedding;  // [vocabulary, width]
  Matrix<T> positions;  // [context, width], learned positions only
  std::vector<Layer<T>> layers;
  NormWeights<T> final_norm;
  Matrix<T> output;  // [width, vocabulary]; when tied, the transpose of the embedding
};

// Which part of the decoder a tensor belongs to, for the parameter count.
enum class Part { embedding, positions, attention, mlp, norms, output };
[[nodiscard]] std::string_view name(Part part);

// One stored tensor, seen in place: its name in a file, its shape, its numbers row by row.
template <typename T>  // a Scalar, or a const one where the model is only read
struct TensorRef {
  std::string name;
  Part part;
  std::vector<std::int64_t> shape;
  std::span<T> values;
};

// The one list of a model's tensors, in file order: reading, writing, counting, casting and drawing
// random weights all go through it. A tied output is not in it: call tie_output() after changing
// the embedding.
template <Scalar T>
[[nodiscard]] std::vector<TensorRef<T>> tensors(Model<T>& model);
template <Scalar T>
[[nodiscard]] std::vector<TensorRef<const T>> tensors(const Model<T>& model);

// All weights zero, all shapes as the (valid) configuration says.
template <Scalar T>
[[nodiscard]] Model<T> make_model(const Config& config);

// Makes the output the transpose of the embedding where the configuration ties them.
template <Scalar T>
void tie_output(Model<T>& model);

template <Scalar To, Scalar From>
[[nodiscard]] Model<To> cast(const Model<From>& model);

// What a file of such a model must hold; nothing is allocated for the weights themselves.
struct TensorShape {
  std::string name;
  Part part;
  std::vector<std::int64_t> shape;  // one or two dimensions

  [[nodiscard]] std::int64_t count() const;
};
[[nodiscard]] std::vector<TensorShape> tensor_shapes(const Config& config);

// Parameters in all, or of one part.
[[nodiscard]] std::int64_t parameter_count(const Config& config);
[[nodiscard]] std::int64_t parameter_count(const Config& config, Part part);

}  // namespace kvcheck
