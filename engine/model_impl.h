// SPDX-License-Identifier: MIT
// Bodies of model.h for any scalar. model.cpp instantiates the usual ones; a program with a scalar
// of its own (the trainer's differentiating one) includes this file.
#pragma once

#include <fmt/format.h>

#include <algorithm>

#include "engine/error.h"
#include "engine/model.h"

namespace kvcheck {
namespace model_impl {

// Calls visit(name, part, rows, columns, storage) for every stored tensor; rows is 0 for a vector.
// `model` may be null: then storage is null and only the shapes are listed. T is Model<S>, const or
// not.
template <typename M, typename Visit>
class Walk {
 public:
  Walk(const Config& config, M* model, Visit visit)
      : config_(config), model_(model), visit_(visit) {}

  void all() {
    const int width = config_.width;
    at("embedding", Part::embedding, config_.vocabulary, width, of(&M::embedding));
    if (config_.positions == Positions::learned) {
      at("positions", Part::positions, config_.context, width, of(&M::positions));
    }
    for (int l = 0; l < config_.layers; ++l) layer(l);
    norm("final_norm", model_ ? &model_->final_norm : nullptr);
    if (config_.output == Output::separate) {
      at("output.weight", Part::output, width, config_.vocabulary, of(&M::output));
    }
  }

 private:
  template <typename Member>
  auto of(Member member) const {
    return model_ ? &(model_->*member) : nullptr;
  }

  void layer(int l) {
    const std::string prefix = fmt::format("layers.{}.", l);
    auto* weights = model_ ? &model_->layers[static_cast<std::size_t>(l)] : nullptr;
    const auto field = [weights](auto member) { return weights ? &(weights->*member) : nullptr; };
    using L = std::decay_t<decltype(model_->layers[0])>;
    const int width = config_.width;
    const bool bias = config_.qkv_bias;
    const int q = config_.query_width();
    const int kv = config_.kv_width();
    norm(prefix + "attention_norm", field(&L::attention_norm));
    linear(prefix + "query", Part::attention, width, q, bias, field(&L::query));
    linear(prefix + "key", Part::attention, width, kv, bias, field(&L::key));
    linear(prefix + "value", Part::attention, width, kv, bias, field(&L::value));
    if (config_.head_norm) {
      head_norm(prefix + "query_norm", field(&L::query_norm));
      head_norm(prefix + "key_norm", field(&L::key_norm));
    }
    linear(prefix + "attention_output", Part::attention, q, width, config_.attention_output_bias,
           field(&L::attention_output));
    if (config_.post_norms) norm(prefix + "attention_post_norm", field(&L::attention_post_norm));
    norm(prefix + "mlp_norm", field(&L::mlp_norm));
    const int inner = config_.mlp_width;
    if (gated(config_.mlp)) {
      linear(prefix + "mlp_gate", Part::mlp, width, inner, config_.mlp_bias, field(&L::mlp_gate));
    }
    linear(prefix + "mlp_up", Part::mlp, width, inner, config_.mlp_bias, field(&L::mlp_up));
    linear(prefix + "mlp_down", Part::mlp, inner, width, config_.mlp_bias, field(&L::mlp_down));
    if (config_.post_norms) norm(prefix + "mlp_post_norm", field(&L::mlp_post_norm));
  }

  template <typename L>
  void linear(const std::string& name, Part part, int in, int out, bool bias, L* weights) {
    at(name + ".weight", part, in, out, weights ? &weights->weight : nullptr);
    if (bias) at(name + ".bias", part, 0, out, weights ? &weights->bias : nullptr);
  }

  template <typename N>
  void norm(const std::string& name, N* weights) {
    at(name + ".scale", Part::norms, 0, config_.width, weights ? &weights->scale : nullptr);
    if (config_.norm == Norm::rms) return;
    at(name + ".shift", Part::norms, 0, config_.width, weights ? &weights->shift : nullptr);
  }

  // An RMSNorm whatever the other norms are.
  template <typename N>
  void head_norm(const std::string& name, N* weights) {
    at(name + ".scale", Part::norms, 0, config_.head_size, weights ? &weights->scale : nullptr);
  }

  template <typename Storage>
  void at(std::string name, Part part, int rows, int columns, Storage* storage) {
    visit_(std::move(name), part, rows, columns, storage);
  }

  const Config& config_;
  M* model_;
  Visit visit_;
};

template <typename M, typename Visit>
void walk(const Config& config, M* model, Visit visit) {
  Walk<M, Visit>(config, model, visit).all();
}

inline std::vector<std::int64_t> shape_of(int rows, int columns) {
  if (rows == 0) return {columns};
  return {rows, columns};
}

// T is const for a model that is only read.
template <typename T, typename M>
std::vector<TensorRef<T>> refs(M& model) {
  std::vector<TensorRef<T>> found;
  walk(model.config, &model, [&](std::string name, Part part, int rows, int columns, auto* at) {
    found.push_back({std::move(name), part, shape_of(rows, columns),
                     std::span<T>(at->data(), static_cast<std::size_t>(at->size()))});
  });
  return found;
}

}  // namespace model_impl

template <Scalar T>
std::vector<TensorRef<T>> tensors(Model<T>& model) {
  return model_impl::refs<T>(model);
}

template <Scalar T>
std::vector<TensorRef<const T>> tensors(const Model<T>& model) {
  return model_impl::refs<const T>(model);
}

template <Scalar T>
Model<T> make_model(const Config& config) {
  Model<T> model;
  model.config = config;
  model.layers.resize(static_cast<std::size_t>(config.layers));
  model_impl::walk(config, &model,
                   [](const std::string&, Part, int rows, int columns, auto* storage) {
                     if constexpr (std::decay_t<decltype(*storage)>::ColsAtCompileTime == 1) {
                       storage->setZero(columns);
                     } else {
                       storage->setZero(rows, columns);
                     }
                   });
  tie_output(model);
  return model;
}

template <Scalar T>
void tie_output(Model<T>& model) {
  if (model.config.output == Output::tied) model.output = model.embedding.transpose();
}

template <Scalar To, Scalar From>
Model<To> cast(const Model<From>& model) {
  Model<To> result = make_model<To>(model.config);
  const auto from = tensors(model);
  const auto to = tensors(result);
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::transform(from[i].values.begin(), from[i].values.end(), to[i].values.begin(),
                   [](const From& value) { return static_cast<To>(value); });
  }
  tie_output(result);
  return result;
}

}  // namespace kvcheck
