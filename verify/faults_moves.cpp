// SPDX-License-Identifier: MIT
// Wrong answers to: which rows go when some are dropped, and where do those stand that stay?
#include <algorithm>
#include <array>

#include "verify/fault_caches.h"
#include "verify/faults.h"

namespace kvcheck {
namespace {

constexpr std::string_view kShifted = "rotation of keys that move up";
constexpr std::string_view kShiftedRows = "rows that a shift drops";
constexpr std::string_view kEvicted = "rows that an eviction drops";

// ---- Shifts

// What a shift has done: rows from `from` on have moved up by `by`.
struct Shifted {
  int from;
  int by;
  int length;  // rows that are left
};

// change(cache, shifted) after every shift that drops something.
template <typename Change>
void plant_after_shift(const auto& planting, Change change) {
  planting.hooks.shift = [change, &engine = planting.engine](Engine& inner, SequenceId sequence,
                                                             int from, int to) {
    inner.shift(sequence, from, to);
    auto& cache = engine.cache(sequence);
    if (to > from) change(cache, Shifted{from, to - from, cache.length()});
  };
}

// Turns the keys of rows that have moved up by extra(by) more than is right.
template <Scalar T, typename Extra>
void plant_turned(const Planting<T>& planting, Extra extra) {
  plant_after_shift(planting, [planting, extra](KvCache<T>& cache, const Shifted& shifted) {
    const int by = extra(shifted.by);
    change_rows(planting, cache, shifted.from, shifted.length,
                [&](StoredRow<T>& row) { turn(row.key, row.layer, planting.config, by); });
  });
}

void plant_turned_off_by(const auto& planting) {
  plant_turned(planting, [by = planting.at.amount.value_or(1)](int) { return by; });
}

// Every layer but the first keeps its keys as they were.
template <Scalar T>
void plant_first_layer_only(const Planting<T>& planting) {
  plant_after_shift(planting, [planting](KvCache<T>& cache, const Shifted& shifted) {
    for (int l = 1; l < planting.config.layers; ++l) {
      for (int row = shifted.from; row < shifted.length; ++row) {
        StoredRow<T> stored = row_of(cache, l, row);
        turn(stored.key, stored.layer, planting.config, shifted.by);
        if (put_row(cache, l, row, stored)) planting.trace->changed();
      }
    }
  });
}

template <Scalar T>
void plant_kept_rows_turned(const Planting<T>& planting) {
  plant_after_shift(planting, [planting](KvCache<T>& cache, const Shifted& shifted) {
    change_rows(planting, cache, 0, shifted.from,
                [&](StoredRow<T>& row) { turn(row.key, row.layer, planting.config, -shifted.by); });
  });
}

template <Scalar T>
void plant_last_row_not_turned(const Planting<T>& planting) {
  plant_after_shift(planting, [planting](KvCache<T>& cache, const Shifted& shifted) {
    change_rows(planting, cache, std::max(shifted.from, shifted.length - 1), shifted.length,
                [&](StoredRow<T>& row) { turn(row.key, row.layer, planting.config, shifted.by); });
  });
}

template <Scalar T>
void plant_values_turned(const Planting<T>& planting) {
  plant_after_shift(planting, [planting](KvCache<T>& cache, const Shifted& shifted) {
    change_rows(planting, cache, shifted.from, shifted.length, [&](StoredRow<T>& row) {
      turn(row.value, row.layer, planting.config, -shifted.by);
    });
  });
}

constexpr double kOtherBase = 10;  // times smaller; far enough to turn all pairs but the first

// Turned back by the angles of another base.
template <Scalar T>
void plant_other_base(const Planting<T>& planting) {
  Config other = planting.config;
  other.rotary_base /= kOtherBase;
  other.rotary_base_windowed /= kOtherBase;
  plant_after_shift(planting, [planting, other](KvCache<T>& cache, const Shifted& shifted) {
    change_rows(planting, cache, shifted.from, shifted.length, [&](StoredRow<T>& row) {
      turn(row.key, row.layer, planting.config, shifted.by);
      turn(row.key, row.layer, other, -shifted.by);
    });
  });
}

// Rotation waits for the next feed; a second shift before it replaces what was waiting.
struct Waiting {
  std::vector<int> turns;  // [rows], since the last feed
};

template <Scalar T>
void shift_again(const Planting<T>& planting, Waiting& waiting, SequenceId sequence, int from,
                 int to) {
  KvCache<T>& cache = planting.engine.cache(sequence);
  std::vector<int>& turns = waiting.turns;
  turns.resize(static_cast<std::size_t>(cache.length()), 0);
  planting.engine.shift(sequence, from, to);
  turns.erase(turns.begin() + from, turns.begin() + to);
  for (int row = from; row < cache.length() && to > from; ++row) {
    int& turn_of_row = turns[static_cast<std::size_t>(row)];
    change_rows(planting, cache, row, row + 1, [&](StoredRow<T>& stored) {
      turn(stored.key, stored.layer, planting.config, turn_of_row);
    });
    turn_of_row = to - from;
  }
}

template <Scalar T>
void plant_delta_overwritten(const Planting<T>& planting) {
  auto waiting = SequenceMemory<Waiting>::attach(planting.hooks);
  planting.hooks.shift = [waiting, planting](Engine&, SequenceId sequence, int from, int to) {
    shift_again(planting, waiting->of(sequence), sequence, from, to);
  };
  note_feeds(planting, [waiting](SequenceId sequence, int) {
    waiting->of(sequence) = {};
    return 0;
  });
}

// Further rows go on where the sequence ended before the shift.
void plant_next_position_kept(const auto& planting) {
  auto drift = plant_drift(planting);
  planting.hooks.shift = [drift](Engine& inner, SequenceId sequence, int from, int to) {
    inner.shift(sequence, from, to);
    drift->of(sequence) += to - from;
  };
}

// After a shift, all rows and all that follow them stand one position too far.
template <Scalar T>
void plant_all_moved_on(const Planting<T>& planting) {
  auto drift = plant_rotary_drift(planting);
  planting.hooks.shift = [drift, planting](Engine& inner, SequenceId sequence, int from, int to) {
    inner.shift(sequence, from, to);
    KvCache<T>& cache = planting.engine.cache(sequence);
    if (to == from || cache.length() == 0) return;
    change_rows(planting, cache, 0, cache.length(),
                [&](StoredRow<T>& row) { turn(row.key, row.layer, planting.config, 1); });
    drift->of(sequence) += 1;
  };
}

void plant_shift_off_by(const auto& planting) {
  planting.hooks.shift = [by = planting.at.amount.value_or(1), trace = planting.trace](
                             Engine& inner, SequenceId sequence, int from, int to) {
    const int held = inner.held(sequence).rows;
    const int wrong = to > from ? std::clamp(to + by, from, std::max(to, held)) : to;
    if (wrong != to) trace->changed();
    inner.shift(sequence, from, wrong);
  };
}

// ---- Evictions

// wrong(rows to drop, rows held) is dropped instead.
struct Dropped {
  int keep;
  int drop;
};
template <typename Wrong>
void plant_evicted(const auto& planting, Wrong wrong) {
  planting.hooks.evict = [wrong, trace = planting.trace](Engine& inner, SequenceId sequence,
                                                         int keep, int drop) {
    const int held = inner.held(sequence).rows;
    const bool some = drop > 0 && keep + drop <= held;  // else it is refused, or nothing to do
    const Dropped other = some ? wrong(Dropped{keep, drop}, held) : Dropped{keep, drop};
    if (other.keep != keep || other.drop != drop) trace->changed();
    inner.evict(sequence, other.keep, other.drop);
  };
}

void plant_evicted_late(const auto& planting) {
  plant_evicted(planting, [](const Dropped& right, int held) {
    return Dropped{right.keep + 1 + right.drop <= held ? right.keep + 1 : right.keep, right.drop};
  });
}

void plant_evicted_off_by(const auto& planting) {
  plant_evicted(planting, [by = planting.at.amount.value_or(1)](const Dropped& right, int held) {
    return Dropped{right.keep, std::clamp(right.drop + by, 0, held - right.keep)};
  });
}

// change(cache, rows before, dropped) of each layer of the planting after every eviction.
template <Scalar T, typename Change>
void plant_after_evict(const Planting<T>& planting, Change change) {
  planting.hooks.evict = [change, planting](Engine& inner, SequenceId sequence, int keep,
                                            int drop) {
    KvCache<T>& cache = planting.engine.cache(sequence);
    std::vector<std::vector<StoredRow<T>>> before;
    for (int l = 0; l < planting.config.layers; ++l) {
      before.push_back(rows_of(cache, l, 0, cache.length()));
    }
    inner.evict(sequence, keep, drop);
    for (int l = 0; l < planting.config.layers; ++l) {
      for (int row = keep; row < cache.length() && planting.in_layer(l); ++row) {
        StoredRow<T> stored = row_of(cache, l, row);
        change(stored, before[static_cast<std::size_t>(l)][static_cast<std::size_t>(row)], drop);
        if (put_row(cache, l, row, stored)) planting.trace->changed();
      }
    }
  };
}

template <Scalar T>
void plant_layer_not_evicted(const Planting<T>& planting) {
  plant_after_evict(planting, [](StoredRow<T>& row, const StoredRow<T>& old, int) { row = old; });
}

template <Scalar T>
void plant_values_not_moved(const Planting<T>& planting) {
  plant_after_evict(planting,
                    [](StoredRow<T>& row, const StoredRow<T>& old, int) { row.value = old.value; });
}

template <Scalar T>
void plant_evicted_turned(const Planting<T>& planting) {
  plant_after_evict(planting, [planting](StoredRow<T>& row, const StoredRow<T>&, int drop) {
    turn(row.key, row.layer, planting.config, -drop);
  });
}

constexpr Features kRotary{Feature::rotary};

constexpr std::array kFaults{
    Fault{
        "shift-positions-only",
        kShifted,
        "rows that move up get other positions and keep the keys of the old ones",
        "llama.cpp 10401",
        kRotary,
        "flat",
        {.layers = true},
        at_verbs([](const auto& planting) { plant_turned(planting, [](int by) { return by; }); })},
    Fault{"shift-first-layer-only",
          kShifted,
          "keys are turned back in the first layer only",
          "class of llama.cpp 10401",
          {Feature::rotary, Feature::two_layers},
          "flat",
          {},
          at_verbs([](const auto& planting) { plant_first_layer_only(planting); })},
    Fault{"shift-turned-off-by",
          kShifted,
          "keys are turned back by a position too many, or too few",
          "class of llama.cpp 3825",
          kRotary,
          "flat",
          {.layers = true, .amounts = {-1, 1}},
          at_verbs([](const auto& planting) { plant_turned_off_by(planting); })},
    Fault{"shift-turned-forwards",
          kShifted,
          "keys are turned the wrong way",
          "class of rotation signs",
          kRotary,
          "flat",
          {.layers = true},
          at_verbs(
              [](const auto& planting) { plant_turned(planting, [](int by) { return 2 * by; }); })},
    Fault{
        "shift-turned-twice",
        kShifted,
        "keys are turned back twice",
        "class of llama.cpp 3825",
        kRotary,
        "flat",
        {.layers = true},
        at_verbs([](const auto& planting) { plant_turned(planting, [](int by) { return -by; }); })},
    Fault{"shift-delta-overwrite",
          kShifted,
          "a second shift before the next feed forgets what the first one has still to turn",
          "llama.cpp 3825",
          kRotary,
          "flat",
          {.layers = true},
          at_verbs([](const auto& planting) { plant_delta_overwritten(planting); }),
          Expected::caught,
          {},
          32},
    Fault{"shift-other-base",
          kShifted,
          "keys are turned back by the angles of another base",
          "llama.cpp 12373, VeloxQuant 148",
          {Feature::rotary, Feature::frequencies},
          "flat",
          {.layers = true},
          at_verbs([](const auto& planting) { plant_other_base(planting); }),
          Expected::caught,
          {},
          8},
    Fault{"shift-turns-kept-rows",
          kShifted,
          "keys before the dropped rows are turned back as well",
          "class of llama.cpp 12160",
          kRotary,
          "flat",
          {.layers = true},
          at_verbs([](const auto& planting) { plant_kept_rows_turned(planting); })},
    Fault{"shift-misses-the-last-row",
          kShifted,
          "the key of the last row is not turned back",
          "class of llama.cpp 10401",
          kRotary,
          "flat",
          {.layers = true},
          at_verbs([](const auto& planting) { plant_last_row_not_turned(planting); })},
    Fault{"shift-turns-values",
          kShifted,
          "values are turned back as keys are",
          "class of llama.cpp 4889",
          kRotary,
          "flat",
          {.layers = true},
          at_verbs([](const auto& planting) { plant_values_turned(planting); })},
    Fault{"shift-next-position-kept",
          kShiftedRows,
          "further rows go on where the sequence ended before the shift",
          "class of transformers 30042",
          kRotary,
          "flat",
          {},
          at_verbs([](const auto& planting) { plant_next_position_kept(planting); })},
    Fault{"shift-off-by",
          kShiftedRows,
          "a shift drops a row too many, or one too few",
          "class of llama.cpp 12160",
          kRotary,
          "flat",
          {.amounts = {-1, 1}},
          at_verbs([](const auto& planting) { plant_shift_off_by(planting); })},
    Fault{"shift-all-moved-on",
          kShifted,
          "after a shift all rows, and those that follow, stand one position too far",
          "class of one-based positions",
          kRotary,
          "flat",
          {},
          at_verbs([](const auto& planting) { plant_all_moved_on(planting); }),
          Expected::equivalent,
          "rotations enter a score as the difference of two positions only"},
    Fault{"evict-one-row-late",
          kEvicted,
          "as many rows go as should, one row behind those that should",
          "class of llama.cpp 12160",
          kRotary,
          "flat",
          {},
          at_verbs([](const auto& planting) { plant_evicted_late(planting); })},
    Fault{"evict-off-by",
          kEvicted,
          "an eviction drops a row too many, or one too few",
          "class of llama.cpp 12160",
          kRotary,
          "flat",
          {.amounts = {-1, 1}},
          at_verbs([](const auto& planting) { plant_evicted_off_by(planting); })},
    Fault{"evict-from-the-start",
          kEvicted,
          "the oldest rows go, which should be kept",
          "class of llama.cpp 12160",
          kRotary,
          "flat",
          {},
          at_verbs([](const auto& planting) {
            plant_evicted(planting, [](const Dropped& right, int) {
              return Dropped{0, right.drop};
            });
          })},
    Fault{"evict-the-newest",
          kEvicted,
          "the newest rows go instead of those that should",
          "class of llama.cpp 12160",
          kRotary,
          "flat",
          {},
          at_verbs([](const auto& planting) {
            plant_evicted(planting, [](const Dropped& right, int held) {
              return Dropped{held - right.drop, right.drop};
            });
          })},
    Fault{"evict-never",
          kEvicted,
          "no row goes",
          "VeloxQuant 274",
          kRotary,
          "flat",
          {},
          at_verbs([](const auto& planting) {
            plant_evicted(planting, [](const Dropped& right, int) {
              return Dropped{right.keep, 0};
            });
          })},
    Fault{"evict-skips-a-layer",
          kEvicted,
          "in a layer the oldest rows stay in their places, and the newest go",
          "class of omlx 3245",
          kRotary,
          "flat",
          {.layers = true},
          at_verbs([](const auto& planting) { plant_layer_not_evicted(planting); })},
    Fault{"evict-moves-keys-only",
          kEvicted,
          "keys move up and values stay where they were",
          "class of transformers 46612",
          kRotary,
          "flat",
          {.layers = true},
          at_verbs([](const auto& planting) { plant_values_not_moved(planting); })},
    Fault{"evict-turns-keys",
          kEvicted,
          "keys that move up are turned back, and positions stay",
          "class of VeloxQuant 148",
          kRotary,
          "flat",
          {.layers = true},
          at_verbs([](const auto& planting) { plant_evicted_turned(planting); })},
};

}  // namespace

std::span<const Fault> move_faults() { return kFaults; }

}  // namespace kvcheck
