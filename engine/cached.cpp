// SPDX-License-Identifier: MIT
// Executing a step plan over flat caches.
#include "engine/cached.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/error.h"
#include "engine/tokens.h"

namespace kvcheck {

template <Scalar T>
Cached<T>::Cached(const Model<T>& model, const Ops<T>& ops)
    : model_(model),
      ops_(ops),
      rotary_(rotary_table<T>(model.config)),
      epsilon_(static_cast<T>(model.config.norm_epsilon)),
      scale_(static_cast<T>(1.0L / std::sqrt(static_cast<long double>(model.config.head_size)))),
      query_row_(static_cast<std::size_t>(model.config.query_width())),
      attended_row_(query_row_.size()) {}

template <Scalar T>
View<const T> Cached<T>::feed(std::span<const CacheFeed<T>> feeds, Rows rows,
                              const Observer<T>* observer) {
  for (const CacheFeed<T>& feed : feeds) {
    validate_tokens(model_.config, feed.tokens,
                    feed.cache->length() + static_cast<int>(feed.tokens.size()), "feed");
  }
  observer_ = observer;
  make_plan(feeds);
  embed(feeds);
  for (int l = 0; l < model_.config.layers; ++l) {
    attention(l, feeds);
    mlp(l);
  }
  for (std::size_t s = 0; s < feeds.size(); ++s) feeds[s].cache->set_length(plan_.length_after[s]);
  const View<T> last = answered(rows);
  const View<T> normed = normed_.reshape(last.rows, model_.config.width);
  ops_.normalize(last, model_.final_norm, epsilon_, normed);
  observe(Site::final_norm, -1, normed);
  const View<T> found = logits_.reshape(last.rows, model_.config.vocabulary);
  ops_.product(normed, model_.output, no_bias_, found);
  observe(Site::logits, -1, found);
  return found;
}

template <Scalar T>
void Cached<T>::make_plan(std::span<const CacheFeed<T>> feeds) {
  planned_.clear();
  for (const CacheFeed<T>& feed : feeds) {
    planned_.push_back({feed.cache->length(), static_cast<int>(feed.tokens.size())});
  }
  plan_step(model_.config, planned_, plan_);
  if (rewrite_) rewrite_(plan_);
  positions_.clear();
  for (const PlannedRow& row : plan_.rows) positions_.push_back(row.position);
  check_plan();
}

// A plan may be wrong, and is then carried out, but not outside of what there is.
template <Scalar T>
void Cached<T>::check_plan() const {
  const Config& config = model_.config;
  const auto outside = [&](int index) { return index < 0 || index >= config.context; };
  for (const PlannedRow& row : plan_.rows) {
    if (outside(row.position) || outside(row.slot)) {
      throw EngineError(fmt::format("a planned position {} or slot {} lies past the context of {}",
                                    row.position, row.slot, config.context));
    }
  }
  for (const SlotView& view : plan_.views) {
    if (std::ranges::any_of(view.slots, outside)) {
      throw EngineError(fmt::format("a planned view lies past the context of {}", config.context));
    }
  }
}

template <Scalar T>
void Cached<T>::embed(std::span<const CacheFeed<T>> feeds) {
  const Config& config = model_.config;
  const View<T> x = x_.reshape(static_cast<int>(plan_.rows.size()), config.width);
  int r = 0;
  for (const CacheFeed<T>& feed : feeds) {
    for (const int token : feed.tokens) {
      for (int f = 0; f < config.width; ++f) x.feature(f)[r] = model_.embedding(token, f);
      ++r;
    }
  }
  observe(Site::embedding, -1, x);
  if (config.positions == Positions::learned) {
    for (int f = 0; f < config.width; ++f) {
      T* row = x.feature(f);
      for (r = 0; r < x.rows; ++r) {
        row[r] = row[r] + model_.positions(positions_[static_cast<std::size_t>(r)], f);
      }
    }
  }
  observe(Site::input, -1, x);
}

template <Scalar T>
void Cached<T>::attention(int layer, std::span<const CacheFeed<T>> feeds) {
  const Config& config = model_.config;
  const Layer<T>& weights = model_.layers[static_cast<std::size_t>(layer)];
  const View<T> x = x_.view();
  const View<T> normed = normed_.reshape(x.rows, config.width);
  ops_.normalize(x, weights.attention_norm, epsilon_, normed);
  observe(Site::attention_norm, layer, normed);
  const View<T> query = query_.reshape(x.rows, config.query_width());
  const View<T> key = key_.reshape(x.rows, config.kv_width());
  const View<T> value = value_.reshape(x.rows, config.kv_width());
  ops_.product(normed, weights.query.weight, weights.query.bias, query);
  ops_.product(normed, weights.key.weight, weights.key.bias, key);
  ops_.product(normed, weights.value.weight, weights.value.bias, value);
  if (config.positions == Positions::rotary) {
    rotate(rotary_, config.rotary_pairs, positions_, config.head_size, query);
    rotate(rotary_, config.rotary_pairs, positions_, config.head_size, key);
  }
  observe(Site::query, layer, query);
  observe(Site::key, layer, key);
  observe(Site::value, layer, value);
  store(layer, feeds);
  attend(layer, feeds);
  observe(Site::attention, layer, attended_.view());
  const View<T> projected = projected_.reshape(x.rows, config.width);
  ops_.product(attended_.view(), weights.attention_output.weight, weights.attention_output.bias,
               projected);
  observe(Site::attention_output, layer, projected);
  ops_.add(projected, x);
  observe(Site::attention_residual, layer, x);
}

// All rows of the step are stored before any of them attends: a row of a chunk sees the rows before
// it.
template <Scalar T>
void Cached<T>::store(int layer, std::span<const CacheFeed<T>> feeds) {
  const int store = plan_.write_store[static_cast<std::size_t>(layer)];
  const View<T> keys = key_.view();
  const View<T> values = value_.view();
  for (int r = 0; r < keys.rows; ++r) {
    const PlannedRow& row = plan_.rows[static_cast<std::size_t>(r)];
    KvCache<T>& cache = *feeds[static_cast<std::size_t>(row.sequence)].cache;
    T* k = cache.key(store, row.slot);
    T* v = cache.value(store, row.slot);
    for (int f = 0; f < keys.features; ++f) k[f] = keys.feature(f)[r];
    for (int f = 0; f < keys.features; ++f) v[f] = values.feature(f)[r];
  }
}

template <Scalar T>
void Cached<T>::attend(int layer, std::span<const CacheFeed<T>> feeds) {
  const View<T> query = query_.view();
  const View<T> out = attended_.reshape(query.rows, query.features);
  for (int r = 0; r < query.rows; ++r) {
    const auto sequence =
        static_cast<std::size_t>(plan_.rows[static_cast<std::size_t>(r)].sequence);
    for (int f = 0; f < query.features; ++f) {
      query_row_[static_cast<std::size_t>(f)] = query.feature(f)[r];
    }
    attend_row(layer, r, *feeds[sequence].cache);
    for (int f = 0; f < query.features; ++f) {
      out.feature(f)[r] = attended_row_[static_cast<std::size_t>(f)];
    }
  }
}

template <Scalar T>
void Cached<T>::attend_row(int layer, int row, const KvCache<T>& cache) {
  const Config& config = model_.config;
  const Heads heads{config.query_heads, config.kv_heads, config.head_size};
  const auto l = static_cast<std::size_t>(layer);
  const std::span<const int> slots =
      plan_.views[static_cast<std::size_t>(plan_.view_of_layer[l])].of(row);
  const int keys = static_cast<int>(slots.size());
  const int store = plan_.read_store[l];
  const auto observe_scores = [&](Site site) {
    if (observer_ == nullptr) return;
    (*observer_)({site, layer, row, scores_.data(), heads.query_heads, keys, keys, 1});
  };
  if (scores_.size() < slots.size() * static_cast<std::size_t>(heads.query_heads)) {
    scores_.resize(slots.size() * static_cast<std::size_t>(heads.query_heads));
  }
  ops_.cached_scores(heads, query_row_.data(),
                     {cache.key(store, 0), cache.slot_stride(), slots, plan_.kv_head_of}, scale_,
                     scores_.data());
  observe_scores(Site::scores);
  ops_.softmax(heads.query_heads, keys, 1, scores_.data());
  observe_scores(Site::probabilities);
  ops_.cached_mix(heads, scores_.data(),
                  {cache.value(store, 0), cache.slot_stride(), slots, plan_.kv_head_of},
                  attended_row_.data());
}

template <Scalar T>
void Cached<T>::mlp(int layer) {
  const Config& config = model_.config;
  const Layer<T>& weights = model_.layers[static_cast<std::size_t>(layer)];
  const View<T> x = x_.view();
  const View<T> normed = normed_.reshape(x.rows, config.width);
  ops_.normalize(x, weights.mlp_norm, epsilon_, normed);
  observe(Site::mlp_norm, layer, normed);
  const View<T> up = up_.reshape(x.rows, config.mlp_width);
  ops_.product(normed, weights.mlp_up.weight, weights.mlp_up.bias, up);
  if (config.mlp == Mlp::swiglu) {
    const View<T> gate = gate_.reshape(x.rows, config.mlp_width);
    ops_.product(normed, weights.mlp_gate.weight, weights.mlp_gate.bias, gate);
    ops_.swiglu(gate, up);
  } else {
    ops_.gelu_tanh(up);
  }
  observe(Site::mlp_hidden, layer, up);
  const View<T> projected = projected_.reshape(x.rows, config.width);
  ops_.product(up, weights.mlp_down.weight, weights.mlp_down.bias, projected);
  observe(Site::mlp_output, layer, projected);
  ops_.add(projected, x);
  observe(Site::residual, layer, x);
}

// The rows that are answered: all, or the last one of each feed.
template <Scalar T>
View<T> Cached<T>::answered(Rows rows) {
  const View<T> x = x_.view();
  if (rows == Rows::all || x.rows == static_cast<int>(planned_.size())) return x;
  const View<T> last = last_.reshape(static_cast<int>(planned_.size()), x.features);
  int r = -1;
  for (int s = 0; s < last.rows; ++s) {
    r += planned_[static_cast<std::size_t>(s)].tokens;
    for (int f = 0; f < x.features; ++f) last.feature(f)[s] = x.feature(f)[r];
  }
  return last;
}

template <Scalar T>
void Cached<T>::observe(Site site, int layer, View<T> view) const {
  if (observer_ == nullptr) return;
  (*observer_)({site, layer, 0, view.data, view.rows, view.features, 1, view.stride});
}

template class Cached<float>;
template class Cached<double>;

}  // namespace kvcheck
