// SPDX-License-Identifier: MIT
// What faults of masks, windows and storage share: the rows that a query sees, one by one, and
// where they come from. A fault may show a row that lies in no slot: one that is fed in this very
// step and not stored yet, or one that nobody has written.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "verify/fault.h"
#include "verify/fault_memory.h"

namespace kvcheck {

// Where the numbers of a row that is seen come from, if not from its slot. Numbers from 0 on are
// rows of the plan: as this step has computed them, stored or not.
inline constexpr int kStored = -1;
inline constexpr int kZeros = -2;      // memory that nobody has written
inline constexpr int kLeftovers = -3;  // memory with numbers that belong to nobody here

// One row that a query sees.
struct ViewRow {
  int slot;
  int position;
  int source = kStored;

  bool operator==(const ViewRow&) const = default;
};
using ViewRows = std::vector<ViewRow>;  // in position order

// Sources of the rows that are seen: [layers][rows][seen], empty where all are stored.
using ViewSources = std::vector<std::vector<std::vector<int>>>;

// Rewrites what one row of the plan sees in a layer of the fault's; the last one is the row itself.
using ViewFault = void (*)(ViewRows& seen, int layer, int row, const FaultStep& step);
using ViewRewrite = std::function<std::remove_pointer_t<ViewFault>>;
// Rewrites a plan and the sources of what is seen.
using RowFault = void (*)(StepPlan& plan, const FaultStep& step, ViewSources& sources);

// ---- Rows of a step

// Of a row of the plan among all rows of its sequence, from 0.
[[nodiscard]] int index_of(const FaultStep& step, int row);
// Where the sequence of a row of the plan has its row `index` in a layer.
[[nodiscard]] int slot_of(const FaultStep& step, int layer, int row, int index);
[[nodiscard]] ViewRow row_at(const FaultStep& step, int layer, int row, int index);
// The rows from `first` on (0 if that is less, the row itself if it is more) to the row itself.
[[nodiscard]] ViewRows rows_from(const FaultStep& step, int layer, int row, int first);

// ---- Rewriting a plan. Nothing is touched, not even what layers share, where nothing changes.

// A row that would see nothing sees itself, as a step must.
void rewrite_seen(StepPlan& plan, const FaultStep& step, const ViewRewrite& rewrite,
                  ViewSources& sources);

// For tables: as a fault of plans, where all that is seen is stored.
template <ViewFault Wrong>
void seen_in_slots(StepPlan& plan, const FaultStep& step) {
  ViewSources unused;
  rewrite_seen(plan, step, Wrong, unused);
}

// Sets the slots that the rows go to in the fault's layers: `wrong` gives one from (layer, row, the
// right slot).
template <typename Wrong>
void rewrite_writes(StepPlan& plan, const FaultStep& step, Wrong wrong) {
  const auto right_slot = [&](int layer, std::size_t r) {
    const auto of_layer = static_cast<std::size_t>(layer);
    const SlotView& view = plan.views[static_cast<std::size_t>(plan.view_of_layer[of_layer])];
    return view.write.empty() ? plan.rows[r].slot : view.write[r];
  };
  for (int layer = 0; layer < step.config.layers; ++layer) {
    if (!step.in_layer(layer)) continue;
    for (std::size_t r = 0; r < plan.rows.size(); ++r) {
      const int right = right_slot(layer, r);
      const int slot = wrong(layer, static_cast<int>(r), right);
      if (slot != right) own_view(plan, layer).write[r] = slot;
    }
  }
}

// ---- Planting

// What the hooks of one engine share.
template <Scalar T>
struct RowsAsRead {
  const Config config;
  const CacheKind cache;
  const FaultParameters at;
  std::vector<PlannedFeed> feeds = {};
  ViewSources sources = {};
  std::optional<SiteTensor<T>> keys = {};  // of this step, in the layer at hand
  std::optional<SiteTensor<T>> values = {};
  std::optional<double> later_score = {};  // of rows that come after the query, if not their own

  // From the source, or 0 where nobody has written: memory is poisoned here, in most engines it is
  // cleared.
  void fill(const SiteTensor<T>& seen) const {
    const auto& fed = seen.site == Site::cached_key ? keys : values;
    for (int i = 0; i < seen.rows; ++i) {
      const int source = source_of(seen.layer, seen.row, i);
      const bool unwritten = source == kStored && all_nan(seen, i);
      for (int c = 0; c < seen.columns; ++c) {
        if (source >= 0) seen.at(i, c) = fed->at(source, c);
        if (source == kLeftovers) seen.at(i, c) = T{1};
        if (source == kZeros || unwritten) seen.at(i, c) = T{0};
      }
    }
  }

  void score(const SiteTensor<T>& scores) const {
    for (int i = 0; i < scores.columns; ++i) {
      if (source_of(scores.layer, scores.row, i) <= scores.row) continue;
      for (int h = 0; h < scores.rows; ++h) scores.at(h, i) = static_cast<T>(*later_score);
    }
  }

