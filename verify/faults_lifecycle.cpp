// SPDX-License-Identifier: MIT
// Wrong answers to: which rows does a sequence hold after it was rolled back or copied?
#include <algorithm>
#include <array>
#include <map>
#include <memory>

#include "verify/fault_caches.h"
#include "verify/faults.h"

namespace kvcheck {
namespace {

constexpr std::string_view kAfterReset = "rows after a reset";
constexpr std::string_view kAfterTruncate = "rows after a roll back";
constexpr std::string_view kAfterFork = "rows of a copy";

// ---- Rolling back

// `wrong` gives the length that is rolled back to instead, from the right one and that held.
template <typename Wrong>
void plant_truncate_to(const auto& planting, Wrong wrong) {
  planting.hooks.truncate = [wrong, &engine = planting.engine, trace = planting.trace](
                                Engine& inner, SequenceId sequence, int length) {
    const int held = engine.cache(sequence).length();
    const int to = length > held ? length : std::clamp(wrong(length, held), 0, held);
    if (to != length) trace->changed();
    inner.truncate(sequence, to);
  };
}

void plant_truncate_off(const auto& planting) {
  plant_truncate_to(planting, [by = planting.at.amount.value_or(1)](int length, int held) {
    return length == 0 || length == held ? length : length + by;
  });
}

void plant_truncate_by_blocks(const auto& planting) {
  plant_truncate_to(planting, [block = std::max(planting.cache.block, 1)](int length, int) {
    return (length + block - 1) / block * block;
  });
}

// The rows of before the reset stay, and only the counters say otherwise.
void plant_reset_skipped(const auto& planting) {
  auto& engine = planting.engine;
  auto kept = SequenceMemory<int>::attach(planting.hooks);
  planting.hooks.truncate = [kept, &engine, trace = planting.trace](
                                Engine& inner, SequenceId sequence, int length) {
    int& of = kept->of(sequence);
    if (length > 0) return inner.truncate(sequence, length + of);
    of = engine.cache(sequence).length();
    if (of > 0) trace->changed();
  };
  planting.hooks.feed = [kept, &engine, context = planting.config.context](
                            Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
    for (const Feed& feed : feeds) {
      int& of = kept->of(feed.sequence);
      const int tokens = static_cast<int>(feed.tokens.size());
      if (of == 0 || engine.cache(feed.sequence).next_position() + tokens <= context) continue;
      inner.truncate(feed.sequence, 0);  // there is no room for both: here the reset is a real one
      of = 0;
    }
    inner.batch(feeds, rows, out);
  };
  planting.hooks.held = [kept, &engine](const Engine& inner, SequenceId sequence) {
    const Held held = inner.held(sequence);
    const int rows = held.rows - kept->of(sequence);
    return Held{rows, held.next_position - kept->of(sequence), engine.cache(sequence).bytes(rows)};
  };
}

// The counter is not lowered: further rows stand where they would stand without the roll back.
void keep_counter(const auto& planting, const std::shared_ptr<Drift>& drift, bool (*when)(int)) {
  planting.hooks.truncate = [drift, when, &engine = planting.engine](
                                Engine& inner, SequenceId sequence, int length) {
    const int before = engine.cache(sequence).next_position();
    const int so_far = drift->of(sequence);
    inner.truncate(sequence, length);
    const int fallen = before - engine.cache(sequence).next_position();
    drift->of(sequence) = when(length) ? so_far + fallen : length == 0 ? 0 : so_far;
  };
}

bool is_reset(int length) { return length == 0; }
bool is_no_reset(int length) { return length > 0; }

// Rows that are rolled back and that go on to be seen, as nobody writes over them.
template <Scalar T>
struct StaleRows {
  int first = 0;
  std::vector<std::vector<StoredRow<T>>> rows;  // [layers][row - first]

