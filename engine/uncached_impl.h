// SPDX-License-Identifier: MIT
// Bodies of uncached.h for any scalar; uncached.cpp instantiates the usual ones.
#pragma once

#include <cmath>
#include <utility>

#include "engine/uncached.h"
#include "engine/weights_impl.h"

namespace kvcheck {

template <Scalar T>
Uncached<T>::Uncached(Weights<T> weights, const Ops<T>& ops)
    : weights_(std::move(weights)),
      ops_(ops),
      rotary_(rotary_tables<T>(weights_.config())),
      epsilon_(static_cast<T>(weights_.config().norm_epsilon)),
      scale_(static_cast<T>(weights_.config().score_scale())) {
  if (weights_.config().positions != Positions::alibi) return;
  for (const long double slope : alibi_slopes(weights_.config().query_heads)) {
    slopes_.push_back(static_cast<T>(slope));
  }
}

template <Scalar T>
View<const T> Uncached<T>::logits(const TokenBlock& block, Rows rows, const Observer<T>* observer) {
  const Config& config = weights_.config();
  validate_tokens(config, block.tokens, block.length(), "full");
  observer_ = observer;
  const BlockShape shape{block.sequences, block.length()};
  embed(block);
  first_ = 0;
  for (int l = 0; l < config.layers; ++l) {
    // Nobody asks the last layer for more rows than are answered; below it every row is needed, for
    // its keys and values.
    const bool top = l == config.layers - 1;
    if (top && rows == Rows::last) first_ = shape.length - 1;
    attention(l, shape);
    mlp(l, shape);
  }
  const View<T> last = wanted(x_.view(), shape);
  const View<T> normed = normed_.reshape(last.rows, config.width);
  ops_.normalize(last, weights_.final_norm(), epsilon_, normed);
  observe(Site::final_norm, -1, normed);
  const View<T> found = logits_.reshape(last.rows, config.vocabulary);
  weights_.each_output([&](int first, const Matrix<T>& columns) {
    ops_.product(normed, columns, no_bias_,
                 found.features_from(first, static_cast<int>(columns.cols())));
  });
  if (config.logit_cap > 0) ops_.soft_cap(found, static_cast<T>(config.logit_cap));
  observe(Site::logits, -1, found);
  return found;
}

template <Scalar T>
View<T> Uncached<T>::wanted(View<T> all, BlockShape shape) const {
  const int first = first_ * shape.sequences;
  return all.rows_from(first, all.rows - first);
}

template <Scalar T>
void Uncached<T>::embed(const TokenBlock& block) {
  const Config& config = weights_.config();
  const int rows = block.sequences * block.length();
  const View<T> x = x_.reshape(rows, config.width);
  const T scale = static_cast<T>(config.embedding_scale);
  positions_.clear();
  for (int t = 0; t < block.length(); ++t) {
    positions_.insert(positions_.end(), static_cast<std::size_t>(block.sequences), t);
  }
  for (int r = 0; r < rows; ++r) {
    const int token = block.tokens[static_cast<std::size_t>(r)];
    for (int f = 0; f < config.width; ++f) x.feature(f)[r] = weights_.embedding(token, f) * scale;
  }
  observe(Site::embedding, -1, x);
  if (config.positions == Positions::learned) {
    for (int f = 0; f < config.width; ++f) {
      T* row = x.feature(f);
      for (int r = 0; r < rows; ++r) {
        row[r] = row[r] + weights_.position(positions_[static_cast<std::size_t>(r)], f);
      }
    }
  }
  observe(Site::input, -1, x);
}

template <Scalar T>
void Uncached<T>::attention(int layer, BlockShape shape) {
  const Config& config = weights_.config();
  const Layer<T>& weights = weights_.layer(layer);
  const View<T> x = x_.view();
  const View<T> normed = normed_.reshape(x.rows, config.width);
  ops_.normalize(x, weights.attention_norm, epsilon_, normed);
  observe(Site::attention_norm, layer, normed);
  const View<T> query = wanted(query_.reshape(x.rows, config.query_width()), shape);
  const View<T> key = key_.reshape(x.rows, config.kv_width());
  const View<T> value = value_.reshape(x.rows, config.kv_width());
  ops_.product(wanted(normed, shape), weights.query.weight, weights.query.bias, query);
  ops_.product(normed, weights.key.weight, weights.key.bias, key);
  ops_.product(normed, weights.value.weight, weights.value.bias, value);
  place_heads(layer, query, key);
  observe(Site::query, layer, query);
  observe(Site::key, layer, key);
  observe(Site::value, layer, value);
  attend(layer, shape);
  const View<T> attended = wanted(attended_.view(), shape);
  observe(Site::attention, layer, attended);
  const View<T> projected = wanted(projected_.reshape(x.rows, config.width), shape);
  ops_.product(attended, weights.attention_output.weight, weights.attention_output.bias, projected);
  if (config.post_norms) {
    ops_.normalize(projected, weights.attention_post_norm, epsilon_, projected);
  }
  observe(Site::attention_output, layer, projected);
  const View<T> sum = wanted(x, shape);
  ops_.add(projected, sum);
  observe(Site::attention_residual, layer, sum);
}

// What happens to queries and keys after their products: the norm of each head, then the rotation.
template <Scalar T>
void Uncached<T>::place_heads(int layer, View<T> query, View<T> key) {
  const Config& config = weights_.config();
  if (config.head_norm) {
    const Layer<T>& weights = weights_.layer(layer);
    normalize_heads(ops_, weights.query_norm, epsilon_, query);
    normalize_heads(ops_, weights.key_norm, epsilon_, key);
  }
  if (config.positions != Positions::rotary) return;
  const RotaryTable<T>& table = *rotary_[static_cast<std::size_t>(config.rotary_base_of(layer))];
  rotate(table, config.rotary_pairs, std::span(positions_).last(query.rows), config.head_size,
         query);
  rotate(table, config.rotary_pairs, positions_, config.head_size, key);
}

template <Scalar T>
void Uncached<T>::attend(int layer, BlockShape shape) {
  const Config& config = weights_.config();
  const Heads heads{config.query_heads, config.kv_heads, config.head_size};
  const View<T> out = attended_.reshape(shape.sequences * shape.length, config.query_width());
  const auto most = static_cast<std::size_t>(config.query_heads) *
                    static_cast<std::size_t>(shape.length * shape.sequences);
  if (scores_.size() < most) scores_.resize(most);
  for (int t = first_; t < shape.length; ++t) {
    const VisibleTokens visible{config.first_visible(layer, t), t};
    observe_rows(layer, shape, visible);
    ops_.scores(heads, shape, query_.view(), key_.view(), visible, scale_, scores_.data());
    bias_and_cap(shape, visible);
    observe_attention(Site::scores, layer, shape, visible);
    ops_.softmax(config.query_heads, visible.count(), shape.sequences, scores_.data());
    observe_attention(Site::probabilities, layer, shape, visible);
    ops_.mix(heads, shape, scores_.data(), value_.view(), visible, out);
  }
}

// Of the scores of token `visible.last`, whose position is its index.
template <Scalar T>
void Uncached<T>::bias_and_cap(BlockShape shape, VisibleTokens visible) {
  const Config& config = weights_.config();
  if (config.positions == Positions::alibi) {
    distances_.clear();
    for (int key = visible.first; key <= visible.last; ++key) {
      distances_.push_back(visible.last - key);
    }
    ops_.lower(slopes_, distances_, shape.sequences, scores_.data());
  }
  if (config.attention_cap > 0) {
    const int count = config.query_heads * visible.count() * shape.sequences;
    ops_.soft_cap({scores_.data(), count, 1, count}, static_cast<T>(config.attention_cap));
  }
}

template <Scalar T>
void Uncached<T>::mlp(int layer, BlockShape shape) {
  const Config& config = weights_.config();
  const Layer<T>& weights = weights_.layer(layer);
  const View<T> x = wanted(x_.view(), shape);
  const View<T> normed = normed_.reshape(x.rows, config.width);
  ops_.normalize(x, weights.mlp_norm, epsilon_, normed);
  observe(Site::mlp_norm, layer, normed);
  const View<T> up = up_.reshape(x.rows, config.mlp_width);
  ops_.product(normed, weights.mlp_up.weight, weights.mlp_up.bias, up);
  if (gated(config.mlp)) {
    const View<T> gate = gate_.reshape(x.rows, config.mlp_width);
    ops_.product(normed, weights.mlp_gate.weight, weights.mlp_gate.bias, gate);
    (config.mlp == Mlp::swiglu ? ops_.swiglu : ops_.geglu)(gate, up);
  } else {
    ops_.gelu_tanh(up);
  }
  observe(Site::mlp_hidden, layer, up);
  const View<T> projected = wanted(projected_.reshape(x_.view().rows, config.width), shape);
  ops_.product(up, weights.mlp_down.weight, weights.mlp_down.bias, projected);
  if (config.post_norms) {
    ops_.normalize(projected, weights.mlp_post_norm, epsilon_, projected);
  }
  observe(Site::mlp_output, layer, projected);
  ops_.add(projected, x);
  observe(Site::residual, layer, x);
}

template <Scalar T>
void Uncached<T>::observe(Site site, int layer, View<T> view) const {
  if (observer_ == nullptr) return;
  (*observer_)({site, layer, 0, view.data, view.rows, view.features, 1, view.stride});
}

template <Scalar T>
void Uncached<T>::observe_rows(int layer, BlockShape shape, VisibleTokens visible) {
  if (observer_ == nullptr) return;
  const auto show = [&](Site site, View<T> rows) {
    if (!observer_->wants(site)) return;
    for (int b = 0; b < shape.sequences; ++b) {
      (*observer_)({site, layer, visible.last * shape.sequences + b,
                    rows.data + visible.first * shape.sequences + b, visible.count(), rows.features,
                    shape.sequences, rows.stride});
    }
  };
  show(Site::cached_key, key_.view());
  show(Site::cached_value, value_.view());
}

template <Scalar T>
void Uncached<T>::observe_attention(Site site, int layer, BlockShape shape, VisibleTokens visible) {
  if (observer_ == nullptr) return;
  for (int b = 0; b < shape.sequences; ++b) {
    (*observer_)({site, layer, visible.last * shape.sequences + b, scores_.data() + b,
                  weights_.config().query_heads, visible.count(),
                  static_cast<std::ptrdiff_t>(visible.count()) * shape.sequences, shape.sequences});
  }
}

}  // namespace kvcheck