 private:
  [[nodiscard]] int source_of(int layer, int row, int i) const {
    if (sources.empty()) return kStored;
    const auto& of_layer = sources[static_cast<std::size_t>(layer)];
    if (of_layer.empty()) return kStored;
    return of_layer[static_cast<std::size_t>(row)][static_cast<std::size_t>(i)];
  }
  static bool all_nan(const SiteTensor<T>& seen, int i) {
    bool all = true;
    for (int c = 0; c < seen.columns; ++c) all = all && std::isnan(seen.at(i, c));
    return all;
  }
};

// Plants a fault of plans whose rows are read from their sources, and unwritten ones as zeros. Rows
// that come after a query have their own scores, or the one that is given.
template <Scalar T>
void plant_rows(const Planting<T>& planting, RowFault fault,
                std::optional<double> later_score = {}) {
  auto rows =
      std::make_shared<RowsAsRead<T>>(RowsAsRead<T>{planting.config, planting.cache, planting.at});
  rows->later_score = later_score;
  planting.engine.rewrite_plans([rows, fault, trace = planting.trace](StepPlan& plan,
                                                                      PlannedFeeds feeds) {
    rows->feeds.assign(feeds.begin(), feeds.end());
    rows->sources.clear();
    const StepPlan before = plan;
    fault(plan, FaultStep{rows->config, rows->cache, rows->at, rows->feeds, plan}, rows->sources);
    if (plan != before || !rows->sources.empty()) trace->changed();
  });
  const SiteSet of_rows =
      SiteSet().with(Site::key).with(Site::value).with(Site::cached_key).with(Site::cached_value);
  const SiteSet sites = later_score ? of_rows.with(Site::scores) : of_rows;
  planting.engine.observe_cached(Observer<T>(
      [rows](const SiteTensor<T>& tensor) {
        if (tensor.site == Site::key) {
          rows->keys.emplace(tensor);
        } else if (tensor.site == Site::value) {
          rows->values.emplace(tensor);
        } else if (tensor.site == Site::scores) {
          rows->score(tensor);
        } else {
          rows->fill(tensor);
        }
      },
      sites));
}

template <RowFault Wrong>
[[nodiscard]] constexpr VerbFault with_sources() {
  return at_verbs([](const auto& planting) { plant_rows(planting, Wrong); });
}
template <ViewFault Wrong>
void seen_from_sources(StepPlan& plan, const FaultStep& step, ViewSources& sources) {
  rewrite_seen(plan, step, Wrong, sources);
}
template <ViewFault Wrong>
[[nodiscard]] constexpr VerbFault seen_with_sources() {
  return with_sources<seen_from_sources<Wrong>>();
}
template <PlanFault Wrong>
void all_from_slots(StepPlan& plan, const FaultStep& step, ViewSources& /*sources*/) {
  Wrong(plan, step);
}
template <PlanFault Wrong>
[[nodiscard]] constexpr VerbFault in_cleared_memory() {
  return with_sources<all_from_slots<Wrong>>();
}

// ---- Faults that look at tokens

// Tokens of every row of a sequence; a row of unknown token (a state that was loaded) has -1.
using SequenceTokens = std::vector<int>;

// `rewrite` gets a plan, the step, and the tokens of the step's sequences, those included that are
// fed now: [feeds][held + fed].
using TokenFault = void (*)(StepPlan& plan, const FaultStep& step,
                            const std::vector<SequenceTokens>& tokens);

// Keeps the tokens right through all verbs.
[[nodiscard]] std::shared_ptr<SequenceMemory<SequenceTokens>> remember_tokens(Hooks& hooks);

template <Scalar T>
void plant_token_fault(const Planting<T>& planting, TokenFault fault) {
  auto memory = remember_tokens(planting.hooks);
  auto tokens = std::make_shared<std::vector<SequenceTokens>>();  // of the step at hand
  Builtin<T>& engine = planting.engine;
  planting.hooks.feed = [memory, tokens, &engine](Engine& inner, std::span<const Feed> feeds,
                                                  Rows rows, Logits& out) {
    tokens->clear();
    for (const Feed& feed : feeds) {
      SequenceTokens& held = tokens->emplace_back(memory->of(feed.sequence));
      held.resize(static_cast<std::size_t>(engine.cache(feed.sequence).length()), -1);
      held.insert(held.end(), feed.tokens.begin(), feed.tokens.end());
    }
    inner.batch(feeds, rows, out);
    for (std::size_t i = 0; i < feeds.size(); ++i) memory->of(feeds[i].sequence) = (*tokens)[i];
  };
  engine.rewrite_plans([tokens, fault, at = planting.at, config = planting.config,
                        cache = planting.cache,
                        trace = planting.trace](StepPlan& plan, PlannedFeeds feeds) {
    const StepPlan before = plan;
    fault(plan, FaultStep{config, cache, at, feeds, plan}, *tokens);
    if (plan != before) trace->changed();
  });
}

template <TokenFault Wrong>
[[nodiscard]] constexpr VerbFault by_tokens() {
  return at_verbs([](const auto& planting) { plant_token_fault(planting, Wrong); });
}

}  // namespace kvcheck
