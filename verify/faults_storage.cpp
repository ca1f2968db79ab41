// SPDX-License-Identifier: MIT
// Wrong answers to: where does a row go, and what is read from there?
#include <array>
#include <optional>

#include "verify/fault_rows.h"
#include "verify/faults.h"

namespace kvcheck {
namespace {

constexpr std::string_view kSlot = "slot of a row";
constexpr std::string_view kStore = "store of a layer";
constexpr std::string_view kHead = "K/V head of a query head";
constexpr std::string_view kWritten = "rows as they are stored";
constexpr std::string_view kRead = "rows as they are read";

// ---- Rows that are not written, or elsewhere

void skip(StepPlan& plan, const FaultStep& step) {
  rewrite_writes(plan, step,
                 [&](int, int row, int right) { return step.warm(row) ? kNowhere : right; });
}

// Only the row of the onset, in whichever feed it comes.
void skip_one(StepPlan& plan, const FaultStep& step) {
  rewrite_writes(plan, step, [&](int, int row, int right) {
    return index_of(step, row) == step.at.onset.value_or(1) ? kNowhere : right;
  });
}

// The first token, where it is fed alone, only advances the length.
void skip_first(StepPlan& plan, const FaultStep& step) {
  rewrite_writes(plan, step, [&](int, int row, int right) {
    return index_of(step, row) == 0 && step.tokens(row) == 1 ? kNowhere : right;
  });
}

void see_itself_fresh(ViewRows& seen, int, int row, const FaultStep& step) {
  if (step.warm(row)) seen.back().source = row;
}

// Attention takes the new row from where it was computed, so that only the next step misses it.
void skip_behind_fresh(StepPlan& plan, const FaultStep& step, ViewSources& sources) {
  rewrite_seen(plan, step, see_itself_fresh, sources);
  skip(plan, step);
}

void over_last(StepPlan& plan, const FaultStep& step) {
  rewrite_writes(plan, step, [&](int layer, int row, int right) {
    const int index = index_of(step, row) - step.amount();
    return step.warm(row) && index >= 0 ? slot_of(step, layer, row, index) : right;
  });
}

void chunk_in_one_slot(StepPlan& plan, const FaultStep& step) {
  rewrite_writes(plan, step, [&](int layer, int row, int right) {
    return step.warm(row) ? slot_of(step, layer, row, step.held(row)) : right;
  });
}

void chunk_reversed(StepPlan& plan, const FaultStep& step) {
  rewrite_writes(plan, step, [&](int layer, int row, int) {
    const int last = step.held(row) + step.tokens(row) - 1;
    return slot_of(step, layer, row, last - step.place(row));
  });
}

void chunk_first_only(StepPlan& plan, const FaultStep& step) {
  rewrite_writes(plan, step, [&](int, int row, int right) {
    return step.warm(row) && step.place(row) > 0 ? kNowhere : right;
  });
}

void chunk_last_only(StepPlan& plan, const FaultStep& step) {
  rewrite_writes(plan, step, [&](int, int row, int right) {
    return step.warm(row) && step.place(row) < step.tokens(row) - 1 ? kNowhere : right;
  });
}

// The oldest row of a layer that the next one will see.
template <Scalar T>
int oldest_needed(const KvCache<T>& cache, const Config& config, int layer) {
  const int window = config.windows[static_cast<std::size_t>(layer)];
  return window == 0 ? 0 : std::clamp(cache.length() - window + 1, 0, cache.length() - 1);
}

template <Scalar T>
void overwrite_oldest(KvCache<T>& cache, const Planting<T>& planting) {
  const int newest = cache.length() - 1;
  for (int layer = 0; layer < planting.config.layers; ++layer) {
    const int oldest = oldest_needed(cache, planting.config, layer);
    if (!planting.in_layer(layer) || oldest == newest) continue;
    cache.store().copy(cache.store(), layer, cache.slot(layer, newest), cache.slot(layer, oldest),
                       1);
    planting.trace->changed();
  }
}

// After each further feed, the oldest row that is still needed is overwritten with the newest one.
void plant_overwritten(const auto& planting) {
  planting.hooks.feed = [planting](Engine& inner, std::span<const Feed> feeds, Rows rows,
                                   Logits& out) {
    std::vector<bool> warm;
    for (const Feed& feed : feeds) {
      const int held = planting.engine.cache(feed.sequence).length();
      warm.push_back(held >= planting.at.onset.value_or(1));
    }
    inner.batch(feeds, rows, out);
    for (std::size_t i = 0; i < feeds.size(); ++i) {
      if (warm[i]) overwrite_oldest(planting.engine.cache(feeds[i].sequence), planting);
    }
  };
}

// ---- Lengths

// A feed to a cache counts so many rows too many or too few; a length is at least that before.
void length_off_by(StepPlan& plan, const FaultStep& step) {
  for (int row = 0; row < static_cast<int>(plan.rows.size()); ++row) {
    if (!step.warm(row) || step.place(row) > 0) continue;
    const int sequence = plan.rows[static_cast<std::size_t>(row)].sequence;
    int& length = plan.length_after[static_cast<std::size_t>(sequence)];
    length = std::clamp(length + step.amount(), step.held(row), step.config.context);
  }
}

// The length is the number of rows that are not 0. Those of one token, here given by its id, are.
void length_from_nonzero(StepPlan& plan, const FaultStep& step,
                         const std::vector<SequenceTokens>& tokens) {
  for (std::size_t s = 0; s < tokens.size(); ++s) {
    const auto fed = std::span(tokens[s]).last(static_cast<std::size_t>(step.feeds[s].tokens));
    plan.length_after[s] -= static_cast<int>(std::ranges::count(fed, step.amount()));
  }
}

// ---- Stores of other layers

bool all_warm(const FaultStep& step) {
  return std::ranges::all_of(
      step.feeds, [&](const PlannedFeed& feed) { return feed.held >= step.at.onset.value_or(1); });
}

void take_neighbour(std::vector<int>& stores, const FaultStep& step) {
  const int layers = step.config.layers;
  for (int layer = 0; layer < layers && all_warm(step); ++layer) {
    if (!step.in_layer(layer)) continue;
    stores[static_cast<std::size_t>(layer)] = ((layer + step.amount()) % layers + layers) % layers;
  }
}

void write_to_neighbour(StepPlan& plan, const FaultStep& step) {
  take_neighbour(plan.write_store, step);
}

void read_from_neighbour(StepPlan& plan, const FaultStep& step) {
  take_neighbour(plan.read_store, step);
}

void one_store(StepPlan& plan, const FaultStep&) {
  std::ranges::fill(plan.write_store, 0);
  std::ranges::fill(plan.read_store, 0);
}

// ---- Heads

// Sets the K/V head of each query head in decode, from (query head, the right one).
template <typename Wrong>
void rewrite_heads(StepPlan& plan, const FaultStep& step, Wrong wrong) {
  if (!all_warm(step)) return;
  for (std::size_t head = 0; head < plan.kv_head_of.size(); ++head) {
    plan.kv_head_of[head] = wrong(static_cast<int>(head), plan.kv_head_of[head]);
  }
}

void tile_heads(StepPlan& plan, const FaultStep& step) {
  rewrite_heads(plan, step, [&](int head, int) { return head % step.config.kv_heads; });
}

void neighbour_head(StepPlan& plan, const FaultStep& step) {
  const int heads = step.config.kv_heads;
  rewrite_heads(plan, step,
                [&](int, int right) { return ((right + step.amount()) % heads + heads) % heads; });
}

void first_head(StepPlan& plan, const FaultStep& step) {
  rewrite_heads(plan, step, [](int, int) { return 0; });
}

// ---- Numbers of the rows that are fed, before they are stored

// `wrong` gives the column that each number is taken from, or none for 0. It is asked for every row
// and column of a tensor of keys or values.
template <typename Wrong>
void rewrite_columns(const auto& tensor, const FaultStep& step, Wrong wrong) {
  using T = std::remove_cvref_t<decltype(tensor.at(0, 0))>;
  if (!step.in_layer(tensor.layer)) return;
  std::vector<T> right(static_cast<std::size_t>(tensor.columns));
  for (int r = 0; r < tensor.rows; ++r) {
    for (int c = 0; c < tensor.columns; ++c) right[static_cast<std::size_t>(c)] = tensor.at(r, c);
    for (int c = 0; c < tensor.columns; ++c) {
      const std::optional<int> from = wrong(r, c);
      tensor.at(r, c) = from ? right[static_cast<std::size_t>(*from)] : T{0};
    }
  }
}

// Heads of the last row of a feed of several tokens land in the head before; the last head stays
// empty.
void heads_cross(const auto& tensor, const FaultStep& step) {
  rewrite_columns(tensor, step, [&](int r, int c) -> std::optional<int> {
    if (step.tokens(r) == 1 || step.place(r) < step.tokens(r) - 1) return c;
    const int from = c + step.config.head_size;
    return from < tensor.columns ? std::optional(from) : std::nullopt;
  });
}

void head_empty(const auto& tensor, const FaultStep& step) {
  rewrite_columns(tensor, step, [&](int r, int c) -> std::optional<int> {
    const bool last_head = c >= tensor.columns - step.config.head_size;
    return last_head && step.warm(r) ? std::nullopt : std::optional(c);
  });
}

void heads_rotated(const auto& tensor, const FaultStep& step) {
  rewrite_columns(tensor, step, [&](int r, int c) -> std::optional<int> {
    return step.warm(r) ? (c + step.config.head_size) % tensor.columns : c;
  });
}

// [kv_heads, head_size] stored as [head_size, kv_heads].
void transposed(const auto& tensor, const FaultStep& step) {
  const int heads = step.config.kv_heads;
  rewrite_columns(tensor, step, [&](int r, int c) -> std::optional<int> {
    return step.warm(r) ? (c % heads) * step.config.head_size + c / heads : c;
  });
}

// Half of the bytes are copied.
void half_copied(const auto& tensor, const FaultStep& step) {
  rewrite_columns(tensor, step, [&](int r, int c) -> std::optional<int> {
    return step.warm(r) && c >= tensor.columns / 2 ? std::nullopt : std::optional(c);
  });
}

// ---- Rows as they are read: the last one is the query's own

template <typename Tensor>
void copy_row(const Tensor& tensor, int from, int to) {
  for (int c = 0; c < tensor.columns; ++c) tensor.at(to, c) = tensor.at(from, c);
}

// The new row is read before it is written: what lies there is of the row before.
void newest_stale(const auto& tensor, const FaultStep& step) {
  if (!step.in_layer(tensor.layer) || !step.warm(tensor.row) || tensor.rows < 2) return;
  copy_row(tensor, tensor.rows - 2, tensor.rows - 1);
}

void newest_empty(const auto& tensor, const FaultStep& step) {
  using T = std::remove_cvref_t<decltype(tensor.at(0, 0))>;
  if (!step.in_layer(tensor.layer) || !step.warm(tensor.row)) return;
  for (int c = 0; c < tensor.columns; ++c) tensor.at(tensor.rows - 1, c) = T{0};
}

// All rows but the oldest are read one slot too early.
void one_behind(const auto& tensor, const FaultStep& step) {
  if (!step.in_layer(tensor.layer) || !step.warm(tensor.row)) return;
  for (int r = tensor.rows - 1; r > 0; --r) copy_row(tensor, r - 1, r);
}

// ---- Keys and values taken for each other

// Calls change(keys, values, row of the plan for each of their rows) where both are at hand: as
// they are stored, or as they are read.
template <Scalar T, typename Change>
void plant_pairs(const Planting<T>& planting, Site of_keys, Site of_values, Change change) {
  auto rows =
      std::make_shared<RowsAsRead<T>>(RowsAsRead<T>{planting.config, planting.cache, planting.at});
  planting.engine.rewrite_plans(
      [rows](StepPlan&, PlannedFeeds feeds) { rows->feeds.assign(feeds.begin(), feeds.end()); });
  auto& engine = planting.engine;
  planting.engine.observe_cached(Observer<T>(
      [rows, of_keys, change, &engine, trace = planting.trace](const SiteTensor<T>& tensor) {
        if (tensor.site == of_keys) {
          rows->keys.emplace(tensor);
          return;
        }
        const FaultStep step{rows->config, rows->cache, rows->at, rows->feeds, engine.plan()};
        const bool read = of_keys == Site::cached_key;
        for (int r = 0; step.in_layer(tensor.layer) && r < tensor.rows; ++r) {
          if (!step.warm(read ? tensor.row : r)) continue;
          for (int c = 0; c < tensor.columns; ++c) change(rows->keys->at(r, c), tensor.at(r, c));
          trace->changed();
        }
      },
      SiteSet().with(of_keys).with(of_values)));
}

void value_is_key(auto& key, auto& value) { value = key; }
void key_is_value(auto& key, auto& value) { key = value; }
void exchanged(auto& key, auto& value) { std::swap(key, value); }

// Query heads find their rows where they were put: nobody outside can tell.
void plant_heads_reversed(const auto& planting) {
  auto& engine = planting.engine;
  engine.rewrite_plans([](StepPlan& plan, PlannedFeeds) {
    const int last = *std::ranges::max_element(plan.kv_head_of);
    for (int& head : plan.kv_head_of) head = last - head;
  });
  const int size = planting.config.head_size;
  engine.observe_cached({[size, trace = planting.trace](const auto& tensor) {
                           const int heads = tensor.columns / size;
                           for (int r = 0; r < tensor.rows; ++r) {
                             for (int c = 0; c < heads / 2 * size; ++c) {
                               const int mirrored = (heads - 1 - c / size) * size + c % size;
                               std::swap(tensor.at(r, c), tensor.at(r, mirrored));
                             }
                           }
                           trace->changed();
                         },
                         SiteSet().with(Site::key).with(Site::value)});
}

constexpr SiteSet kKeys = SiteSet().with(Site::key);
constexpr SiteSet kValues = SiteSet().with(Site::value);
constexpr SiteSet kBoth = kKeys.with(Site::value);
constexpr SiteSet kReadKeys = SiteSet().with(Site::cached_key);
constexpr SiteSet kReadValues = SiteSet().with(Site::cached_value);
constexpr SiteSet kReadBoth = kReadKeys.with(Site::cached_value);

constexpr Features kHeads{Feature::kv_heads};
constexpr Features kLayers{Feature::two_layers};

constexpr std::array kFaults{
    Fault{"write-skip",
          kSlot,
          "further rows are not stored",
          "class of TrenTorch 192",
          {},
          "flat",
          {.layers = true, .onsets = {1, 2, 3}},
          in_cleared_memory<skip>()},
    Fault{"write-skip-one",
          kSlot,
          "one row is not stored",
          "class of TrenTorch 192",
          {},
          "flat",
          {.layers = true, .onsets = {1, 2, 3}},
          in_cleared_memory<skip_one>()},
    Fault{"write-skip-first",
          kSlot,
          "the first token, fed alone, only advances the length",
          "TrenTorch 192",
          {},
          "flat",
          {.layers = true},
          in_cleared_memory<skip_first>()},
    Fault{"write-skip-behind-fresh",
          kSlot,
          "attention takes the new row from where it was computed, and it is not stored",
          "class of TrenTorch 192",
          {},
          "flat",
          {.layers = true, .onsets = {1, 2}},
          with_sources<skip_behind_fresh>()},
    Fault{"write-over-last",
          kSlot,
          "a further row goes to a slot that is held, so many before its own",
          "class of textgen 4145",
          {},
          "flat",
          {.layers = true, .onsets = {1, 2}, .amounts = {1, 2}},
          in_cleared_memory<over_last>()},
    Fault{"write-over-oldest",
          kSlot,
          "after each further feed, the newest row lies in the oldest one's slot too",
          "class of slots that are not free",
          {},
          "flat",
          {.layers = true, .onsets = {1, 2}},
          at_verbs([](const auto& planting) { plant_overwritten(planting); })},
    Fault{"write-chunk-one-slot",
          kSlot,
          "all rows of a further feed go to its first slot",
          "class of indices that are not advanced",
          {},
          "flat",
          {.layers = true},
          in_cleared_memory<chunk_in_one_slot>()},
    Fault{"write-chunk-reversed",
          kSlot,
          "the rows of a feed are stored in the opposite order",
          "class of orders of rows",
          {},
          "flat",
          {.layers = true},
          in_cleared_memory<chunk_reversed>()},
    Fault{"write-chunk-first-only",
          kSlot,
          "of a further feed, only the first row is stored",
          "class of decode paths that are fed several tokens",
          {},
          "flat",
          {.layers = true},
          in_cleared_memory<chunk_first_only>()},
    Fault{"write-chunk-last-only",
          kSlot,
          "of a further feed, only the last row is stored",
          "class of decode paths that are fed several tokens",
          {},
          "flat",
          {.layers = true},
          in_cleared_memory<chunk_last_only>()},
    Fault{"write-wrong-layer",
          kStore,
          "a layer's further rows go to its neighbour's store",
          "mistral.rs 300, surogate 115",
          kLayers,
          "flat",
          {.layers = true, .onsets = {1, 2}, .amounts = {-1, 1}},
          in_cleared_memory<write_to_neighbour>()},
    Fault{"read-wrong-layer",
          kStore,
          "a layer reads its neighbour's store",
          "mistral.rs 300, surogate 115",
          kLayers,
          "flat",
          {.layers = true, .onsets = {1, 2}, .amounts = {-1, 1}},
          in_cleared_memory<read_from_neighbour>()},
    Fault{"layers-share-a-store",
          kStore,
          "all layers have one store",
          "class of mistral.rs 300",
          kLayers,
          "flat",
          {},
          PlanFault{one_store}},
    Fault{"length-off-by",
          "rows held",
          "a further feed counts a row too many or too few",
          "class of transformers 30377",
          {},
          "flat",
          {.onsets = {1, 2}, .amounts = {-1, 1}},
          in_cleared_memory<length_off_by>()},
    Fault{"len-from-nonzero",
          "rows held",
          "rows of a token whose embedding is 0 are not counted (the token of this id)",
          "transformers 30377",
          {},
          "flat",
          {.amounts = {0, 1}},
          by_tokens<length_from_nonzero>()},
    Fault{"kv-head-tile",
          kHead,
          "query heads share K/V heads in turns, not in groups",
          "axlearn 842, onnx 7274, candle-vllm 52",
          {Feature::shared_heads},
          "flat",
          {.onsets = {1, 2}},
          PlanFault{tile_heads}},
    Fault{"kv-head-neighbour",
          kHead,
          "query heads read the K/V head beside theirs",
          "class of axlearn 842",
          kHeads,
          "flat",
          {.onsets = {1, 2}, .amounts = {-1, 1}},
          PlanFault{neighbour_head}},
    Fault{"kv-head-first",
          kHead,
          "all query heads read the first K/V head",
          "class of axlearn 842",
          kHeads,
          "flat",
          {.onsets = {1, 2}},
          PlanFault{first_head}},
    Fault{"write-head-cross",
          kWritten,
          "heads of the last row of a long feed land in the head before",
          "tt-metal 54742",
          kHeads,
          "flat",
          {.layers = true},
          at_sites(kBoth,
                   [](const auto& tensor, const FaultStep& step) { heads_cross(tensor, step); })},
    Fault{"write-head-empty",
          kWritten,
          "the last head of a further row stays empty",
          "tt-metal 54413",
          kHeads,
          "flat",
          {.layers = true, .onsets = {1, 2}},
          at_sites(kBoth,
                   [](const auto& tensor, const FaultStep& step) { head_empty(tensor, step); })},
    Fault{"write-heads-rotated",
          kWritten,
          "further rows are stored with each head in the place of the one before",
          "class of tt-metal 54742",
          kHeads,
          "flat",
          {.layers = true, .onsets = {1, 2}},
          at_sites(kBoth,
                   [](const auto& tensor, const FaultStep& step) { heads_rotated(tensor, step); })},
    Fault{"write-key-heads-rotated",
          kWritten,
          "the keys of further rows have each head in the place of the one before",
          "class of tt-metal 54742",
          kHeads,
          "flat",
          {.layers = true},
          at_sites(kKeys,
                   [](const auto& tensor, const FaultStep& step) { heads_rotated(tensor, step); })},
    Fault{"write-value-heads-rotated",
          kWritten,
          "the values of further rows have each head in the place of the one before",
          "class of tt-metal 54742",
          kHeads,
          "flat",
          {.layers = true},
          at_sites(kValues,
                   [](const auto& tensor, const FaultStep& step) { heads_rotated(tensor, step); })},
    Fault{"write-transposed",
          kWritten,
          "further rows are stored with heads and their dimensions exchanged",
          "class of memory layouts",
          kHeads,
          "flat",
          {.layers = true, .onsets = {1, 2}},
          at_sites(kBoth,
                   [](const auto& tensor, const FaultStep& step) { transposed(tensor, step); })},
    Fault{"write-half",
          kWritten,
          "half of a further row is copied",
          "class of sizes in the wrong unit",
          {},
          "flat",
          {.layers = true, .onsets = {1, 2}},
          at_sites(kBoth,
                   [](const auto& tensor, const FaultStep& step) { half_copied(tensor, step); })},
    Fault{"write-value-is-key",
          kWritten,
          "the keys of further rows are stored as their values too",
          "sockeye 731, vllm-ascend 11021",
          {},
          "flat",
          {.layers = true, .onsets = {1, 2, 3}},
          at_verbs([](const auto& planting) {
            plant_pairs(planting, Site::key, Site::value,
                        [](auto& key, auto& value) { value_is_key(key, value); });
          })},
    Fault{"write-key-is-value",
          kWritten,
          "the values of further rows are stored as their keys too",
          "class of sockeye 731",
          {},
          "flat",
          {.layers = true, .onsets = {1, 2, 3}},
          at_verbs([](const auto& planting) {
            plant_pairs(planting, Site::key, Site::value,
                        [](auto& key, auto& value) { key_is_value(key, value); });
          })},
    Fault{"write-exchanged",
          kWritten,
          "keys and values of further rows are stored in each other's place",
          "class of sockeye 731",
          {},
          "flat",
          {.layers = true, .onsets = {1, 2}},
          at_verbs([](const auto& planting) {
            plant_pairs(planting, Site::key, Site::value,
                        [](auto& key, auto& value) { exchanged(key, value); });
          })},
    Fault{"read-exchanged",
          kRead,
          "keys and values are read from each other's place",
          "class of vllm-ascend 11021",
          {},
          "flat",
          {.layers = true, .onsets = {1, 2}},
          at_verbs([](const auto& planting) {
            plant_pairs(planting, Site::cached_key, Site::cached_value,
                        [](auto& key, auto& value) { exchanged(key, value); });
          })},
    Fault{"read-before-write",
          kRead,
          "a further row is read before it is written: its slot holds what the row before does",
          "class of rows that come a step late",
          {},
          "flat",
          {.layers = true, .onsets = {1, 2}},
          at_sites(kReadBoth,
                   [](const auto& tensor, const FaultStep& step) { newest_stale(tensor, step); })},
    Fault{"read-before-write-empty",
          kRead,
          "a further row is read before it is written: its slot is empty",
          "class of rows that come a step late",
          {},
          "flat",
          {.layers = true, .onsets = {1, 2}},
          at_sites(kReadBoth,
                   [](const auto& tensor, const FaultStep& step) { newest_empty(tensor, step); })},
    Fault{"read-key-stale",
          kRead,
          "of the new row, the value is fresh and the key that of the row before",
          "class of rows that come a step late",
          {},
          "flat",
          {.layers = true, .onsets = {1, 2}},
          at_sites(kReadKeys,
                   [](const auto& tensor, const FaultStep& step) { newest_stale(tensor, step); })},
    Fault{"read-value-stale",
          kRead,
          "of the new row, the key is fresh and the value that of the row before",
          "class of rows that come a step late",
          {},
          "flat",
          {.layers = true, .onsets = {1, 2}},
          at_sites(kReadValues,
                   [](const auto& tensor, const FaultStep& step) { newest_stale(tensor, step); })},
    Fault{"read-keys-behind",
          kRead,
          "keys lie one slot behind their values",
          "class of offsets of one of two buffers",
          {},
          "flat",
          {.layers = true, .onsets = {1, 2}},
          at_sites(kReadKeys,
                   [](const auto& tensor, const FaultStep& step) { one_behind(tensor, step); })},
    Fault{"read-values-behind",
          kRead,
          "values lie one slot behind their keys",
          "class of offsets of one of two buffers",
          {},
          "flat",
          {.layers = true, .onsets = {1, 2}},
          at_sites(kReadValues,
                   [](const auto& tensor, const FaultStep& step) { one_behind(tensor, step); })},
    Fault{"kv-heads-stored-reversed",
          kHead,
          "K/V heads are stored in the opposite order, and read so",
          "class of memory layouts",
          kHeads,
          "flat",
          {},
          at_verbs([](const auto& planting) { plant_heads_reversed(planting); }),
          Expected::equivalent,
          "every query head finds the very numbers that were stored for it"},
};

}  // namespace

std::span<const Fault> storage_faults() { return kFaults; }

}  // namespace kvcheck
