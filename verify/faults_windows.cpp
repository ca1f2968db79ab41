// SPDX-License-Identifier: MIT
// Wrong answers to: how far back does a layer see, and which rows does a ring hold?
#include <array>

#include "verify/fault_rows.h"
#include "verify/faults.h"

namespace kvcheck {
namespace {

constexpr std::string_view kQuestion = "how far back a layer sees";
constexpr std::string_view kOfRing = "slots of a ring";

int count(const ViewRows& seen) { return static_cast<int>(seen.size()); }

int window_of(const FaultStep& step, int layer) {
  return step.config.windows[static_cast<std::size_t>(layer)];
}

// The window of the layers that have one.
int widest_window(const FaultStep& step) { return std::ranges::max(step.config.windows); }

void keep_newest(ViewRows& seen, int rows) {
  const int surplus = count(seen) - std::max(1, rows);
  if (surplus > 0) seen.erase(seen.begin(), seen.begin() + surplus);
}

// Sees so many rows before the oldest one as well, where there are any.
void see_older(ViewRows& seen, int layer, int row, int rows, const FaultStep& step) {
  int index = index_of(step, row) - (count(seen) - 1);
  for (int i = 0; i < rows && index > 0; ++i) {
    seen.insert(seen.begin(), row_at(step, layer, row, --index));
  }
}

// ---- Widths

void resize_window(ViewRows& seen, int layer, int row, const FaultStep& step) {
  const int window = window_of(step, layer);
  if (window == 0) return;
  if (step.amount() > 0) see_older(seen, layer, row, step.amount(), step);
  if (step.amount() < 0) keep_newest(seen, window + step.amount());
}

void off_by(ViewRows& seen, int layer, int row, const FaultStep& step) {
  resize_window(seen, layer, row, step);
}

void off_by_in_prefill(ViewRows& seen, int layer, int row, const FaultStep& step) {
  if (step.tokens(row) > 1) resize_window(seen, layer, row, step);
}

void off_by_in_decode(ViewRows& seen, int layer, int row, const FaultStep& step) {
  if (step.decode(row)) resize_window(seen, layer, row, step);
}

void see_all(ViewRows& seen, int layer, int row, const FaultStep& step) {
  if (window_of(step, layer) > 0) seen = rows_from(step, layer, row, 0);
}

void missing(ViewRows& seen, int layer, int row, const FaultStep& step) {
  see_all(seen, layer, row, step);
}

void missing_in_decode(ViewRows& seen, int layer, int row, const FaultStep& step) {
  if (step.decode(row)) see_all(seen, layer, row, step);
}

void missing_in_chunk(ViewRows& seen, int layer, int row, const FaultStep& step) {
  if (step.warm(row) && step.tokens(row) > 1) see_all(seen, layer, row, step);
}

// A window of W to both sides, as some kernels count it.
void halved(ViewRows& seen, int layer, int, const FaultStep& step) {
  if (const int window = window_of(step, layer); window > 0) keep_newest(seen, window / 2);
}

void by_blocks(ViewRows& seen, int layer, int row, const FaultStep& step) {
  const int window = window_of(step, layer);
  if (window == 0) return;
  keep_newest(seen, index_of(step, row) % window + 1);
}

// ---- Where a chunk begins

void of_first_row(ViewRows& seen, int layer, int row, const FaultStep& step) {
  if (step.warm(row) && window_of(step, layer) > 0) {
    see_older(seen, layer, row, step.place(row), step);
  }
}

void of_last_row(ViewRows& seen, int layer, int row, const FaultStep& step) {
  const int behind = step.tokens(row) - 1 - step.place(row);
  if (window_of(step, layer) > 0) keep_newest(seen, window_of(step, layer) - behind);
}

void by_place_in_chunk(ViewRows& seen, int layer, int row, const FaultStep& step) {
  const int window = window_of(step, layer);
  if (!step.warm(row) || window == 0 || step.tokens(row) == 1) return;
  seen = rows_from(step, layer, row, step.place(row) - window + 1);
}

// ---- Whose window

// Sees what a layer of this window does.
void see_as(ViewRows& seen, int layer, int row, int window, const FaultStep& step) {
  const int first = window == 0 ? 0 : index_of(step, row) - window + 1;
  if (window != window_of(step, layer)) seen = rows_from(step, layer, row, first);
}

void swapped(ViewRows& seen, int layer, int row, const FaultStep& step) {
  const int other = window_of(step, layer) == 0 ? widest_window(step) : 0;
  if (step.decode(row)) see_as(seen, layer, row, other, step);
}

void of_neighbour(ViewRows& seen, int layer, int row, const FaultStep& step) {
  const int layers = step.config.layers;
  const int neighbour = ((layer + step.amount()) % layers + layers) % layers;
  if (step.warm(row)) see_as(seen, layer, row, window_of(step, neighbour), step);
}

void of_group(ViewRows& seen, int layer, int row, const FaultStep& step) {
  see_as(seen, layer, row, widest_window(step), step);
}

// ---- What is counted

// Slots of a padded batch have gaps, and are as far apart as their columns.
void by_slot(ViewRows& seen, int layer, int, const FaultStep& step) {
  const int window = window_of(step, layer);
  if (window == 0) return;
  const int own = seen.back().slot;
  std::erase_if(seen, [&](const ViewRow& one) { return own - one.slot >= window; });
}

// Rows that were evicted leave a gap between positions, which is not counted.
void by_row(ViewRows& seen, int layer, int row, const FaultStep& step) {
  const int window = window_of(step, layer);
  if (window > 0) seen = rows_from(step, layer, row, index_of(step, row) - window + 1);
}

// Rows outside of the window stay in the sum, as if their keys were 0: the mask was multiplied with
// the scores.
void hidden_by_zeros(ViewRows& seen, int layer, int row, const FaultStep& step) {
  if (window_of(step, layer) == 0) return;
  const int hidden = index_of(step, row) + 1 - count(seen);
  ViewRows all = rows_from(step, layer, row, 0);
  for (int i = 0; i < hidden; ++i) all[static_cast<std::size_t>(i)].source = kZeros;
  seen = std::move(all);
}

// ---- Rings

// The ring is rolled when it is just full: the oldest row is gone, and the empty slot that took its
// place stays until it is rolled out.
void roll_early(ViewRows& seen, int layer, int row, const FaultStep& step) {
  const int window = window_of(step, layer);
  const int index = index_of(step, row);
  if (step.warm(row) && window > 1 && index >= window - 1 && index <= 2 * window - 3) {
    seen.front().source = kZeros;
  }
}

// Where the rows of a ring begin is taken from the rows held, full or not. If they fill it, they
// are only read in another order.
void start_from_past(ViewRows& seen, int layer, int row, const FaultStep& step) {
  const int window = window_of(step, layer);
  if (!step.warm(row) || step.held(row) >= window || count(seen) >= window) return;
  int slot = step.held(row);
  for (ViewRow& one : seen) one.slot = slot++ % window;
}

void valid_by_slot(ViewRows& seen, int layer, int, const FaultStep& step) {
  if (window_of(step, layer) == 0) return;
  const int own = seen.back().slot;
  std::erase_if(seen, [&](const ViewRow& one) { return one.slot > own; });
}

// A feed writes all its rows before any of them is seen: early ones see what later ones have put
// over the rows that they need.
void overwritten_by_prefill(ViewRows& seen, int layer, int row, const FaultStep& step) {
  const int window = window_of(step, layer);
  if (window == 0) return;
  const int own = index_of(step, row);
  const int last = step.held(row) + step.tokens(row) - 1;
  for (int i = 0; i < count(seen); ++i) {
    const int index = own - (count(seen) - 1 - i);
    const int newest = last - (last - index) % window;
    if (newest > own) seen[static_cast<std::size_t>(i)].source = row + newest - own;
  }
}

// Of a feed longer than the window, the rows beyond it are not computed: what comes out is that of
// the last one which was.
void prefill_short(const auto& attention, const FaultStep& step) {
  const int window = window_of(step, attention.layer);
  if (window == 0 || !step.in_layer(attention.layer)) return;
  for (int r = 0; r < attention.rows; ++r) {
    const int beyond = step.place(r) - (window - 1);
    for (int c = 0; beyond > 0 && c < attention.columns; ++c) {
      attention.at(r, c) = attention.at(r - beyond, c);
    }
  }
}

// Rows of layers with a window go to a slot given by the row's index and the window.
template <typename Slot>
void rewrite_ring_writes(StepPlan& plan, const FaultStep& step, Slot slot) {
  rewrite_writes(plan, step, [&](int layer, int row, int right) {
    const int window = window_of(step, layer);
    if (window == 0 || !step.warm(row) || index_of(step, row) < window) return right;
    return slot(row, index_of(step, row), window);
  });
}

void write_off_by(StepPlan& plan, const FaultStep& step) {
  rewrite_ring_writes(plan, step, [&](int, int index, int window) {
    return (index + step.amount() + window) % window;
  });
}

void write_from_start(StepPlan& plan, const FaultStep& step) {
  rewrite_ring_writes(plan, step,
                      [&](int row, int, int window) { return step.place(row) % window; });
}

// A ring that takes the slot of its oldest row but one for the next row holds one row less.
void see_shorter_ring(ViewRows& seen, int layer, int row, const FaultStep& step) {
  const int ring = window_of(step, layer);
  if (ring < 2) return;
  int index = index_of(step, row) - (count(seen) - 1);
  for (ViewRow& one : seen) one.slot = index++ % (ring - 1);
}

void wraps_early(StepPlan& plan, const FaultStep& step) {
  rewrite_writes(plan, step, [&](int layer, int row, int right) {
    const int ring = window_of(step, layer);
    return ring < 2 ? right : index_of(step, row) % (ring - 1);
  });
  seen_in_slots<see_shorter_ring>(plan, step);
}

void in_slot_order(ViewRows& seen, int layer, int, const FaultStep& step) {
  if (window_of(step, layer) > 0) std::ranges::sort(seen, {}, &ViewRow::slot);
}

// A roll back that the rings cannot follow is passed over in silence.
void plant_truncate_ignored(const auto& planting) {
  auto& engine = planting.engine;
  planting.hooks.truncate = [&engine, trace = planting.trace](Engine& inner, SequenceId sequence,
                                                              int length) {
    const auto& cache = engine.cache(sequence);
    if (length < 0 || length >= cache.length() || cache.can_go_back(length)) {
      return inner.truncate(sequence, length);
    }
    trace->changed();
  };
}

// A copy takes the slots of a ring for rows in their order, the oldest first.
template <Scalar T>
void unroll(KvCache<T>& cache, int layer, int ring) {
  KvStore<T> slots({ring}, cache.store().row(), cache.store().format());
  for (int slot = 0; slot < ring; ++slot) {
    std::copy_n(cache.key(layer, slot), cache.slot_stride(), slots.key(0, slot));
    std::copy_n(cache.value(layer, slot), cache.slot_stride(), slots.value(0, slot));
  }
  for (int slot = 0; slot < ring; ++slot) {
    const int row = cache.length() - ring + slot;
    std::copy_n(slots.key(0, slot), cache.slot_stride(), cache.key(layer, row % ring));
    std::copy_n(slots.value(0, slot), cache.slot_stride(), cache.value(layer, row % ring));
  }
}

void plant_copy_in_slot_order(const auto& planting) {
  auto& engine = planting.engine;
  planting.hooks.fork = [&engine, trace = planting.trace](Engine& inner, SequenceId sequence) {
    const SequenceId copy = inner.fork(sequence);
    auto& cache = engine.cache(copy);
    for (int layer = 0; layer < static_cast<int>(cache.rings().size()); ++layer) {
      const int ring = cache.rings()[static_cast<std::size_t>(layer)];
      const bool whole = ring > 0 && cache.length() >= ring && cache.peak() == cache.length();
      if (!whole || cache.length() % ring == 0) continue;
      unroll(cache, layer, ring);
      trace->changed();
    }
    return copy;
  };
}

constexpr Features kWindow{Feature::window};
constexpr Features kBothKinds{Feature::window, Feature::global};

constexpr std::array kFaults{
    Fault{"win-off-by",
          kQuestion,
          "a window of the cached path is some rows wider or narrower",
          "transformers 26792",
          kWindow,
          "flat",
          {.amounts = {-2, -1, 1, 2}},
          PlanFault{seen_in_slots<off_by>}},
    Fault{"win-off-by-prefill",
          kQuestion,
          "feeds of several tokens have a window of another width, decode is right",
          "mlx-lm 390",
          kWindow,
          "flat",
          {.amounts = {-1, 1}},
          PlanFault{seen_in_slots<off_by_in_prefill>}},
    Fault{"win-off-by-decode",
          kQuestion,
          "decode has a window of another width, longer feeds are right",
          "class of transformers 26792",
          kWindow,
          "flat",
          {.amounts = {-1, 1}},
          PlanFault{seen_in_slots<off_by_in_decode>}},
    Fault{"win-missing",
          kQuestion,
          "nothing is ever evicted, and all of it is seen",
          "VeloxQuant 274",
          kWindow,
          "flat",
          {},
          PlanFault{seen_in_slots<missing>}},
    Fault{"win-missing-decode",
          kQuestion,
          "decode sees everything, window or not",
          "cactus 338, VeloxQuant 463, mistral.rs 246",
          kWindow,
          "flat",
          {.onsets = {1, 3}},
          PlanFault{seen_in_slots<missing_in_decode>}},
    Fault{"win-missing-chunk",
          kQuestion,
          "further feeds of several tokens see everything, window or not",
          "class of cactus 338",
          kWindow,
          "flat",
          {},
          PlanFault{seen_in_slots<missing_in_chunk>}},
    Fault{"win-halved",
          kQuestion,
          "the window is taken as that to both sides together",
          "class of windows given as two numbers",
          kWindow,
          "flat",
          {},
          PlanFault{seen_in_slots<halved>}},
    Fault{"win-by-blocks",
          kQuestion,
          "a window begins anew when it is full, and does not slide",
          "class of transformers 37414",
          kWindow,
          "flat",
          {},
          PlanFault{seen_in_slots<by_blocks>}},
    Fault{"win-shared-row",
          kQuestion,
          "all rows of a further feed see as far back as its first one",
          "executorch 21857",
          kWindow,
          "flat",
          {},
          PlanFault{seen_in_slots<of_first_row>}},
    Fault{"win-shared-last-row",
          kQuestion,
          "all rows of a feed see no further back than its last one",
          "class of executorch 21857",
          kWindow,
          "flat",
          {},
          PlanFault{seen_in_slots<of_last_row>}},
    Fault{"win-by-chunk-row",
          kQuestion,
          "the window of a further feed counts from the feed's first row",
          "lalamo 200",
          kWindow,
          "flat",
          {},
          PlanFault{seen_in_slots<by_place_in_chunk>}},
    Fault{"win-layer-parity",
          kQuestion,
          "decode takes layers with a window for those without one, and the other way round",
          "transformers 31775",
          kBothKinds,
          "flat",
          {.onsets = {1, 3}},
          PlanFault{seen_in_slots<swapped>}},
    Fault{"win-of-neighbour",
          kQuestion,
          "layers are numbered from 1, or from -1: each has its neighbour's window",
          "Megatron-Bridge 4875",
          kBothKinds,
          "flat",
          {.amounts = {-1, 1}},
          PlanFault{seen_in_slots<of_neighbour>}},
    Fault{"win-group-all",
          kQuestion,
          "layers without a window get that of the others",
          "vLLM 51756",
          kBothKinds,
          "flat",
          {},
          PlanFault{seen_in_slots<of_group>}},
    Fault{"win-by-slot",
          kQuestion,
          "the window counts slots, empty ones too",
          "ik_llama 2459",
          kWindow,
          "padded-right",
          {},
          PlanFault{seen_in_slots<by_slot>}},
    Fault{"win-by-row",
          kQuestion,
          "the window counts rows that are held, not positions",
          "class of ik_llama 2459",
          {Feature::rotary, Feature::window},
          "flat",
          {},
          PlanFault{seen_in_slots<by_row>}},
    Fault{"win-hidden-by-zeros",
          kQuestion,
          "rows outside of the window take part with scores of 0",
          "class of transformers 45940",
          kWindow,
          "flat",
          {},
          seen_with_sources<hidden_by_zeros>()},
    Fault{"ring-roll-early",
          kOfRing,
          "the ring is rolled when it has just become full: the oldest row is an empty one",
          "transformers 37574",
          kWindow,
          "ring",
          {},
          seen_with_sources<roll_early>()},
    Fault{"ring-start-from-past",
          kOfRing,
          "the rows of a ring are read from rows held modulo window on, though it is not full",
          "transformers 47708",
          kWindow,
          "ring",
          {},
          in_cleared_memory<seen_in_slots<start_from_past>>()},
    Fault{"ring-valid-by-slot",
          kOfRing,
          "slots behind that of the new row are taken for empty",
          "efficient-transformers 1235",
          kWindow,
          "ring",
          {},
          PlanFault{seen_in_slots<valid_by_slot>}},
    Fault{"ring-prefill-overwrite",
          kOfRing,
          "a feed writes all its rows to the ring before any of them is seen",
          "litgpt 2215",
          kWindow,
          "ring",
          {},
          seen_with_sources<overwritten_by_prefill>()},
    Fault{"ring-prefill-short",
          "attention",
          "of a feed longer than the window, rows beyond it are not computed",
          "nntrainer 3989",
          kWindow,
          "ring",
          {},
          at_sites(SiteSet().with(Site::attention),
                   [](const auto& tensor, const FaultStep& step) { prefill_short(tensor, step); })},
    Fault{"ring-write-off-by",
          kOfRing,
          "once the ring is full, rows go to the slot beside their own",
          "class of keys_values 140",
          kWindow,
          "ring",
          {.amounts = {-1, 1}},
          PlanFault{write_off_by}},
    Fault{"ring-write-from-start",
          kOfRing,
          "once the ring is full, every feed writes from the first slot on",
          "keys_values 140",
          kWindow,
          "ring",
          {},
          PlanFault{write_from_start}},
    Fault{"ring-wraps-early",
          kOfRing,
          "a ring holds one row less than its window",
          "class of rings off by one",
          kWindow,
          "ring",
          {},
          PlanFault{wraps_early}},
    Fault{"ring-truncate-all-noop",
          "truncate",
          "a roll back that a ring cannot follow is ignored in all layers, and nobody is told",
          "mlx-swift-lm 424",
          kWindow,
          "ring",
          {},
          at_verbs([](const auto& planting) { plant_truncate_ignored(planting); })},
    Fault{"ring-prefix-slice",
          "fork",
          "a copy takes the slots of a ring in the order of memory for rows in their order",
          "mlx-vlm 1715",
          kWindow,
          "ring",
          {},
          at_verbs([](const auto& planting) { plant_copy_in_slot_order(planting); })},
    Fault{"ring-slot-order",
          kOfRing,
          "a ring is read in the order of its slots, not of its rows",
          "class of orders of keys",
          kWindow,
          "ring",
          {},
          PlanFault{seen_in_slots<in_slot_order>},
          Expected::equivalent,
          "a weighted mean does not depend on the order of its terms, and keys carry their "
          "positions with them"},
};

}  // namespace

std::span<const Fault> window_faults() { return kFaults; }

}  // namespace kvcheck
