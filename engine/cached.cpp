// SPDX-License-Identifier: MIT
// Executing a step plan.
#include "engine/cached.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "engine/counted.h"
#include "engine/error.h"
#include "engine/tokens.h"

namespace kvcheck {
namespace {

// Rows that a cache has slots for. A ring takes any number.
template <Scalar T>
int room(const KvCache<T>& cache, int context) {
  if (!cache.slots().empty()) return static_cast<int>(cache.slots().size());
  return cache.rings().empty() ? cache.capacity() : context;
}

}  // namespace

template <Scalar T>
Cached<T>::Cached(const Model<T>& model, const Ops<T>& ops)
    : model_(model),
      ops_(ops),
      rotary_(rotary_tables<T>(model.config)),
      epsilon_(static_cast<T>(model.config.norm_epsilon)),
      query_row_(static_cast<std::size_t>(model.config.query_width())),
      attended_row_(query_row_.size()),
      key_row_(static_cast<std::size_t>(model.config.kv_width())),
      value_row_(key_row_.size()) {}

template <Scalar T>
View<const T> Cached<T>::feed(std::span<const CacheFeed<T>> feeds, Rows rows,
                              const Observer<T>* observer) {
  validate(feeds);
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
  if (plan_.logit_cap > 0) ops_.soft_cap(found, static_cast<T>(plan_.logit_cap));
  observe(Site::logits, -1, found);
  return found;
}

template <Scalar T>
void Cached<T>::validate(std::span<const CacheFeed<T>> feeds) const {
  for (const CacheFeed<T>& feed : feeds) {
    validate_tokens(model_.config, feed.tokens,
                    feed.cache->next_position() + static_cast<int>(feed.tokens.size()), "feed");
  }
}

template <Scalar T>
void Cached<T>::make_plan(std::span<const CacheFeed<T>> feeds) {
  planned_.clear();
  for (const CacheFeed<T>& feed : feeds) {
    const KvCache<T>& cache = *feed.cache;
    planned_.push_back({.held = cache.length(),
                        .tokens = static_cast<int>(feed.tokens.size()),
                        .ahead = cache.next_position() - cache.length(),
                        .slots = cache.slots(),
                        .positions = cache.positions(),
                        .rings = cache.rings()});
  }
  plan_step(model_.config, planned_, plan_);
  if (rewrite_) rewrite_(plan_, planned_);
  positions_.clear();
  for (const PlannedRow& row : plan_.rows) positions_.push_back(row.position);
  check_plan(feeds);
}

template <Scalar T>
void Cached<T>::check_lengths(std::span<const CacheFeed<T>> feeds) const {
  std::size_t tokens = 0;
  for (const CacheFeed<T>& feed : feeds) tokens += feed.tokens.size();
  if (plan_.rows.size() != tokens) {
    throw EngineError(fmt::format("a plan of {} rows for {} tokens", plan_.rows.size(), tokens));
  }
  for (std::size_t s = 0; s < feeds.size(); ++s) {
    const int most = room(*feeds[s].cache, model_.config.context);
    if (plan_.length_after[s] < 0 || plan_.length_after[s] > most) {
      throw EngineError(fmt::format("a planned length of {}, where there is room for {} rows",
                                    plan_.length_after[s], most));
    }
  }
}

// A plan may be wrong, and is then carried out, but not outside of what there is.
template <Scalar T>
void Cached<T>::check_plan(std::span<const CacheFeed<T>> feeds) const {
  const Config& config = model_.config;
  const auto within = [](int index, std::size_t size) {
    return index >= 0 && static_cast<std::size_t>(index) < size;
  };
  const auto all_within = [&](const std::vector<int>& indices, std::size_t count, int size) {
    return indices.size() == count && std::ranges::all_of(indices, [&](int index) {
             return within(index, static_cast<std::size_t>(size));
           });
  };
  const auto layers = static_cast<std::size_t>(config.layers);
  if (!all_within(plan_.write_store, layers, config.layers) ||
      !all_within(plan_.read_store, layers, config.layers) ||
      !all_within(plan_.view_of_layer, layers, static_cast<int>(plan_.views.size())) ||
      plan_.rules.size() != layers ||
      !all_within(plan_.kv_head_of, static_cast<std::size_t>(config.query_heads),
                  config.kv_heads) ||
      plan_.length_after.size() != feeds.size()) {
    throw EngineError("a plan names a layer, K/V head, view or sequence that there is not");
  }
  check_lengths(feeds);
  for (const PlannedRow& row : plan_.rows) {
    if (!within(row.sequence, feeds.size())) {
      throw EngineError(fmt::format("a planned row of sequence {} of {} that are fed", row.sequence,
                                    feeds.size()));
    }
    if (!within(row.position, static_cast<std::size_t>(config.context))) {
      throw EngineError(fmt::format("a planned position {} lies past the context of {}",
                                    row.position, config.context));
    }
  }
  check_positions();
  check_rules();
  for (int v = 0; v < static_cast<int>(plan_.views.size()); ++v) check_view(v, feeds);
}

// Constants that the model has, or that no model lacks.
template <Scalar T>
void Cached<T>::check_rules() const {
  for (std::size_t l = 0; l < plan_.rules.size(); ++l) {
    const AttentionRule& rule = plan_.rules[l];
    const int bases = static_cast<int>(rotary_.size());
    if (rule.rotary_base != kNoRotation && (rule.rotary_base < 0 || rule.rotary_base >= bases)) {
      throw EngineError(fmt::format("a planned rotary base {} of the {} that there are",
                                    rule.rotary_base, bases));
    }
    if (rule.head_norm && !model_.config.head_norm) {
      throw EngineError("a plan norms the heads of a model that has no norm for them");
    }
    const SlotView& view = view_of(static_cast<int>(l));
    const auto heads = static_cast<std::size_t>(model_.config.query_heads);
    if (!rule.slopes.empty() &&
        (rule.slopes.size() != heads || view.positions.size() != view.slots.size())) {
      throw EngineError("a plan leaves a head without a slope or a key without a position");
    }
  }
}

template <Scalar T>
void Cached<T>::check_positions() const {
  if (plan_.positions_of_layer.empty()) return;
  const auto lists = static_cast<int>(plan_.positions.size());
  const bool whole =
      plan_.positions_of_layer.size() == plan_.view_of_layer.size() &&
      std::ranges::all_of(plan_.positions_of_layer, [&](int i) { return i >= 0 && i < lists; }) &&
      std::ranges::all_of(plan_.positions, [&](const RowPositions& of) {
        return of.query.size() == plan_.rows.size() && of.key.size() == plan_.rows.size();
      });
  if (!whole) throw EngineError("a plan leaves a row of a layer without a position");
}

// Slots that a store has in every layer that reads or writes by this view.
template <Scalar T>
int Cached<T>::slots_of(int view, const KvStore<T>& store) const {
  int slots = std::numeric_limits<int>::max();
  for (std::size_t l = 0; l < plan_.view_of_layer.size(); ++l) {
    if (plan_.view_of_layer[l] != view) continue;
    slots = std::min({slots, store.slots(plan_.read_store[l]), store.slots(plan_.write_store[l])});
  }
  return slots;
}

template <Scalar T>
void Cached<T>::check_view(int view, std::span<const CacheFeed<T>> feeds) const {
  const SlotView& checked = plan_.views[static_cast<std::size_t>(view)];
  const std::size_t rows = plan_.rows.size();
  const bool whole =
      checked.first.size() == rows + 1 && checked.first.front() == 0 &&
      checked.first.back() == static_cast<int>(checked.slots.size()) &&
      std::ranges::adjacent_find(checked.first, std::greater_equal<>()) == checked.first.end() &&
      (checked.write.empty() || checked.write.size() == rows);
  if (!whole) throw EngineError("a planned view leaves a row without a slot to see");
  int sequence = -1;
  int slots = 0;
  const auto outside = [&](int slot) { return slot < 0 || slot >= slots; };
  for (std::size_t r = 0; r < rows; ++r) {
    if (plan_.rows[r].sequence != sequence) {
      sequence = plan_.rows[r].sequence;
      slots = slots_of(view, feeds[static_cast<std::size_t>(sequence)].cache->store());
    }
    const bool written = checked.write.empty()
                             ? !outside(plan_.rows[r].slot)
                             : checked.write[r] == kNowhere || !outside(checked.write[r]);
    if (!written || std::ranges::any_of(checked.of(static_cast<int>(r)), outside)) {
      throw EngineError(fmt::format("a planned slot lies past the {} that there are", slots));
    }
  }
}

template <Scalar T>
void Cached<T>::embed(std::span<const CacheFeed<T>> feeds) {
  const Config& config = model_.config;
  const View<T> x = x_.reshape(static_cast<int>(plan_.rows.size()), config.width);
  const T scale = static_cast<T>(plan_.embedding_scale);
  int r = 0;
  for (const CacheFeed<T>& feed : feeds) {
    for (const int token : feed.tokens) {
      for (int f = 0; f < config.width; ++f) x.feature(f)[r] = model_.embedding(token, f) * scale;
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
  place_heads(layer, query, key);
  observe(Site::query, layer, query);
  observe(Site::key, layer, key);
  observe(Site::value, layer, value);
  attend(layer, feeds);
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

// Norms and rotates queries and keys by the layer's rule.
template <Scalar T>
void Cached<T>::place_heads(int layer, View<T> query, View<T> key) {
  const Config& config = model_.config;
  const AttentionRule& rule = plan_.rules[static_cast<std::size_t>(layer)];
  if (rule.head_norm) {
    const Layer<T>& weights = model_.layers[static_cast<std::size_t>(layer)];
    normalize_heads(ops_, weights.query_norm, epsilon_, query);
    normalize_heads(ops_, weights.key_norm, epsilon_, key);
  }
  if (rule.rotary_base == kNoRotation) return;
  const RotaryTable<T>& table = *rotary_[static_cast<std::size_t>(rule.rotary_base)];
  const RowPositions* own = own_positions_of(layer);
  rotate(table, config.rotary_pairs, own ? own->query : positions_, config.head_size, query);
  rotate(table, config.rotary_pairs, own ? own->key : positions_, config.head_size, key);
}

// Each row is stored and then attends, before the next one is stored in the same store: in a ring
// that one may take the slot of a row that this one still sees.
template <Scalar T>
void Cached<T>::attend(int layer, std::span<const CacheFeed<T>> feeds) {
  const View<T> query = query_.view();
  attended_.reshape(query.rows, query.features);
  for (int first = 0; first < query.rows;) {
    const int count = rows_together(layer, first, feeds);
    attend_together(layer, first, count, feeds);
    first += count;
  }
}

// How many rows from `first` on see equally many keys, each in a store of its own: their softmax is
// one. Sequences that are fed together have a store each, or all of them share one; rows that are
// decoded into a copy use the same copy. An observer is told row after row.
template <Scalar T>
int Cached<T>::rows_together(int layer, int first, std::span<const CacheFeed<T>> feeds) const {
  const auto store_of = [&](int row) {
    const int sequence = plan_.rows[static_cast<std::size_t>(row)].sequence;
    return &feeds[static_cast<std::size_t>(sequence)].cache->store();
  };
  if (observer_ != nullptr || store_of(first)->format() != RowFormat::native) return 1;
  const SlotView& view = view_of(layer);
  const int rows = static_cast<int>(plan_.rows.size());
  int last = first + 1;
  while (last < rows &&
         plan_.rows[static_cast<std::size_t>(last)].sequence >
             plan_.rows[static_cast<std::size_t>(last - 1)].sequence &&
         store_of(last) != store_of(last - 1) && view.of(last).size() == view.of(first).size()) {
    ++last;
  }
  return last - first;
}

template <Scalar T>
void Cached<T>::attend_together(int layer, int first, int count,
                                std::span<const CacheFeed<T>> feeds) {
  const int heads = model_.config.query_heads;
  const int keys = static_cast<int>(view_of(layer).of(first).size());
  const std::ptrdiff_t size = std::ptrdiff_t{heads} * keys;
  if (std::ssize(scores_) < count * size) scores_.resize(static_cast<std::size_t>(count * size));
  const auto scores_of = [&](int row) {
    return View<T>{scores_.data() + (row - first) * size, keys, heads, keys};
  };
  seen_.clear();
  for (int r = first; r < first + count; ++r) {
    const auto sequence = plan_.rows[static_cast<std::size_t>(r)].sequence;
    KvStore<T>& store = feeds[static_cast<std::size_t>(sequence)].cache->store();
    store_row(layer, r, store);
    score_row(layer, r, store, scores_of(r));
  }
  ops_.softmax(count * heads, keys, 1, scores_.data());
  for (int r = first; r < first + count; ++r) {
    observe_scores(Site::probabilities, layer, r, scores_of(r));
    mix_row(r, scores_of(r).data, seen_[static_cast<std::size_t>(r - first)].values);
  }
}

template <Scalar T>
void Cached<T>::store_row(int layer, int row, KvStore<T>& store) {
  const auto r = static_cast<std::size_t>(row);
  const View<T> keys = key_.view();
  const View<T> values = value_.view();
  for (int f = 0; f < keys.features; ++f) {
    key_row_[static_cast<std::size_t>(f)] = keys.feature(f)[row];
    value_row_[static_cast<std::size_t>(f)] = values.feature(f)[row];
  }
  const SlotView& view = view_of(layer);
  const int slot = view.write.empty() ? plan_.rows[r].slot : view.write[r];
  if (slot == kNowhere) return;
  store.write(plan_.write_store[static_cast<std::size_t>(layer)], slot, key_row_.data(),
              value_row_.data());
}

template <Scalar T>
auto Cached<T>::seen_rows(const KvStore<T>& store, int layer, std::span<const int> slots)
    -> SeenRows {
  const bool watched = observer_ != nullptr &&
                       (observer_->wants(Site::cached_key) || observer_->wants(Site::cached_value));
  if (store.format() != RowFormat::native || watched) return copied_rows(store, layer, slots);
  return {{store.key(layer, 0), store.stride(), slots, plan_.kv_head_of},
          {store.value(layer, 0), store.stride(), slots, plan_.kv_head_of}};
}

template <Scalar T>
auto Cached<T>::copied_rows(const KvStore<T>& store, int layer, std::span<const int> slots)
    -> SeenRows {
  const auto width = static_cast<std::size_t>(store.row());
  copied_keys_.resize(slots.size() * width);
  copied_values_.resize(slots.size() * width);
  copied_slots_.resize(slots.size());
  for (std::size_t i = 0; i < slots.size(); ++i) {
    store.read(layer, slots[i], &copied_keys_[i * width], &copied_values_[i * width]);
    copied_slots_[i] = static_cast<int>(i);
  }
  return {{copied_keys_.data(), store.row(), copied_slots_, plan_.kv_head_of},
          {copied_values_.data(), store.row(), copied_slots_, plan_.kv_head_of}};
}

template <Scalar T>
void Cached<T>::observe_rows(int layer, int row, int keys, int width) {
  if (observer_ == nullptr) return;
  if (observer_->wants(Site::cached_key)) {
    (*observer_)({Site::cached_key, layer, row, copied_keys_.data(), keys, width, width, 1});
  }
  if (observer_->wants(Site::cached_value)) {
    (*observer_)({Site::cached_value, layer, row, copied_values_.data(), keys, width, width, 1});
  }
}

// `scores`: a feature a query head, a row a key that it sees.
template <Scalar T>
void Cached<T>::score_row(int layer, int row, const KvStore<T>& store, View<T> scores) {
  const Config& config = model_.config;
  const Heads heads{config.query_heads, config.kv_heads, config.head_size};
  const View<T> query = query_.view();
  for (int f = 0; f < query.features; ++f) {
    query_row_[static_cast<std::size_t>(f)] = query.feature(f)[row];
  }
  const auto l = static_cast<std::size_t>(layer);
  const SeenRows& seen =
      seen_.emplace_back(seen_rows(store, plan_.read_store[l], view_of(layer).of(row)));
  observe_rows(layer, row, scores.rows, store.row());
  const T scale = static_cast<T>(plan_.rules[l].score_scale);
  ops_.cached_scores(heads, query_row_.data(), seen.keys, scale, scores.data);
  bias_and_cap(layer, row, scores);
  observe_scores(Site::scores, layer, row, scores);
}

template <Scalar T>
void Cached<T>::mix_row(int row, const T* probabilities, const CachedRows<T>& values) {
  const Config& config = model_.config;
  const Heads heads{config.query_heads, config.kv_heads, config.head_size};
  ops_.cached_mix(heads, probabilities, values, attended_row_.data());
  const View<T> out = attended_.view();
  for (int f = 0; f < out.features; ++f) {
    out.feature(f)[row] = attended_row_[static_cast<std::size_t>(f)];
  }
}

template <Scalar T>
void Cached<T>::observe_scores(Site site, int layer, int row, View<T> scores) const {
  if (observer_ == nullptr) return;
  (*observer_)({site, layer, row, scores.data, scores.features, scores.rows, scores.stride, 1});
}

// Of the scores of one query row, by the layer's rule.
template <Scalar T>
void Cached<T>::bias_and_cap(int layer, int row, View<T> scores) {
  const AttentionRule& rule = plan_.rules[static_cast<std::size_t>(layer)];
  if (!rule.slopes.empty()) {
    const RowPositions* own = own_positions_of(layer);
    const std::int64_t query = (own ? own->query : positions_)[static_cast<std::size_t>(row)];
    distances_.clear();
    for (const int key : view_of(layer).positions_of(row)) distances_.push_back(query - key);
    slopes_.clear();
    for (const long double slope : rule.slopes) slopes_.push_back(static_cast<T>(slope));
    ops_.lower(slopes_, distances_, 1, scores.data);
  }
  if (rule.score_cap > 0) ops_.soft_cap(scores, static_cast<T>(rule.score_cap));
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
template class Cached<Counted>;

}  // namespace kvcheck
