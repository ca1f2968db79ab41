// SPDX-License-Identifier: MIT
// Whose weights are computed with, and in which scalar. In float a model of hundreds of megabytes
// is held once, however many engines, oracles and meters compute with it.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/model.h"

namespace kvcheck {

// A model to compute with: the caller's, which must outlive whoever computes, or, of a temporary,
// one that is kept.
class HeldModel {
 public:
  HeldModel(const Model<float>& model) : model_(std::shared_ptr<void>(), &model) {}
  HeldModel(Model<float>&& model) : model_(std::make_shared<Model<float>>(std::move(model))) {}

  const Model<float>& operator*() const { return *model_; }
  const Model<float>* operator->() const { return model_.get(); }

  // The very same weights in float, otherwise a copy.
  template <Scalar T>
  [[nodiscard]] std::shared_ptr<const Model<T>> in() const {
    if constexpr (std::is_same_v<T, float>) {
      return model_;
    } else {
      return std::make_shared<const Model<T>>(cast<T>(*model_));
    }
  }

 private:
  std::shared_ptr<const Model<float>> model_;
};

// Parameters of a model up to which an oracle in a wider scalar holds all of them.
inline constexpr std::int64_t kWidenedWholeMax = std::int64_t{1} << 22;
// Columns of an output that are widened at once beyond.
inline constexpr int kOutputColumns = 1024;

// What a decoder without a cache reads, part by part: a model in its own scalar, or a float one of
// which the layer at hand, or a block of the output, is widened when it is asked for. A copy shares
// what was widened: decoders with copies take turns.
template <Scalar T>
class Weights {
 public:
  // Refers to the model.
  Weights(const Model<T>& model)
      : config_(&model.config), whole_(std::shared_ptr<void>(), &model) {}
  Weights(Model<T>&&) = delete;
  // Of more than `whole_max` parameters, part by part.
  [[nodiscard]] static Weights widened(HeldModel model, std::int64_t whole_max = kWidenedWholeMax);

  [[nodiscard]] const Config& config() const { return *config_; }
  [[nodiscard]] T embedding(int token, int feature) const {
    return whole_ ? whole_->embedding(token, feature)
                  : static_cast<T>(parts_->narrow->embedding(token, feature));
  }
  [[nodiscard]] T position(int position, int feature) const {
    return whole_ ? whole_->positions(position, feature)
                  : static_cast<T>(parts_->narrow->positions(position, feature));
  }
  // Stays valid until another layer is asked for.
  [[nodiscard]] const Layer<T>& layer(int l) {
    return whole_ ? whole_->layers[static_cast<std::size_t>(l)] : widened_layer(l);
  }
  [[nodiscard]] const NormWeights<T>& final_norm() const {
    return whole_ ? whole_->final_norm : parts_->one_layer.final_norm;
  }
  // Calls visit(first, columns) for the columns of the output, in order: all at once, or in blocks,
  // each a matrix that begins with column `first`.
  template <typename Visit>
  void each_output(Visit visit) {
    if (whole_) return visit(0, whole_->output);
    for (int first = 0; first < config_->vocabulary; first += kOutputColumns) {
      visit(first, widened_output(first));
    }
  }

 private:
  struct Parts {
    HeldModel narrow;
    std::vector<TensorRef<const float>> tensors;  // of `narrow`
    Model<T> one_layer;                           // its layer is the one that was asked for last
    int layer = -1;                               // which one that is
    Matrix<T> output;                             // [width, kOutputColumns]
  };

  explicit Weights(HeldModel model);
  const Layer<T>& widened_layer(int l);
  const Matrix<T>& widened_output(int first);

  const Config* config_;
  std::shared_ptr<const Model<T>> whole_;  // null where parts are widened
  std::shared_ptr<Parts> parts_;
};

}  // namespace kvcheck
