// SPDX-License-Identifier: MIT
// Replaying a log, layer by layer.
#include "engine/logged.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/error.h"
#include "engine/tokens.h"

namespace kvcheck {
namespace {

std::string text_of(SeenRow seen) {
  return fmt::format("row {} at position {}", seen.row, seen.position);
}

// What the row sees must have been fed before it, in the order of its positions.
void validate_sight(const LoggedRow& logged, int row, std::string_view where) {
  const SeenRow itself{row, logged.position};
  if (logged.sees.empty() || logged.sees.back() != itself) {
    throw bad_input({where, "does not see itself last", text_of(itself),
                     logged.sees.empty() ? "nothing" : text_of(logged.sees.back())});
  }
  SeenRow before{-1, -1};
  for (const SeenRow seen : logged.sees) {
    if (seen.row < 0 || seen.row > row) {
      throw bad_input({where, "sees a row that was not there yet",
                       fmt::format("a row from 0 to {}", row), fmt::format("{}", seen.row)});
    }
    if (seen.row <= before.row || seen.position <= before.position) {
      throw bad_input({where, "sees rows out of order",
                       before.row < 0 ? "a position from 0 on" : "more than " + text_of(before),
                       text_of(seen)});
    }
    before = seen;
  }
}

void validate_log(const Config& config, std::span<const LoggedRow> log, int answered) {
  std::vector<int> tokens;
  for (const LoggedRow& logged : log) tokens.push_back(logged.token);
  // Positions are bounded below, one by one: how many rows there are says nothing about them.
  constexpr int kAnyLength = 0;
  validate_tokens(config, tokens, kAnyLength, "log");
  const int rows = static_cast<int>(log.size());
  if (answered < 1 || answered > rows) {
    throw bad_input({"log", "answers for rows that it does not have",
                     fmt::format("from 1 to {} rows", rows), fmt::format("{}", answered)});
  }
  for (int r = 0; r < rows; ++r) {
    const LoggedRow& logged = log[static_cast<std::size_t>(r)];
    const std::string where = fmt::format("log, row {}", r);
    if (logged.position < 0 || logged.position >= config.context) {
      throw bad_input({where, "position outside the context",
                       fmt::format("from 0 to {}", config.context - 1),
                       fmt::format("{}", logged.position)});
    }
    validate_sight(logged, r, where);
  }
}

}  // namespace

std::vector<LoggedRow> plain_log(std::span<const int> tokens) {
  std::vector<LoggedRow> log;
  std::vector<SeenRow> sees;
  for (const int token : tokens) {
    const int row = static_cast<int>(log.size());
    sees.push_back({row, row});
    log.push_back({token, row, sees});
  }
  return log;
}

template <Scalar T>
Logged<T>::Logged(Weights<T> weights, const Ops<T>& ops)
    : weights_(std::move(weights)),
      ops_(ops),
      rotary_(rotary_tables<T>(weights_.config())),
      epsilon_(static_cast<T>(weights_.config().norm_epsilon)),
      scale_(static_cast<T>(weights_.config().score_scale())),
      query_row_(static_cast<std::size_t>(weights_.config().query_width())),
      attended_row_(query_row_.size()) {
  for (int h = 0; h < weights_.config().query_heads; ++h) {
    kv_head_of_.push_back(h / weights_.config().group());
  }
  if (weights_.config().positions != Positions::alibi) return;
  for (const long double slope : alibi_slopes(weights_.config().query_heads)) {
    slopes_.push_back(static_cast<T>(slope));
  }
}

template <Scalar T>
View<const T> Logged<T>::logits(std::span<const LoggedRow> log, int answered,
                                const Observer<T>* observer) {
  const Config& config = weights_.config();
  validate_log(config, log, answered);
  observer_ = observer;
  embed(log);
  for (int l = 0; l < config.layers; ++l) {
    attention(l, log);
    mlp(l);
  }
  const View<T> x = x_.view();
  const View<T> last = x.rows_from(x.rows - answered, answered);
  const View<T> normed = normed_.reshape(answered, config.width);
  ops_.normalize(last, weights_.final_norm(), epsilon_, normed);
  observe(Site::final_norm, -1, normed);
  const View<T> found = logits_.reshape(answered, config.vocabulary);
  weights_.each_output([&](int first, const Matrix<T>& columns) {
    ops_.product(normed, columns, no_bias_,
                 found.features_from(first, static_cast<int>(columns.cols())));
  });
  if (config.logit_cap > 0) ops_.soft_cap(found, static_cast<T>(config.logit_cap));
  observe(Site::logits, -1, found);
  return found;
}

template <Scalar T>
void Logged<T>::embed(std::span<const LoggedRow> log) {
  const Config& config = weights_.config();
  const View<T> x = x_.reshape(static_cast<int>(log.size()), config.width);
  const T scale = static_cast<T>(config.embedding_scale);
  positions_.clear();
  for (int r = 0; r < x.rows; ++r) {
    const LoggedRow& logged = log[static_cast<std::size_t>(r)];
    positions_.push_back(logged.position);
    for (int f = 0; f < config.width; ++f) {
      x.feature(f)[r] = weights_.embedding(logged.token, f) * scale;
    }
  }
  observe(Site::embedding, -1, x);
  if (config.positions == Positions::learned) {
    for (int f = 0; f < config.width; ++f) {
      T* row = x.feature(f);
      for (int r = 0; r < x.rows; ++r) {
        row[r] = row[r] + weights_.position(positions_[static_cast<std::size_t>(r)], f);
      }
    }
  }
  observe(Site::input, -1, x);
}

template <Scalar T>
void Logged<T>::attention(int layer, std::span<const LoggedRow> log) {
  const Config& config = weights_.config();
  const Layer<T>& weights = weights_.layer(layer);
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
  if (config.head_norm) {
    normalize_heads(ops_, weights.query_norm, epsilon_, query);
    normalize_heads(ops_, weights.key_norm, epsilon_, key);
  }
  if (config.positions == Positions::rotary) {
    const auto base = static_cast<std::size_t>(config.rotary_base_of(layer));
    rotate(*rotary_[base], config.rotary_pairs, positions_, config.head_size, query);
  }
  observe(Site::query, layer, query);
  observe(Site::key, layer, key);
  observe(Site::value, layer, value);
  keep_rows();
  attend(layer, log);
  observe(Site::attention, layer, attended_.view());
  const View<T> projected = projected_.reshape(x.rows, config.width);
  ops_.product(attended_.view(), weights.attention_output.weight, weights.attention_output.bias,
               projected);
  if (config.post_norms) {
    ops_.normalize(projected, weights.attention_post_norm, epsilon_, projected);
  }
  observe(Site::attention_output, layer, projected);
  ops_.add(projected, x);
  observe(Site::attention_residual, layer, x);
}

// The layer's keys and values, each row side by side.
template <Scalar T>
void Logged<T>::keep_rows() {
  const View<T> key = key_.view();
  const View<T> value = value_.view();
  const auto size = static_cast<std::size_t>(key.rows) * static_cast<std::size_t>(key.features);
  for (AlignedVector<T>* rows : {&keys_, &values_, &seen_keys_, &seen_values_}) rows->resize(size);
  for (int f = 0; f < key.features; ++f) {
    for (int r = 0; r < key.rows; ++r) {
      const auto at = static_cast<std::size_t>(r * key.features + f);
      keys_[at] = key.feature(f)[r];
      values_[at] = value.feature(f)[r];
    }
  }
}

template <Scalar T>
void Logged<T>::attend(int layer, std::span<const LoggedRow> log) {
  const View<T> query = query_.view();
  const View<T> out = attended_.reshape(query.rows, query.features);
  for (int r = 0; r < query.rows; ++r) {
    const LoggedRow& logged = log[static_cast<std::size_t>(r)];
    const int first = weights_.config().first_visible(layer, logged.position);
    const auto begin = std::ranges::lower_bound(logged.sees, first, {}, &SeenRow::position);
    for (int f = 0; f < query.features; ++f) {
      query_row_[static_cast<std::size_t>(f)] = query.feature(f)[r];
    }
    attend_row(layer, r, {begin, logged.sees.end()});
    for (int f = 0; f < query.features; ++f) {
      out.feature(f)[r] = attended_row_[static_cast<std::size_t>(f)];
    }
  }
}

template <Scalar T>
void Logged<T>::attend_row(int layer, int row, std::span<const SeenRow> visible) {
  const Config& config = weights_.config();
  const Heads heads{config.query_heads, config.kv_heads, config.head_size};
  const int keys = static_cast<int>(visible.size());
  const auto observe_scores = [&](Site site) {
    if (observer_ == nullptr) return;
    (*observer_)({site, layer, row, scores_.data(), heads.query_heads, keys, keys, 1});
  };
  const auto observe_rows = [&](Site site, AlignedVector<T>& rows) {
    if (observer_ == nullptr) return;
    const int width = config.kv_width();
    (*observer_)({site, layer, row, rows.data(), keys, width, width, 1});
  };
  scores_.resize(visible.size() * static_cast<std::size_t>(heads.query_heads));
  place_rows(layer, visible);
  const CachedRows<T> seen_keys{seen_keys_.data(), config.kv_width(), seen_, kv_head_of_};
  const CachedRows<T> seen_values{seen_values_.data(), config.kv_width(), seen_, kv_head_of_};
  observe_rows(Site::cached_key, seen_keys_);
  observe_rows(Site::cached_value, seen_values_);
  ops_.cached_scores(heads, query_row_.data(), seen_keys, scale_, scores_.data());
  bias_and_cap(positions_[static_cast<std::size_t>(row)], visible);
  observe_scores(Site::scores);
  ops_.softmax(heads.query_heads, keys, 1, scores_.data());
  observe_scores(Site::probabilities);
  ops_.cached_mix(heads, scores_.data(), seen_values, attended_row_.data());
}

// Of the scores of a query at `position`.
template <Scalar T>
void Logged<T>::bias_and_cap(int position, std::span<const SeenRow> visible) {
  const Config& config = weights_.config();
  if (config.positions == Positions::alibi) {
    distances_.clear();
    for (const SeenRow& seen : visible) distances_.push_back(position - seen.position);
    ops_.lower(slopes_, distances_, 1, scores_.data());
  }
  if (config.attention_cap > 0) {
    const int count = config.query_heads * static_cast<int>(visible.size());
    ops_.soft_cap({scores_.data(), count, 1, count}, static_cast<T>(config.attention_cap));
  }
}

// Every visible key where the log says that it stood, from the key without a position: no rotation
// is ever built on another one.
template <Scalar T>
void Logged<T>::place_rows(int layer, std::span<const SeenRow> visible) {
  const Config& config = weights_.config();
  const int width = config.kv_width();
  seen_.clear();
  for (const SeenRow& seen : visible) {
    const std::ptrdiff_t to = std::ptrdiff_t{static_cast<int>(seen_.size())} * width;
    const std::ptrdiff_t from = std::ptrdiff_t{seen.row} * width;
    seen_.push_back(static_cast<int>(seen_.size()));
    std::copy_n(keys_.data() + from, width, seen_keys_.data() + to);
    std::copy_n(values_.data() + from, width, seen_values_.data() + to);
    if (config.positions == Positions::rotary) {
      const auto base = static_cast<std::size_t>(config.rotary_base_of(layer));
      rotate(*rotary_[base], config.rotary_pairs, std::span(&seen.position, 1), config.head_size,
             View<T>{seen_keys_.data() + to, 1, width, 1});
    }
  }
}

template <Scalar T>
void Logged<T>::mlp(int layer) {
  const Config& config = weights_.config();
  const Layer<T>& weights = weights_.layer(layer);
  const View<T> x = x_.view();
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
  const View<T> projected = projected_.reshape(x.rows, config.width);
  ops_.product(up, weights.mlp_down.weight, weights.mlp_down.bias, projected);
  if (config.post_norms) {
    ops_.normalize(projected, weights.mlp_post_norm, epsilon_, projected);
  }
  observe(Site::mlp_output, layer, projected);
  ops_.add(projected, x);
  observe(Site::residual, layer, x);
}

template <Scalar T>
void Logged<T>::observe(Site site, int layer, View<T> view) const {
  if (observer_ == nullptr) return;
  (*observer_)({site, layer, 0, view.data, view.rows, view.features, 1, view.stride});
}

template class Logged<float>;
template class Logged<double>;
template class Logged<long double>;

}  // namespace kvcheck