  [[nodiscard]] int end(int layer) const {
    const auto l = static_cast<std::size_t>(layer);
    return l < rows.size() ? first + static_cast<int>(rows[l].size()) : 0;
  }
};

// What was held of rows [length, end) in the planting's layers.
template <Scalar T>
StaleRows<T> stale_rows(const Planting<T>& planting, const KvCache<T>& cache, int length) {
  StaleRows<T> stale{.first = length, .rows = {}};
  for (int l = 0; l < planting.config.layers; ++l) {
    const int end = planting.in_layer(l) ? cache.length() : length;
    stale.rows.push_back(rows_of(cache, l, length, end));
  }
  return stale;
}

// Lays those of the first `rows` rows where they were.
template <Scalar T>
void lay_again(KvCache<T>& cache, const StaleRows<T>& stale, int rows) {
  for (int l = 0; l < static_cast<int>(stale.rows.size()); ++l) {
    const int count = std::min(rows, stale.end(l)) - std::max(stale.first, cache.length());
    const int from = std::max(stale.first, cache.length());
    if (count <= 0) continue;
    const std::span<const StoredRow<T>> all(stale.rows[static_cast<std::size_t>(l)]);
    put_rows(
        cache, l, from,
        all.subspan(static_cast<std::size_t>(from - stale.first), static_cast<std::size_t>(count)));
  }
}

// After a roll back to a length for which `when` holds, rows are not stored while there are old
// ones in their place.
template <Scalar T>
void plant_stale(const Planting<T>& planting, bool (*when)(int)) {
  auto stale = SequenceMemory<StaleRows<T>>::attach(planting.hooks);
  auto& engine = planting.engine;
  planting.hooks.truncate = [stale, when, planting](Engine& inner, SequenceId sequence,
                                                    int length) {
    StaleRows<T> rows = stale_rows(planting, planting.engine.cache(sequence), length);
    inner.truncate(sequence, length);
    stale->of(sequence) = when(length) ? std::move(rows) : StaleRows<T>{};
  };
  const auto of_feeds = note_feeds(planting, [stale, &engine](SequenceId sequence, int tokens) {
    KvCache<T>& cache = engine.cache(sequence);
    lay_again(cache, stale->of(sequence), cache.length() + tokens);
    return stale->of(sequence);
  });
  rewrite_plans(planting,
                [of_feeds, layers = planting.config.layers](StepPlan& plan, PlannedFeeds) {
                  for (int l = 0; l < layers; ++l) {
                    change_view(plan, l, [&](SlotView& view) {
                      for (std::size_t r = 0; r < plan.rows.size(); ++r) {
                        const auto feed = static_cast<std::size_t>(plan.rows[r].sequence);
                        if (plan.rows[r].slot < (*of_feeds)[feed].end(l)) view.write[r] = kNowhere;
                      }
                    });
                  }
                });
}

// A roll back forgets the rows of some layers only. In the others the next rows go behind them, and
// are not seen while the old ones are.
template <Scalar T>
struct KeptRows {
  std::map<const KvCache<T>*, int> rows;  // too many in those layers
  std::vector<const KvCache<T>*> fed;     // [feeds] of the step at hand
};

template <Scalar T>
void truncate_others(const Planting<T>& planting, KeptRows<T>& kept, SequenceId sequence,
                     int length) {
  KvCache<T>& cache = planting.engine.cache(sequence);
  const int end = std::min(cache.length() + kept.rows[&cache], cache.capacity());
  std::map<int, std::vector<StoredRow<T>>> rows;  // by layer
  for (int l = 0; l < planting.config.layers; ++l) {
    if (planting.in_layer(l)) rows[l] = rows_of(cache, l, length, end);
  }
  planting.engine.truncate(sequence, length);
  for (const auto& [layer, of_layer] : rows) {
    if (put_rows<T>(cache, layer, length, of_layer)) planting.trace->changed();
  }
  kept.rows[&cache] = end - length;
}

template <Scalar T>
void plant_kept_layers(const Planting<T>& planting) {
  auto kept = std::make_shared<KeptRows<T>>();
  const auto is_new = [kept, &engine = planting.engine](SequenceId sequence) {
    kept->rows.erase(&engine.cache(sequence));
    return sequence;
  };
  planting.hooks.truncate = [kept, is_new, planting](Engine& inner, SequenceId sequence,
                                                     int length) {
    if (length > 0) return truncate_others(planting, *kept, sequence, length);
    inner.truncate(sequence, 0);
    (void)is_new(sequence);
  };
  planting.hooks.open = [is_new](Engine& inner) { return is_new(inner.open()); };
  planting.hooks.fork = [is_new](Engine& inner, SequenceId from) {
    return is_new(inner.fork(from));
  };
  planting.hooks.load = [is_new](Engine& inner, std::span<const std::byte> state) {
    return is_new(inner.load(state));
  };
  planting.hooks.reorder = [is_new](Engine& inner, std::span<const SequenceId> sequences,
                                    std::span<const int> from) {
    inner.reorder(sequences, from);
    for (const SequenceId sequence : sequences) (void)is_new(sequence);
  };
  const auto behind =
      note_feeds(planting, [kept, &engine = planting.engine](SequenceId sequence, int) {
        return kept->rows[&engine.cache(sequence)];
      });
  rewrite_plans(planting, [behind, planting](StepPlan& plan, PlannedFeeds) {
    for (int l = 0; l < planting.config.layers; ++l) {
      if (!planting.in_layer(l)) continue;
      change_view(plan, l, [&](SlotView& view) {
        for (std::size_t r = 0; r < plan.rows.size(); ++r) {
          const int by = (*behind)[static_cast<std::size_t>(plan.rows[r].sequence)];
          view.write[r] = std::min(plan.rows[r].slot + by, planting.config.context - 1);
        }
      });
    }
  });
}

// ---- Copies

// A copy is another name of the original: what is fed to it, the original takes as well.
void plant_alias(const auto& planting) {
  auto originals = std::make_shared<std::map<SequenceId, SequenceId>>();
  planting.hooks.open = [originals](Engine& inner) {
    const SequenceId sequence = inner.open();
    originals->erase(sequence);
    return sequence;
  };
  planting.hooks.fork = [originals](Engine& inner, SequenceId sequence) {
    const SequenceId copy = inner.fork(sequence);
    (*originals)[copy] = sequence;
    return copy;
  };
  planting.hooks.feed = [originals, trace = planting.trace](
                            Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
    inner.batch(feeds, rows, out);
    Logits unwanted;
    for (const Feed& feed : feeds) {
      const auto original = originals->find(feed.sequence);
      if (original == originals->end()) continue;
      trace->changed();
      inner.feed(original->second, feed.tokens, Rows::last, unwanted);
    }
  };
}

// Two caches that lie in the same memory: what one of them writes, the other one holds.
template <Scalar T>
using Twins = std::pair<KvCache<T>*, KvCache<T>*>;

// Rows from `before` on that `cache` has written.
template <Scalar T>
void overwrite_twin(const Planting<T>& planting, const KvCache<T>& cache, KvCache<T>& other,
                    int before) {
  const int end = std::min(cache.length(), other.length());
  for (int l = 0; l < planting.config.layers; ++l) {
    for (int row = before; planting.in_layer(l) && row < end; ++row) {
      if (put_row(other, l, row, row_of(cache, l, row))) planting.trace->changed();
    }
  }
}

template <Scalar T>
void plant_shared_memory(const Planting<T>& planting) {
  auto twins = std::make_shared<std::vector<Twins<T>>>();
  planting.hooks.fork = [&engine = planting.engine, twins](Engine& inner, SequenceId sequence) {
    const SequenceId copy = inner.fork(sequence);
    twins->push_back({&engine.cache(sequence), &engine.cache(copy)});
    return copy;
  };
  planting.hooks.feed = [planting, twins](Engine& inner, std::span<const Feed> feeds, Rows rows,
                                          Logits& out) {
    std::erase_if(*twins, [](const Twins<T>& t) {
      return t.first->length() == 0 || t.second->length() == 0;
    });
    std::vector<int> before;
    for (const Feed& feed : feeds) {
      before.push_back(planting.engine.cache(feed.sequence).length());
    }
    inner.batch(feeds, rows, out);
    for (std::size_t i = 0; i < feeds.size(); ++i) {
      const KvCache<T>* const fed = &planting.engine.cache(feeds[i].sequence);
      for (const auto& [one, other] : *twins) {
        if (one == fed) overwrite_twin(planting, *fed, *other, before[i]);
        if (other == fed) overwrite_twin(planting, *fed, *one, before[i]);
      }
    }
  };
}

// change(cache) of every copy.
template <typename Change>
void plant_after_fork(const auto& planting, Change change) {
  planting.hooks.fork = [change, &engine = planting.engine](Engine& inner, SequenceId from) {
    const SequenceId copy = inner.fork(from);
    change(engine.cache(copy));
    return copy;
  };
}
template <Scalar T>
void plant_short_copy(const Planting<T>& planting) {
  plant_after_fork(planting, [planting](KvCache<T>& cache) {
    change_rows(planting, cache, cache.length() - 1, cache.length(), clear<T>);
  });
}

template <Scalar T>
void plant_values_not_copied(const Planting<T>& planting) {
  plant_after_fork(planting, [planting](KvCache<T>& cache) {
    change_rows(planting, cache, 0, cache.length(),
                [](StoredRow<T>& row) { std::ranges::fill(row.value, T{0}); });
  });
}

// A copy drifts from then on: by(cache) as it is then.
template <typename By>
void plant_drift_of_copies(const auto& planting, By by) {
  auto drift = plant_drift(planting);
  planting.hooks.fork = [drift, by, &engine = planting.engine](Engine& inner, SequenceId from) {
    const SequenceId copy = inner.fork(from);
    drift->of(copy) = drift->of(from) + by(engine.cache(copy));
    return copy;
  };
}
constexpr Features kAny{};
constexpr Features kLearned{Feature::learned};
constexpr Features kRotary{Feature::rotary};
constexpr Features kPositions{Feature::positions};

constexpr std::array kFaults{
    Fault{"reset-skipped",
          kAfterReset,
          "a reset sets the counters back and leaves the rows to be seen",
          "LocalAI 6747",
          kAny,
          "flat",
          {},
          at_verbs([](const auto& planting) { plant_reset_skipped(planting); })},
    Fault{"truncate-zero-noop",
          kAfterReset,
          "a roll back to no rows does nothing",
          "onnxruntime-genai 2140",
          kAny,
          "flat",
          {},
          at_verbs([](const auto& planting) {
            plant_truncate_to(planting,
                              [](int length, int held) { return length == 0 ? held : length; });
          })},
    Fault{"reset-layer-stale",
          kAfterReset,
          "after a reset the old rows stand where new ones should be written",
          "class of LocalAI 6747",
          {Feature::two_tokens},
          "flat",
          {.layers = true},
          at_verbs([](const auto& planting) { plant_stale(planting, is_reset); })},
    Fault{"reset-pos-kept-learned",
          kAfterReset,
          "a reset leaves the position counter where it is",
          "class of transformers 30042",
          kLearned,
          "flat",
          {},
          at_verbs([](const auto& planting) {
            keep_counter(planting, plant_drift(planting), is_reset);
          })},
    Fault{"reset-pos-kept-rotary",
          kAfterReset,
          "a reset leaves the counter of rotary positions where it is",
          "class of transformers 30042",
          kRotary,
          "flat",
          {},
          at_verbs([](const auto& planting) {
            keep_counter(planting, plant_rotary_drift(planting), is_reset);
          }),
          Expected::equivalent,
          "all rows of the new sequence stand too far by as much, and rotations enter a score as "
          "the difference of two positions only"},
    Fault{"truncate-off-by",
          kAfterTruncate,
          "a roll back keeps a row too many, or one too few",
          "mlxcel 994, llama.cpp 23400",
          kAny,
          "flat",
          {.amounts = {-1, 1}},
          at_verbs([](const auto& planting) { plant_truncate_off(planting); })},
    Fault{"truncate-by-blocks",
          kAfterTruncate,
          "a roll back frees whole blocks only and keeps the rest of the last one",
          "class of mlxcel 994",
          kAny,
          "paged",
          {},
          at_verbs([](const auto& planting) { plant_truncate_by_blocks(planting); })},
    Fault{"eos-row-kept",
          kAfterTruncate,
          "a roll back by the last row alone does nothing",
          "onnxruntime-genai 1814",
          kAny,
          "flat",
          {},
          at_verbs([](const auto& planting) {
            plant_truncate_to(
                planting, [](int length, int held) { return length == held - 1 ? held : length; });
          })},
    Fault{"truncate-keeps-a-layer",
          kAfterTruncate,
          "a layer keeps the rows that are rolled back, and further rows go behind them",
          "omlx 3245, mlx-swift 308",
          {Feature::two_layers},
          "flat",
          {.layers = true},
          at_verbs([](const auto& planting) { plant_kept_layers(planting); })},
    Fault{"truncate-detached",
          kAfterTruncate,
          "after a roll back further rows are written to a copy that nobody reads",
          "transformers 30312",
          kAny,
          "flat",
          {.layers = true},
          at_verbs([](const auto& planting) { plant_stale(planting, is_no_reset); })},
    Fault{"truncate-pos-kept",
          kAfterTruncate,
          "a roll back leaves the position counter where it is",
          "transformers 30042",
          kPositions,
          "flat",
          {},
          at_verbs([](const auto& planting) {
            keep_counter(planting, plant_drift(planting), is_no_reset);
          })},
    Fault{"fork-is-the-original",
          kAfterFork,
          "a copy is another name of the original, which takes what the copy is fed",
          "transformers 37078, MemOS 2301",
          kAny,
          "flat",
          {},
          at_verbs([](const auto& planting) { plant_alias(planting); })},
    Fault{"fork-shares-memory",
          kAfterFork,
          "a copy counts its rows itself and writes them into the original's memory",
          "transformers 37078",
          kAny,
          "flat",
          {.layers = true},
          at_verbs([](const auto& planting) { plant_shared_memory(planting); })},
    Fault{"fork-misses-the-last-row",
          kAfterFork,
          "the last row of the original is not copied",
          "class of llama.cpp 23400",
          kAny,
          "flat",
          {.layers = true},
          at_verbs([](const auto& planting) { plant_short_copy(planting); })},
    Fault{"fork-copies-keys-only",
          kAfterFork,
          "the values of the original are not copied",
          "class of transformers 46612",
          kAny,
          "flat",
          {.layers = true},
          at_verbs([](const auto& planting) { plant_values_not_copied(planting); })},
    Fault{"fork-drops-the-gap",
          kAfterFork,
          "a copy does not know of positions that evicted rows have left free",
          "class of mlx-swift 443",
          kRotary,
          "flat",
          {},
          at_verbs([](const auto& planting) { plant_drift_of_copies(planting, kGapLost); })},
};

}  // namespace

std::span<const Fault> lifecycle_faults() { return kFaults; }

}  // namespace kvcheck
