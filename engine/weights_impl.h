// SPDX-License-Identifier: MIT
// Bodies of weights.h for any scalar; weights.cpp instantiates the usual ones.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "engine/model_impl.h"
#include "engine/weights.h"

namespace kvcheck {
namespace weights_impl {

// Turns the tensors of `from` whose names begin so into those of `to` that begin with `to_prefix`,
// which there are as many of.
template <Scalar T>
void widen(const std::vector<TensorRef<const float>>& from, const std::string& from_prefix,
           Model<T>& to, const std::string& to_prefix) {
  auto at = from.begin();
  for (const TensorRef<T>& tensor : tensors(to)) {
    if (!tensor.name.starts_with(to_prefix)) continue;
    at = std::find_if(at, from.end(),
                      [&](const auto& one) { return one.name.starts_with(from_prefix); });
    std::transform(at->values.begin(), at->values.end(), tensor.values.begin(),
                   [](float value) { return static_cast<T>(value); });
    ++at;
  }
}

// The same with one layer and hardly any table.
inline Config one_layer_of(Config config) {
  config.layers = 1;
  config.windows.assign(1, 0);
  config.vocabulary = 1;
  config.context = 1;
  return config;
}

}  // namespace weights_impl

template <Scalar T>
Weights<T>::Weights(HeldModel model) : config_(&model->config) {
  const std::string norm = "final_norm.";
  std::vector<TensorRef<const float>> tensors_of = tensors(*model);
  parts_ = std::make_shared<Parts>(
      Parts{.narrow = std::move(model),
            .tensors = std::move(tensors_of),
            .one_layer = make_model<T>(weights_impl::one_layer_of(*config_)),
            .output = {}});
  weights_impl::widen(parts_->tensors, norm, parts_->one_layer, norm);
}

template <Scalar T>
Weights<T> Weights<T>::widened(HeldModel model, std::int64_t whole_max) {
  if (parameter_count(model->config) > whole_max) return Weights(std::move(model));
  const std::shared_ptr<const Model<T>> whole = model.in<T>();
  Weights weights(*whole);
  weights.whole_ = whole;
  return weights;
}

template <Scalar T>
const Layer<T>& Weights<T>::widened_layer(int l) {
  if (parts_->layer != l) {
    weights_impl::widen(parts_->tensors, fmt::format("layers.{}.", l), parts_->one_layer,
                        "layers.0.");
    parts_->layer = l;
  }
  return parts_->one_layer.layers.front();
}

template <Scalar T>
const Matrix<T>& Weights<T>::widened_output(int first) {
  const Matrix<float>& narrow = parts_->narrow->output;
  const Eigen::Index columns = std::min<Eigen::Index>(kOutputColumns, narrow.cols() - first);
  parts_->output = narrow.middleCols(first, columns).unaryExpr([](float value) {
    return static_cast<T>(value);
  });
  return parts_->output;
}

}  // namespace kvcheck
