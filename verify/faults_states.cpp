// SPDX-License-Identifier: MIT
// Wrong answers to: which rows does a sequence hold after they were saved and loaded, or moved into
// more memory?
#include <algorithm>
#include <array>

#include "verify/fault_caches.h"
#include "verify/faults.h"

namespace kvcheck {
namespace {

constexpr std::string_view kAfterLoad = "rows that are loaded";
constexpr std::string_view kAfterGrowth = "rows after memory has grown";

// ---- States

// change(cache) of everything that is loaded.
template <typename Change>
void plant_after_load(const auto& planting, Change change) {
  planting.hooks.load = [change, &engine = planting.engine](Engine& inner,
                                                            std::span<const std::byte> state) {
    const SequenceId sequence = inner.load(state);
    change(engine.cache(sequence));
    return sequence;
  };
}

// What is loaded drifts from then on: by(cache) as it is then.
template <typename By>
void plant_drift_of_states(const auto& planting, By by) {
  auto drift = plant_drift(planting);
  planting.hooks.load = [drift, by, &engine = planting.engine](Engine& inner,
                                                               std::span<const std::byte> state) {
    const SequenceId sequence = inner.load(state);
    drift->of(sequence) = by(engine.cache(sequence));
    return sequence;
  };
}

// The values of the last row are not loaded.
template <Scalar T>
void plant_short_load(const Planting<T>& planting) {
  plant_after_load(planting, [planting](KvCache<T>& cache) {
    change_rows(planting, cache, cache.length() - 1, cache.length(),
                [](StoredRow<T>& row) { std::ranges::fill(row.value, T{0}); });
  });
}

template <Scalar T>
void plant_layer_not_saved(const Planting<T>& planting) {
  plant_after_load(planting, [planting](KvCache<T>& cache) {
    change_rows(planting, cache, 0, cache.length(), clear<T>);
  });
}

template <Scalar T>
void plant_one_address(const Planting<T>& planting) {
  plant_after_load(planting, [planting](KvCache<T>& cache) {
    change_rows(planting, cache, 0, cache.length(), [](StoredRow<T>& row) { row.key = row.value; });
  });
}

// Row r holds what row r + 1 should; the last one what it should.
template <Scalar T>
void plant_rows_off_by_one(const Planting<T>& planting) {
  plant_after_load(planting, [planting](KvCache<T>& cache) {
    for (int l = 0; l < planting.config.layers; ++l) {
      if (!planting.in_layer(l)) continue;
      const auto rows = rows_of(cache, l, 1, cache.length());
      if (put_rows<T>(cache, l, 0, rows)) planting.trace->changed();
    }
  });
}

// The state holds as many rows of every layer as the window of one of them.
template <Scalar T>
void plant_only_window_saved(const Planting<T>& planting) {
  const int window = std::ranges::max(planting.config.windows);
  plant_after_load(planting, [planting, window](KvCache<T>& cache) {
    change_rows(planting, cache, 0, cache.length() - window, clear<T>);
  });
}

void plant_last_row_not_saved(const auto& planting) {
  planting.hooks.load = [&engine = planting.engine, trace = planting.trace](
                            Engine& inner, std::span<const std::byte> state) {
    const SequenceId sequence = inner.load(state);
    const int length = engine.cache(sequence).length();
    if (length > 0) {
      inner.truncate(sequence, length - 1);
      trace->changed();
    }
    return sequence;
  };
}

// ---- Growth

// change(cache) of every cache whose memory is about to grow.
template <typename Change>
void plant_before_growth(const auto& planting, Change change) {
  planting.hooks.feed = [change, &engine = planting.engine](
                            Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
    for (const Feed& feed : feeds) {
      auto& cache = engine.cache(feed.sequence);
      if (cache.length() + static_cast<int>(feed.tokens.size()) > cache.capacity()) change(cache);
    }
    inner.batch(feeds, rows, out);
  };
}

template <Scalar T>
void plant_layer_lost_in_growth(const Planting<T>& planting) {
  plant_before_growth(planting, [planting](KvCache<T>& cache) {
    change_rows(planting, cache, 0, cache.length(), clear<T>);
  });
}

template <Scalar T>
void plant_rows_lost_in_growth(const Planting<T>& planting) {
  const int lost = planting.at.amount.value_or(1);
  plant_before_growth(planting, [planting, lost](KvCache<T>& cache) {
    change_rows(planting, cache, cache.length() - lost, cache.length(), clear<T>);
  });
}

template <Scalar T>
void plant_values_lost_in_growth(const Planting<T>& planting) {
  plant_before_growth(planting, [planting](KvCache<T>& cache) {
    change_rows(planting, cache, 0, cache.length(),
                [](StoredRow<T>& row) { std::ranges::fill(row.value, T{0}); });
  });
}

// Slots that there are when so many rows are held: memory doubles.
int grown_capacity(int rows, int context) {
  int capacity = 1;
  while (capacity < rows) capacity *= 2;
  return std::min(capacity, context);
}

// What is older than the window is cut off as if all of the memory were in use.
void trim_by_capacity(StepPlan& plan, const FaultStep& step) {
  for (int l = 0; l < step.config.layers; ++l) {
    const int window = step.config.windows[static_cast<std::size_t>(l)];
    if (window == 0) continue;
    change_view(plan, l, [&](SlotView& view) {
      const SlotView right = view;
      view.first = {0};
      view.slots.clear();
      view.positions.clear();
      for (int r = 0; r < static_cast<int>(plan.rows.size()); ++r) {
        const int rows = step.held(r) + step.tokens(r);
        const int first = grown_capacity(rows, step.config.context) - window;
        const std::span<const int> seen = right.of(r);
        for (std::size_t k = 0; k < seen.size(); ++k) {
          if (seen[k] >= first || k + 1 == seen.size()) show(view, right, r, k);
        }
        view.first.push_back(static_cast<int>(view.slots.size()));
      }
    });
  }
}

// The row that does not fit any more goes to the last slot that there was, and memory grows after
// it.
void grow_one_late(StepPlan& plan, const FaultStep& step) {
  const auto clipped = [](int slot) {
    const bool edge = slot > 0 && (slot & (slot - 1)) == 0;  // capacities are powers of two
    return edge ? slot - 1 : slot;
  };
  for (int l = 0; l < step.config.layers; ++l) {
    if (!step.in_layer(l)) continue;
    change_view(plan, l, [&](SlotView& view) {
      std::ranges::transform(view.slots, view.slots.begin(), clipped);
      std::ranges::transform(view.write, view.write.begin(), clipped);
    });
  }
}

constexpr Features kAny{};
constexpr Features kRotary{Feature::rotary};
constexpr Features kPositions{Feature::positions};

constexpr std::array kFaults{
    Fault{"load-one-row-short",
          kAfterLoad,
          "the values of the last row are not loaded",
          "class of llama.cpp 23400",
          kAny,
          "flat",
          {.layers = true},
          at_verbs([](const auto& planting) { plant_short_load(planting); })},
    Fault{"load-drops-the-last-row",
          kAfterLoad,
          "the last row is not loaded at all",
          "llama.cpp 23400",
          kAny,
          "flat",
          {},
          at_verbs([](const auto& planting) { plant_last_row_not_saved(planting); })},
    Fault{"load-rows-off-by-one",
          kAfterLoad,
          "every row is loaded one row early",
          "llama.cpp 23400",
          kAny,
          "flat",
          {.layers = true},
          at_verbs([](const auto& planting) { plant_rows_off_by_one(planting); })},
    Fault{"load-position-off",
          kAfterLoad,
          "the next position is not the one that was saved",
          "llama.cpp 23400",
          kPositions,
          "flat",
          {.amounts = {-1, 1}},
          at_verbs([](const auto& planting) {
            plant_drift_of_states(planting,
                                  [by = planting.at.amount.value_or(1)](const auto& cache) {
                                    return cache.length() == 0 ? 0 : by;
                                  });
          })},
    Fault{"load-drops-the-gap",
          kAfterLoad,
          "positions that evicted rows have left free are not saved",
          "mlx-swift 443",
          kRotary,
          "flat",
          {},
          at_verbs([](const auto& planting) { plant_drift_of_states(planting, kGapLost); })},
    Fault{"save-one-address",
          kAfterLoad,
          "keys and values are written to one address, the values last",
          "vllm-ascend 11021",
          kAny,
          "flat",
          {.layers = true},
          at_verbs([](const auto& planting) { plant_one_address(planting); })},
    Fault{"save-forgets-a-layer",
          kAfterLoad,
          "a layer is not saved",
          "class of vllm-ascend 11021",
          kAny,
          "flat",
          {.layers = true},
          at_verbs([](const auto& planting) { plant_layer_not_saved(planting); })},
    Fault{"save-the-window-only",
          kAfterLoad,
          "rows outside the window of one layer are saved for none",
          "koboldcpp 2282",
          {Feature::window, Feature::global},
          "flat",
          {},
          at_verbs([](const auto& planting) { plant_only_window_saved(planting); })},
    Fault{"growth-forgets-a-layer",
          kAfterGrowth,
          "what a layer held is not taken into the larger memory",
          "class of mistral.rs 917",
          kAny,
          "growing",
          {.layers = true},
          at_verbs([](const auto& planting) { plant_layer_lost_in_growth(planting); })},
    Fault{"growth-copies-too-few",
          kAfterGrowth,
          "the last rows are not taken into the larger memory",
          "class of mistral.rs 917",
          kAny,
          "growing",
          {.layers = true, .amounts = {1, 2}},
          at_verbs([](const auto& planting) { plant_rows_lost_in_growth(planting); })},
    Fault{"growth-copies-keys-only",
          kAfterGrowth,
          "values are not taken into the larger memory",
          "class of mistral.rs 917",
          kAny,
          "growing",
          {.layers = true},
          at_verbs([](const auto& planting) { plant_values_lost_in_growth(planting); })},
    Fault{"growth-one-late",
          kAfterGrowth,
          "the first row that does not fit is written over the last one that did",
          "nanotron 28",
          kAny,
          "growing",
          {.layers = true},
          PlanFault{grow_one_late}},
    Fault{"trim-by-capacity",
          kAfterGrowth,
          "rows outside the window are cut off as if all of the memory were in use",
          "mlx-lm 1673",
          {Feature::window},
          "growing",
          {},
          PlanFault{trim_by_capacity}},
};

}  // namespace

std::span<const Fault> state_faults() { return kFaults; }

}  // namespace kvcheck
