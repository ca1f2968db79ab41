// SPDX-License-Identifier: MIT
// Wrong answers to: with which constants, and by which path, does a cached step compute? Prefill
// and decode are different code in most engines, and one of them forgets what the other does.
#include <algorithm>
#include <array>
#include <memory>
#include <type_traits>
#include <vector>

#include "engine/error.h"
#include "verify/faults.h"

namespace kvcheck {
namespace {

constexpr std::string_view kRule = "constants of a layer's attention";
constexpr std::string_view kScale = "scale of the embedding";
constexpr std::string_view kCap = "soft cap of the logits";
constexpr std::string_view kCapacity = "room of a sequence";

int rows_of(const StepPlan& plan) { return static_cast<int>(plan.rows.size()); }

// A step of the decode path: one token for each sequence, all of which hold rows.
bool decode_step(const FaultStep& step) {
  for (int row = 0; row < rows_of(step.plan); ++row) {
    if (!step.decode(row)) return false;
  }
  return rows_of(step.plan) > 0;
}

template <typename Change>
void each_rule(StepPlan& plan, const FaultStep& step, Change change) {
  for (int layer = 0; layer < step.config.layers; ++layer) {
    if (step.in_layer(layer)) change(plan.rules[static_cast<std::size_t>(layer)]);
  }
}

// In the decode path only.
template <typename Change>
void each_decode_rule(StepPlan& plan, const FaultStep& step, Change change) {
  if (decode_step(step)) each_rule(plan, step, change);
}

// Amount 0: scaled twice; else multiplied.
void decode_scale(StepPlan& plan, const FaultStep& step) {
  each_decode_rule(plan, step, [&](AttentionRule& rule) {
    rule.score_scale *= step.amount() == 0 ? rule.score_scale : step.amount();
  });
}

void decode_no_scale(StepPlan& plan, const FaultStep& step) {
  each_decode_rule(plan, step, [](AttentionRule& rule) { rule.score_scale = 1; });
}

void decode_bias_scaled(StepPlan& plan, const FaultStep& step) {
  each_decode_rule(plan, step, [](AttentionRule& rule) {
    for (long double& slope : rule.slopes) slope *= rule.score_scale;
  });
}

void decode_no_bias(StepPlan& plan, const FaultStep& step) {
  each_decode_rule(plan, step, [](AttentionRule& rule) { rule.slopes.clear(); });
}

void decode_slopes_turned(StepPlan& plan, const FaultStep& step) {
  each_decode_rule(plan, step, [](AttentionRule& rule) { std::ranges::reverse(rule.slopes); });
}

// Distances count from the place among the rows that are seen, not from the position: the same but
// for a constant, unless rows between them were evicted.
void alibi_from_slots(StepPlan& plan, const FaultStep& step) {
  for (int layer = 0; layer < step.config.layers; ++layer) {
    if (!step.in_layer(layer)) continue;
    SlotView& view = own_view(plan, layer);
    for (int row = 0; row < rows_of(plan); ++row) {
      if (!step.warm(row)) continue;
      const auto r = static_cast<std::size_t>(row);
      for (int i = view.first[r]; i < view.first[r + 1]; ++i) {
        view.positions[static_cast<std::size_t>(i)] = i - view.first[r];
      }
    }
  }
}

void alibi_query_offset(StepPlan& plan, const FaultStep& step) {
  for (int layer = 0; layer < step.config.layers; ++layer) {
    for (int& query : own_positions(plan, layer).query) query += step.amount();
  }
}

void alibi_key_offset(StepPlan& plan, const FaultStep& step) {
  for (int layer = 0; layer < step.config.layers; ++layer) {
    if (!step.in_layer(layer)) continue;
    SlotView& view = own_view(plan, layer);
    for (int row = 0; row < rows_of(plan); ++row) {
      if (!step.warm(row)) continue;
      // Of the cached keys, not of the row's own.
      const auto r = static_cast<std::size_t>(row);
      for (int i = view.first[r]; i + 1 < view.first[r + 1]; ++i) {
        view.positions[static_cast<std::size_t>(i)] += step.amount();
      }
    }
  }
}

void decode_no_cap(StepPlan& plan, const FaultStep& step) {
  each_decode_rule(plan, step, [](AttentionRule& rule) { rule.score_cap = 0; });
}

void prefill_no_cap(StepPlan& plan, const FaultStep& step) {
  if (!decode_step(step)) each_rule(plan, step, [](AttentionRule& rule) { rule.score_cap = 0; });
}

void decode_no_head_norm(StepPlan& plan, const FaultStep& step) {
  each_decode_rule(plan, step, [](AttentionRule& rule) { rule.head_norm = false; });
}

void decode_first_base(StepPlan& plan, const FaultStep& step) {
  each_decode_rule(plan, step, [](AttentionRule& rule) { rule.rotary_base = 0; });
}

void decode_bases_exchanged(StepPlan& plan, const FaultStep& step) {
  each_decode_rule(plan, step,
                   [](AttentionRule& rule) { rule.rotary_base = 1 - rule.rotary_base; });
}

void decode_no_logit_cap(StepPlan& plan, const FaultStep& step) {
  if (decode_step(step)) plan.logit_cap = 0;
}

void decode_no_embedding_scale(StepPlan& plan, const FaultStep& step) {
  if (decode_step(step)) plan.embedding_scale = 1;
}

void decode_embedding_scale_twice(StepPlan& plan, const FaultStep& step) {
  if (decode_step(step)) plan.embedding_scale *= plan.embedding_scale;
}

// ---- Values

template <typename Tensor>
using ValueOf = std::remove_cvref_t<decltype(std::declval<const Tensor&>().at(0, 0))>;

// The rows of a further chunk are all computed from its first token.
template <typename Tensor>
void first_token_only(const Tensor& tensor, const FaultStep& step) {
  for (int row = 0; row < tensor.rows; ++row) {
    const int place = step.place(row);
    if (!step.warm(row) || place == 0) continue;
    for (int c = 0; c < tensor.columns; ++c) tensor.at(row, c) = tensor.at(row - place, c);
  }
}

// A row is answered with the logits of the one before it, where that was fed with it.
template <typename Tensor>
void row_before(const Tensor& tensor, const FaultStep& step) {
  if (tensor.rows != rows_of(step.plan)) return;  // only last rows are answered
  for (int row = tensor.rows - 1; row > 0; --row) {
    if (!step.warm(row) || step.place(row) == 0) continue;
    for (int c = 0; c < tensor.columns; ++c) tensor.at(row, c) = tensor.at(row - 1, c);
  }
}

// Half precision between layers, in decode.
template <typename Tensor>
void half_residual(const Tensor& tensor, const FaultStep& step) {
  if (!step.in_layer(tensor.layer)) return;
  for (int row = 0; row < tensor.rows; ++row) {
    if (!step.decode(row)) continue;
    for (int c = 0; c < tensor.columns; ++c) {
      const Eigen::half rounded(static_cast<float>(tensor.at(row, c)));
      tensor.at(row, c) = static_cast<ValueOf<Tensor>>(static_cast<float>(rounded));
    }
  }
}

template <typename Tensor>
void without(const Tensor& tensor, const FaultStep& step) {
  if (!step.in_layer(tensor.layer)) return;
  for (int row = 0; row < tensor.rows; ++row) {
    for (int c = 0; c < tensor.columns && step.decode(row); ++c) tensor.at(row, c) = 0;
  }
}

// Dimensions that are not rotated keep the query of the layer below.
template <Scalar T>
void plant_stale_query(const Planting<T>& planting) {
  Builtin<T>& engine = planting.engine;
  auto below = std::make_shared<std::vector<T>>();  // [rows, query width] of the layer below
  const auto stale = [below, &engine, config = planting.config,
                      trace = planting.trace](const SiteTensor<T>& tensor) {
    if (tensor.site != Site::query) return;
    std::vector<T> own;
    for (int r = 0; r < tensor.rows; ++r) {
      const bool decode = tensor.rows == 1 && engine.plan().rows[0].position > 0;
      for (int c = 0; c < tensor.columns; ++c) {
        own.push_back(tensor.at(r, c));
        if (tensor.layer == 0 || !decode || c % config.head_size < config.rotated()) continue;
        T& value = tensor.at(r, c);
        const T old = (*below)[own.size() - 1];
        if (value != old) trace->changed();
        value = old;
      }
    }
    *below = std::move(own);
  };
  engine.observe_cached(Observer<T>(stale));
}

// ---- Limits

// Feeds that do not fit are cut to what does, or not refused at all.
template <typename Taken>
void plant_room(const auto& planting, Taken taken) {
  planting.hooks.feed = [trace = planting.trace, taken, context = planting.config.context](
                            Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
    if (feeds.size() == 1 && !feeds[0].tokens.empty()) {
      const int next = inner.held(feeds[0].sequence).next_position;
      const int over = next + static_cast<int>(feeds[0].tokens.size()) - context;
      if (over > 0 && taken(over)) {
        trace->changed();
        // What is behind the end lands on the last row.
        const int kept = std::min(next, context - 1);
        inner.truncate(feeds[0].sequence, kept);
        const Feed last{feeds[0].sequence, feeds[0].tokens.last(1)};
        return inner.batch(std::span(&last, 1), rows, out);
      }
    }
    inner.batch(feeds, rows, out);
  };
}

constexpr std::array kFaults{
    Fault{"decode-scale",
          kRule,
          "another scale of the scores in decode",
          "vllm-plugin-FL 400, tt-metal 35987",
          {},
          "flat",
          {.layers = true, .onsets = {1, 2}, .amounts = {0, 2}},
          PlanFault{decode_scale}},
    Fault{"decode-no-scale",
          kRule,
          "scores are not scaled in decode",
          "class of vllm-plugin-FL 400",
          {},
          "flat",
          {.layers = true},
          PlanFault{decode_no_scale}},
    Fault{"decode-bias-scaled",
          kRule,
          "the bias of distances is scaled as scores are, in decode",
          "tt-metal 55337",
          {Feature::alibi},
          "flat",
          {.layers = true},
          PlanFault{decode_bias_scaled}},
    Fault{"decode-no-bias",
          kRule,
          "no bias of distances in decode",
          "class of tt-metal 55337",
          {Feature::alibi},
          "flat",
          {.layers = true},
          PlanFault{decode_no_bias}},
    Fault{"decode-slopes-turned",
          kRule,
          "heads take each other's slopes in decode",
          "class of slopes sharded wrongly",
          {Feature::alibi},
          "flat",
          {.layers = true},
          PlanFault{decode_slopes_turned}},
    Fault{"alibi-from-slots",
          kRule,
          "distances are counted from the rows that are seen",
          "class of vLLM 945",
          {Feature::alibi},
          "flat",
          {},
          PlanFault{alibi_from_slots}},
    Fault{
        "alibi-query-offset",
        kRule,
        "queries stand some positions too far",
        "vLLM 945",
        {Feature::alibi},
        "flat",
        {.amounts = {1, 3}},
        PlanFault{alibi_query_offset},
        Expected::equivalent,
        "every distance of a query row is off by the same constant, which a softmax does not see"},
    Fault{"alibi-cached-offset",
          kRule,
          "cached keys stand some positions too far",
          "class of stale offsets",
          {Feature::alibi},
          "flat",
          {.layers = true, .amounts = {-1, 1}},
          PlanFault{alibi_key_offset}},
    Fault{"decode-no-score-cap",
          kRule,
          "scores are not capped in decode",
          "imp 688, vllm-metal 665, sglang 33915",
          {Feature::score_cap},
          "flat",
          {.layers = true},
          PlanFault{decode_no_cap}},
    Fault{"prefill-no-score-cap",
          kRule,
          "scores are capped in decode only",
          "class of sglang 33915",
          {Feature::score_cap},
          "flat",
          {.layers = true},
          PlanFault{prefill_no_cap}},
    Fault{"decode-no-head-norm",
          kRule,
          "queries and keys are not normed in decode",
          "aprender 2085",
          {Feature::head_norm},
          "flat",
          {.layers = true, .onsets = {1, 2}},
          PlanFault{decode_no_head_norm}},
    Fault{"rope-first-base",
          kRule,
          "decode rotates all layers with the first base",
          "llama.cpp 12373",
          {Feature::two_bases},
          "flat",
          {.onsets = {1, 2}},
          PlanFault{decode_first_base}},
    Fault{"rope-bases-exchanged",
          kRule,
          "decode exchanges the bases of local and global layers",
          "class of llama.cpp 12373",
          {Feature::two_bases},
          "flat",
          {.layers = true},
          PlanFault{decode_bases_exchanged}},
    Fault{"decode-no-logit-cap",
          kCap,
          "logits are not capped in decode",
          "class of sglang 33915",
          {Feature::logit_cap},
          "flat",
          {.onsets = {1, 2}},
          PlanFault{decode_no_logit_cap}},
    Fault{"decode-no-embed-scale",
          kScale,
          "the embedding is not scaled in decode",
          "ferrox 15",
          {Feature::embedding_scale},
          "flat",
          {.onsets = {1, 2}},
          PlanFault{decode_no_embedding_scale}},
    Fault{"decode-embed-scale-twice",
          kScale,
          "the embedding is scaled twice in decode",
          "class of ferrox 15",
          {Feature::embedding_scale},
          "flat",
          {.onsets = {1, 2}},
          PlanFault{decode_embedding_scale_twice}},
    Fault{"rope-partial-stale",
          "query",
          "in decode, dimensions that are not rotated keep the query of the layer below",
          "sparkinfer 517",
          {Feature::partial_rotary},
          "flat",
          {},
          at_verbs([](const auto& planting) { plant_stale_query(planting); })},
    Fault{"multi-as-single",
          "embedding",
          "a further chunk is computed from its first token alone",
          "transformers 46741",
          {},
          "flat",
          {.onsets = {1, 2}},
          at_sites(
              SiteSet().with(Site::embedding),
              [](const auto& tensor, const FaultStep& step) { first_token_only(tensor, step); })},
    Fault{"logits-row-before",
          "logits",
          "rows of a further chunk are answered with the one before",
          "class of tt-forge 384",
          {},
          "flat",
          {.onsets = {1, 2}},
          at_sites(SiteSet().with(Site::logits),
                   [](const auto& tensor, const FaultStep& step) { row_before(tensor, step); })},
    Fault{"decode-half-residual",
          "residual",
          "half precision between layers in decode",
          "paz 415 (class of paths in other precision)",
          {},
          "flat",
          {.layers = true},
          at_sites(SiteSet().with(Site::residual),
                   [](const auto& tensor, const FaultStep& step) { half_residual(tensor, step); })},
    Fault{"decode-no-attention",
          "attention output",
          "decode leaves the attention of a layer out",
          "class of fused decode kernels",
          {},
          "flat",
          {.layers = true},
          at_sites(SiteSet().with(Site::attention_output),
                   [](const auto& tensor, const FaultStep& step) { without(tensor, step); })},
    Fault{"cap-off-by-one",
          kCapacity,
          "one token more than fits is taken, over the last row",
          "deepsparse 1447",
          {},
          "flat",
          {},
          at_verbs([](const auto& planting) {
            plant_room(planting, [](int over) { return over == 1; });
          })},
    Fault{"cap-wrap-silent",
          kCapacity,
          "whatever does not fit is taken, over the last row",
          "swarmllm 31, DeepSpeed 2485",
          {},
          "flat",
          {},
          at_verbs([](const auto& planting) { plant_room(planting, [](int) { return true; }); })},
};

}  // namespace

std::span<const Fault> path_faults() { return kFaults; }

}  // namespace kvcheck
