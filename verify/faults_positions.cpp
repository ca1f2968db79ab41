// SPDX-License-Identifier: MIT
// Wrong answers to: which position does each input take?
#include <algorithm>
#include <array>

#include "engine/ops.h"
#include "verify/fault_memory.h"
#include "verify/faults.h"

namespace kvcheck {
namespace {

constexpr std::string_view kQuestion = "position of a row";
constexpr std::string_view kOfLayer = "position of a layer's queries and keys";

// Positions outside the context are refused by every engine; a fault stays inside.
void take_position(StepPlan& plan, const FaultStep& step, int row, int position) {
  plan.rows[static_cast<std::size_t>(row)].position =
      std::clamp(position, 0, step.config.context - 1);
}

int position_of(const StepPlan& plan, int row) {
  return plan.rows[static_cast<std::size_t>(row)].position;
}

int rows_of(const StepPlan& plan) { return static_cast<int>(plan.rows.size()); }

// Sets the position of every row of a cache that goes on.
template <typename Wrong>
void rewrite_warm(StepPlan& plan, const FaultStep& step, Wrong wrong) {
  for (int row = 0; row < rows_of(plan); ++row) {
    if (step.warm(row)) take_position(plan, step, row, wrong(row));
  }
}

// Changes the positions of the queries and keys of the fault's layers, row by row.
template <typename Wrong>
void rewrite_layers(StepPlan& plan, const FaultStep& step, Wrong wrong) {
  for (int layer = 0; layer < step.config.layers; ++layer) {
    if (!step.in_layer(layer)) continue;
    RowPositions& own = own_positions(plan, layer);
    for (int row = 0; row < rows_of(plan); ++row) {
      const auto r = static_cast<std::size_t>(row);
      wrong(row, own.query[r], own.key[r]);
    }
  }
}

void decode_reset(StepPlan& plan, const FaultStep& step) {
  rewrite_warm(plan, step, [&](int row) { return step.place(row); });
}

void decode_offset(StepPlan& plan, const FaultStep& step) {
  rewrite_warm(plan, step, [&](int row) { return position_of(plan, row) + step.amount(); });
}

void frozen(StepPlan& plan, const FaultStep& step) {
  rewrite_warm(plan, step, [&](int row) {
    return std::min(position_of(plan, row), step.at.onset.value_or(1) - 1);
  });
}

void doubled(StepPlan& plan, const FaultStep& step) {
  rewrite_warm(plan, step, [&](int row) { return 2 * position_of(plan, row); });
}

void multi_constant(StepPlan& plan, const FaultStep& step) {
  rewrite_warm(plan, step, [&](int row) { return position_of(plan, row) - step.place(row); });
}

void chunk_relative(StepPlan& plan, const FaultStep& step) {
  rewrite_warm(plan, step, [&](int row) {
    return step.tokens(row) > 1 ? step.place(row) : position_of(plan, row);
  });
}

void learned_offset(StepPlan& plan, const FaultStep& step) {
  for (int row = 0; row < rows_of(plan); ++row) {
    take_position(plan, step, row, position_of(plan, row) + step.amount());
  }
}

void rotary_offset(StepPlan& plan, const FaultStep& step) {
  rewrite_layers(plan, step, [&](int, int& query, int& key) {
    query += step.amount();
    key += step.amount();
  });
}

void layer_offset(StepPlan& plan, const FaultStep& step) {
  rewrite_layers(plan, step, [&](int row, int& query, int& key) {
    if (!step.warm(row)) return;
    query += step.amount();
    key += step.amount();
  });
}

void query_after_append(StepPlan& plan, const FaultStep& step) {
  rewrite_layers(plan, step, [&](int row, int& query, int&) { query += step.tokens(row); });
}

void key_after_append(StepPlan& plan, const FaultStep& step) {
  rewrite_layers(plan, step, [&](int row, int&, int& key) { key += step.tokens(row); });
}

void key_raw(StepPlan& plan, const FaultStep& step) {
  rewrite_layers(plan, step, [&](int row, int&, int& key) {
    if (step.warm(row)) key = 0;
  });
}

void query_raw(StepPlan& plan, const FaultStep& step) {
  rewrite_layers(plan, step, [&](int row, int& query, int&) {
    if (step.warm(row)) query = 0;
  });
}

void backwards(StepPlan& plan, const FaultStep& step) {
  rewrite_layers(plan, step, [&](int row, int& query, int& key) {
    if (!step.warm(row)) return;
    query = -query;
    key = -key;
  });
}

// Rows of a batch take positions as if they stood in the longest of its sequences.
void batch_shared(StepPlan& plan, const FaultStep& step) {
  int longest = 0;
  for (const PlannedFeed& feed : step.feeds) longest = std::max(longest, feed.held);
  rewrite_warm(plan, step,
               [&](int row) { return position_of(plan, row) + longest - step.held(row); });
}

// The column of the padded batch that a row lies in, padding and all.
void padded_width(StepPlan& plan, const FaultStep& step) {
  const int columns = 2 * step.config.context;
  rewrite_warm(plan, step,
               [&](int row) { return plan.rows[static_cast<std::size_t>(row)].slot % columns; });
}

// Once the ring is full, as many as it holds.
void retained_count(StepPlan& plan, const FaultStep& step) {
  for (int layer = 0; layer < step.config.layers; ++layer) {
    const int window = step.config.windows[static_cast<std::size_t>(layer)];
    if (window == 0 || !step.in_layer(layer)) continue;
    RowPositions& own = own_positions(plan, layer);
    for (std::size_t r = 0; r < plan.rows.size(); ++r) {
      own.query[r] = std::min(own.query[r], window);
      own.key[r] = std::min(own.key[r], window);
    }
  }
}

// The gap that evicted rows have left is forgotten.
void gap_lost(StepPlan& plan, const FaultStep& step) {
  rewrite_warm(plan, step,
               [&](int row) { return position_of(plan, row) - step.feed_of(row).ahead; });
}

// The gap of the first sequence of the step is taken for that of all.
void gap_of_another(StepPlan& plan, const FaultStep& step) {
  const int first = step.feeds.empty() ? 0 : step.feeds.front().ahead;
  rewrite_warm(plan, step,
               [&](int row) { return position_of(plan, row) - step.feed_of(row).ahead + first; });
}

// Rotates the rows that lie in the cache once more as they are read.
void rotate_again(const auto& tensor, const FaultStep& step) {
  using T = std::remove_cvref_t<decltype(tensor.at(0, 0))>;
  if (!step.in_layer(tensor.layer) || !step.warm(tensor.row)) return;
  const auto base = static_cast<std::size_t>(step.config.rotary_base_of(tensor.layer));
  const auto tables = rotary_tables<T>(step.config);
  const RotaryTable<T>& table = *tables[base];
  const int last = position_of(step.plan, tensor.row);
  const int held = step.held(tensor.row);
  for (int r = 0; r < tensor.rows; ++r) {
    const int position = last - (tensor.rows - 1 - r);
    if (position < 0 || position >= held) continue;  // not from the cache
    rotate(table, step.config.rotary_pairs, std::span(&position, 1), step.config.head_size,
           View<T>{&tensor.at(r, 0), 1, tensor.columns, tensor.column_stride});
  }
}

// ---- Counters that go wrong: the next position is counted, not known

struct Counter {
  int prompt = 0;  // tokens of the first feed
  int steps = 0;   // feeds after it
};

// `position` gives the first position of a feed from the counter and the rows held.
template <typename Position>
void plant_counter(const auto& planting, Position position) {
  auto memory = SequenceMemory<Counter>::attach(planting.hooks);
  auto firsts = std::make_shared<std::vector<int>>();  // [feeds] of the step at hand
  auto& engine = planting.engine;
  planting.hooks.feed = [memory, firsts, &engine, position, context = planting.config.context,
                         heads = planting.config.query_heads](
                            Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
    firsts->clear();
    for (const Feed& feed : feeds) {
      Counter& counter = memory->of(feed.sequence);
      const int held = engine.cache(feed.sequence).length();
      if (held == 0) counter = {};
      const int first = held == 0 ? 0 : position(counter, held, heads);
      firsts->push_back(std::clamp(first, 0, context - static_cast<int>(feed.tokens.size())));
    }
    inner.batch(feeds, rows, out);
    for (const Feed& feed : feeds) {
      Counter& counter = memory->of(feed.sequence);
      if (counter.prompt == 0) {
        counter.prompt = static_cast<int>(feed.tokens.size());
      } else {
        ++counter.steps;
      }
    }
  };
  engine.rewrite_plans([firsts, trace = planting.trace](StepPlan& plan, PlannedFeeds feeds) {
    for (std::size_t r = 0; r < plan.rows.size(); ++r) {
      PlannedRow& row = plan.rows[r];
      const auto s = static_cast<std::size_t>(row.sequence);
      if (feeds[s].held == 0) continue;
      const int before = feeds[s].held + feeds[s].ahead;
      if ((*firsts)[s] != before) trace->changed();
      row.position += (*firsts)[s] - before;
    }
  });
}

void plant_prompt_twice(const auto& planting) {
  plant_counter(planting, [](const Counter& counter, int held, int) {
    return counter.steps == 0 ? held : held + counter.prompt;
  });
}

void plant_heads_for_tokens(const auto& planting) {
  plant_counter(planting, [](const Counter& counter, int held, int heads) {
    const int fed_since = held - counter.prompt;
    return heads + fed_since;
  });
}

constexpr Features kPositions{Feature::positions};
constexpr Features kRotary{Feature::rotary};

constexpr std::array kFaults{
    Fault{"pos-decode-reset",
          kQuestion,
          "feeds to a cache start again at position 0",
          "mlx-vlm 1983, executorch 2010",
          kPositions,
          "flat",
          {.onsets = {1, 2, 3}},
          PlanFault{decode_reset}},
    Fault{"pos-decode-offset",
          kQuestion,
          "feeds to a cache stand some positions too far",
          "onnxruntime-genai 2354, fla 766",
          kPositions,
          "flat",
          {.onsets = {1, 2, 3}, .amounts = {-2, -1, 1, 2}},
          PlanFault{decode_offset}},
    Fault{"pos-frozen",
          kQuestion,
          "the position stays at that of the last row before the onset",
          "class of wrong counters",
          kPositions,
          "flat",
          {.onsets = {1, 2, 3}},
          PlanFault{frozen}},
    Fault{"pos-doubled",
          kQuestion,
          "positions count double after the prefill",
          "class of wrong counters",
          kPositions,
          "flat",
          {.onsets = {1, 2, 3}},
          PlanFault{doubled}},
    Fault{"pos-count-prompt-twice",
          kQuestion,
          "after the first decode step the counter gets the prompt's length once more",
          "tiny-llm 46",
          kPositions,
          "flat",
          {},
          at_verbs([](const auto& planting) { plant_prompt_twice(planting); })},
    Fault{"pos-len-wrong-axis",
          kQuestion,
          "the prefill advances the counter by the number of heads instead of tokens",
          "fla 126",
          kPositions,
          "flat",
          {},
          at_verbs([](const auto& planting) { plant_heads_for_tokens(planting); })},
    Fault{"pos-multi-constant",
          kQuestion,
          "all tokens of a further feed take its first position",
          "omlx 2363",
          kPositions,
          "flat",
          {},
          PlanFault{multi_constant}},
    Fault{"pos-chunk-relative",
          kQuestion,
          "positions start again in every further chunk",
          "transformers 43082",
          kPositions,
          "flat",
          {},
          PlanFault{chunk_relative}},
    Fault{"pos-batch-shared",
          kQuestion,
          "all rows of a batch take positions of its longest sequence",
          "unsloth 3699, reasoning-from-scratch 33",
          kPositions,
          "flat",
          {},
          PlanFault{batch_shared}},
    Fault{"pos-padded-width",
          kQuestion,
          "a further row stands at the column that it lies in",
          "ComfyUI 15698",
          kPositions,
          "padded-right",
          {},
          PlanFault{padded_width}},
    Fault{"pos-left-padding-counted",
          kQuestion,
          "padding before a row counts as positions in decode",
          "C2C 19, mosaicml 257",
          kPositions,
          "padded-left",
          {},
          PlanFault{padded_width}},
    Fault{"pos-gap-lost",
          kQuestion,
          "the gap that evicted rows left is forgotten",
          "mlx-vlm 1527, sglang 8219",
          kRotary,
          "flat",
          {},
          PlanFault{gap_lost}},
    Fault{"pos-gap-of-another",
          kQuestion,
          "the gap of the first sequence of a batch serves all",
          "mlx-vlm 1143",
          kRotary,
          "flat",
          {},
          PlanFault{gap_of_another}},
    Fault{"pos-retained-count",
          kOfLayer,
          "once a ring is full, positions stay at its length",
          "VeloxQuant 389, 195",
          {Feature::rotary, Feature::window},
          "ring",
          {},
          PlanFault{retained_count}},
    Fault{"pos-layer-offset",
          kOfLayer,
          "a layer's queries and keys stand some positions too far in decode",
          "class of positions advanced between layers",
          kRotary,
          "flat",
          {.layers = true, .onsets = {1, 2}, .amounts = {-1, 1, 2}},
          PlanFault{layer_offset}},
    Fault{"pos-query-after-append",
          kOfLayer,
          "queries are rotated by the offset after the append",
          "mlx-lm 1396, 1699",
          kRotary,
          "flat",
          {.layers = true},
          PlanFault{query_after_append}},
    Fault{"pos-key-after-append",
          kOfLayer,
          "keys are rotated by the offset after the append",
          "class of mlx-lm 1396",
          kRotary,
          "flat",
          {.layers = true},
          PlanFault{key_after_append}},
    Fault{"rope-key-raw",
          kOfLayer,
          "decode stores keys that are not rotated",
          "gpt-neox 363, sparkinfer 149",
          kRotary,
          "flat",
          {.layers = true, .onsets = {1, 2}},
          PlanFault{key_raw}},
    Fault{"rope-query-raw",
          kOfLayer,
          "decode leaves queries as they are",
          "class of gpt-neox 363",
          kRotary,
          "flat",
          {.layers = true, .onsets = {1, 2}},
          PlanFault{query_raw}},
    Fault{"rope-backwards",
          kOfLayer,
          "decode rotates the other way",
          "class of rotation signs",
          kRotary,
          "flat",
          {.layers = true},
          PlanFault{backwards}},
    Fault{"rope-on-read-again",
          "rows as they are read",
          "stored keys are rotated again when read",
          "shainet 110",
          kRotary,
          "flat",
          {.layers = true},
          at_sites(SiteSet().with(Site::cached_key),
                   [](const auto& tensor, const FaultStep& step) { rotate_again(tensor, step); })},
    Fault{"pos-all-offset-learned",
          kQuestion,
          "every position of a cached sequence is off by as much",
          "class of one-based positions",
          {Feature::learned},
          "flat",
          {.amounts = {1, 2}},
          PlanFault{learned_offset}},
    Fault{"pos-all-offset-rotary",
          kOfLayer,
          "every position of queries and keys is off by as much",
          "class of one-based positions",
          kRotary,
          "flat",
          {.amounts = {1, 3}},
          PlanFault{rotary_offset},
          Expected::equivalent,
          "rotations enter a score as the difference of two positions only"},
};

}  // namespace

std::span<const Fault> position_faults() { return kFaults; }

}  // namespace kvcheck
