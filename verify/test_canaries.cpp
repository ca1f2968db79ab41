// SPDX-License-Identifier: MIT
// Faults at the seams of the built-in engine: its verbs, its caches, its plans.
#include "verify/test_canaries.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include "engine/builtin.h"
#include "verify/faults.h"
#include "verify/replay.h"
#include "verify/test_faults.h"

namespace kvcheck {
namespace {

template <Scalar T, typename Plant>
std::unique_ptr<Engine> planted(const ModelData& model, const EngineSetup& setup, Tells tells,
                                Plant plant) {
  auto builtin = std::make_unique<Builtin<T>>(model.weights, setup.arithmetic, setup.cache);
  Builtin<T>& engine = *builtin;
  Hooks hooks;
  plant(Planting<T>{
      engine, model.weights.config, setup.cache, {}, hooks, std::make_shared<FaultTrace>()});
  if (tells == Tells::logits) {
    hooks.can = [](Capabilities& can) { can.fingerprint = false; };
    hooks.held = [&engine](const Engine&, SequenceId sequence) {
      const KvCache<T>& cache = engine.cache(sequence);
      return Held{cache.length(), cache.next_position(), cache.bytes(cache.length())};
    };
  }
  return std::make_unique<HookedEngine>(std::move(builtin), std::move(hooks));
}

template <typename Plant>
EngineFactory planting(Tells tells, Plant plant) {
  return [=](const ModelData& model, const EngineSetup& setup) {
    return setup.scalar == ScalarKind::f32 ? planted<float>(model, setup, tells, plant)
                                           : planted<double>(model, setup, tells, plant);
  };
}

// The layer without a window that comes last, which keeps what others forget.
int last_layer(const Config& config) { return config.layers - 1; }

// ---- A roll back forgets the rows of all layers but one: there the next rows go behind them, and
// are not seen while the old ones are.

template <Scalar T>
struct KeptRows {
  std::map<const KvCache<T>*, int> rows;  // too many in the layer
  std::vector<const KvCache<T>*> fed;     // [feeds] of the step at hand
};

template <Scalar T>
void keep_rows(KvCache<T>& cache, int layer, int length, KeptRows<T>& kept,
               const std::function<void()>& truncate) {
  const int before = cache.length();
  const int end = std::min(before + kept.rows[&cache], cache.capacity());
  std::vector<std::vector<T>> rows;
  for (int slot = length; slot < end; ++slot) {
    rows.emplace_back(cache.key(layer, slot), cache.key(layer, slot) + cache.slot_stride());
    rows.emplace_back(cache.value(layer, slot), cache.value(layer, slot) + cache.slot_stride());
  }
  truncate();
  for (int slot = length; slot < end; ++slot) {
    const auto at = static_cast<std::size_t>(2 * (slot - length));
    std::ranges::copy(rows[at], cache.key(layer, slot));
    std::ranges::copy(rows[at + 1], cache.value(layer, slot));
  }
  kept.rows[&cache] = end - length;
}

template <Scalar T>
void plant_kept_layer(const Planting<T>& planting) {
  auto kept = std::make_shared<KeptRows<T>>();
  Builtin<T>& engine = planting.engine;
  const int layer = last_layer(planting.config);
  planting.hooks.truncate = [&engine, kept, layer](Engine& inner, SequenceId sequence, int length) {
    if (length == 0) return inner.truncate(sequence, 0);  // as a new sequence
    keep_rows<T>(engine.cache(sequence), layer, length, *kept,
                 [&] { inner.truncate(sequence, length); });
  };
  planting.hooks.feed = [&engine, kept](Engine& inner, std::span<const Feed> feeds, Rows rows,
                                        Logits& out) {
    kept->fed.clear();
    for (const Feed& feed : feeds) {
      kept->fed.push_back(&engine.cache(feed.sequence));
      if (kept->fed.back()->length() == 0) kept->rows.erase(kept->fed.back());
    }
    inner.batch(feeds, rows, out);
  };
  engine.rewrite_plans(
      [kept, layer, context = planting.config.context](StepPlan& plan, PlannedFeeds) {
        int& of_layer = plan.view_of_layer[static_cast<std::size_t>(layer)];
        SlotView view = plan.views[static_cast<std::size_t>(of_layer)];
        view.write.clear();
        for (const PlannedRow& row : plan.rows) {
          const int behind = kept->rows[kept->fed[static_cast<std::size_t>(row.sequence)]];
          view.write.push_back(std::min(row.slot + behind, context - 1));
        }
        of_layer = static_cast<int>(plan.views.size());
        plan.views.push_back(std::move(view));
      });
}

// ---- Plans, as the table of faults has them

template <Scalar T>
void plant_plan(const Planting<T>& planting, std::string_view id) {
  const auto fault = std::get<PlanFault>(find_fault(id, "canary").change);
  planting.engine.rewrite_plans([fault, config = planting.config, cache = planting.cache,
                                 at = planting.at](StepPlan& plan, PlannedFeeds feeds) {
    fault(plan, FaultStep{config, cache, at, feeds, plan});
  });
}

// ---- Others

// A copy is another name of the original: what is fed to it, the original takes as well.
template <Scalar T>
void plant_alias(const Planting<T>& planting) {
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
  planting.hooks.feed = [originals](Engine& inner, std::span<const Feed> feeds, Rows rows,
                                    Logits& out) {
    inner.batch(feeds, rows, out);
    Logits unwanted;
    for (const Feed& feed : feeds) {
      const auto original = originals->find(feed.sequence);
      if (original == originals->end()) continue;
      inner.feed(original->second, feed.tokens, Rows::last, unwanted);
    }
  };
}

template <Scalar T>
void plant_ignored_reorder(const Planting<T>& planting) {
  planting.hooks.reorder = [](Engine&, std::span<const SequenceId>, std::span<const int>) {};
}

// The values of the last row are not read.
template <Scalar T>
void plant_short_load(const Planting<T>& planting) {
  Builtin<T>& engine = planting.engine;
  planting.hooks.load = [&engine](Engine& inner, std::span<const std::byte> state) {
    const SequenceId sequence = inner.load(state);
    KvCache<T>& cache = engine.cache(sequence);
    const int last = cache.length() - 1;
    for (int l = 0; l < cache.store().layers() && last >= 0; ++l) {
      std::fill_n(cache.value(l, cache.slot(l, last)), cache.slot_stride(), T{0});
    }
    return sequence;
  };
}

// The keys of a layer move up as they are, rotated for where they were.
template <Scalar T>
void plant_layer_not_rotated(const Planting<T>& planting) {
  Builtin<T>& engine = planting.engine;
  const int layer = last_layer(planting.config);
  planting.hooks.shift = [&engine, layer](Engine& inner, SequenceId sequence, int from, int to) {
    KvCache<T>& cache = engine.cache(sequence);
    std::vector<std::vector<T>> keys;
    for (int slot = to; slot < cache.length(); ++slot) {
      keys.emplace_back(cache.key(layer, slot), cache.key(layer, slot) + cache.slot_stride());
    }
    inner.shift(sequence, from, to);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      std::ranges::copy(keys[i], cache.key(layer, from + static_cast<int>(i)));
    }
  };
}

// The rows behind those that should go, where there are any.
template <Scalar T>
void plant_wrong_rows_evicted(const Planting<T>& planting) {
  planting.hooks.evict = [](Engine& inner, SequenceId sequence, int keep, int drop) {
    const bool some = keep + 1 + drop <= inner.held(sequence).rows;
    inner.evict(sequence, some ? keep + 1 : keep, drop);
  };
}

// What a layer held is not taken into the larger memory.
template <Scalar T>
void plant_layer_lost_in_growth(const Planting<T>& planting) {
  Builtin<T>& engine = planting.engine;
  const int layer = last_layer(planting.config);
  planting.hooks.feed = [&engine, layer](Engine& inner, std::span<const Feed> feeds, Rows rows,
                                         Logits& out) {
    for (const Feed& feed : feeds) {
      KvCache<T>& cache = engine.cache(feed.sequence);
      if (cache.length() + static_cast<int>(feed.tokens.size()) <= cache.capacity()) continue;
      for (int slot = 0; slot < cache.length(); ++slot) {
        std::fill_n(cache.key(layer, slot), cache.slot_stride(), T{0});
        std::fill_n(cache.value(layer, slot), cache.slot_stride(), T{0});
      }
    }
    inner.batch(feeds, rows, out);
  };
}

// ---- Wrong answers about the reuse of blocks

struct WrongRules {
  std::string_view id;
  ReuseRules rules;
};

ReuseRules known_by_few_bits() {
  ReuseRules rules;
  rules.key = [](std::uint64_t parent, std::span<const int> tokens) {
    return key_of_block(parent, tokens) & 1U;
  };
  rules.compared = Compared::nothing;
  return rules;
}

ReuseRules known_by_own_tokens() {
  ReuseRules rules;
  rules.key = [](std::uint64_t, std::span<const int> tokens) { return key_of_block(0, tokens); };
  rules.compared = Compared::tokens;
  return rules;
}

ReuseRules known_before_full() {
  ReuseRules rules;
  rules.remembered_from = 1;
  return rules;
}

ReuseRules taken_in_the_order_of_memory() {
  ReuseRules rules;
  rules.taken = [](std::vector<int> known) {
    std::iota(known.begin(), known.end(), 0);
    return known;
  };
  return rules;
}

// A prompt takes one row less, and goes on behind the block that this leaves unfilled.
ReuseRules going_on_in_the_next_block() {
  ReuseRules rules;
  rules.provided = [](const Hit& hit) { return std::max(rows_provided(hit) - 1, 0); };
  rules.place = [](const FedRow& fed) {
    const int unfilled = (fed.block - fed.reused % fed.block) % fed.block;
    return fed.row + unfilled;
  };
  return rules;
}

ReuseRules numbers_of_two_bits() {
  ReuseRules rules;
  rules.stored = [](int block) { return block & 3; };
  return rules;
}

ReuseRules shared_when_unfilled() {
  ReuseRules rules;
  rules.copies_unfilled = false;
  return rules;
}

ReuseRules free_while_held() {
  ReuseRules rules;
  rules.free_at = 1;
  return rules;
}

ReuseRules found_when_taken() {
  ReuseRules rules;
  rules.forgets_taken = false;
  return rules;
}

ReuseRules all_taken() {
  ReuseRules rules;
  rules.provided = [](const Hit& hit) { return hit.known; };
  return rules;
}

std::vector<WrongRules> wrong_rules() {
  return {
      {"fork-shares-the-last-block", shared_when_unfilled()},
      {"blocks-known-by-their-own-tokens", known_by_own_tokens()},
      {"blocks-known-by-few-bits", known_by_few_bits()},
      {"blocks-known-before-full", known_before_full()},
      {"blocks-in-the-order-of-memory", taken_in_the_order_of_memory()},
      {"prompt-goes-on-in-the-next-block", going_on_in_the_next_block()},
      {"block-numbers-of-two-bits", numbers_of_two_bits()},
      {"block-free-while-held", free_while_held()},
      {"block-found-when-taken", found_when_taken()},
      {"prompt-taken-whole", all_taken()},
  };
}

}  // namespace

ModelData two_window_model() {
  Config config = small_config();
  config.vocabulary = 13;
  config.kv_heads = 1;
  config.mlp_width = 8;
  config.context = 16;
  config.positions = Positions::rotary;
  config.windows = {4, 0};
  return model_of("two-windows", random_model(config, {}, 3));
}

std::vector<Canary> canaries(Tells tells) {
  std::vector<Canary> found{
      {"truncate-keeps-a-layer", {}, planting(tells, [](const auto& p) { plant_kept_layer(p); })},
      {"reorder-ignored", {}, planting(tells, [](const auto& p) { plant_ignored_reorder(p); })},
      {"ring-wraps-early",
       {.layout = CacheLayout::ring},
       planting(tells, [](const auto& p) { plant_plan(p, "ring-wraps-early"); })},
      {"load-one-row-short", {}, planting(tells, [](const auto& p) { plant_short_load(p); })},
      {"growth-forgets-a-layer",
       {.layout = CacheLayout::growing},
       planting(tells, [](const auto& p) { plant_layer_lost_in_growth(p); })},
      {"chunk-sees-the-oldest",
       {},
       planting(tells, [](const auto& p) { plant_plan(p, "mask-upper-left-chunk"); })},
      {"chunk-in-one-position",
       {},
       planting(tells, [](const auto& p) { plant_plan(p, "pos-multi-constant"); })},
      {"fork-is-the-original", {}, planting(tells, [](const auto& p) { plant_alias(p); })},
      {"shift-rotates-a-layer-less",
       {},
       planting(tells, [](const auto& p) { plant_layer_not_rotated(p); })},
      {"evict-one-row-late",
       {},
       planting(tells, [](const auto& p) { plant_wrong_rows_evicted(p); })},
  };
  for (const WrongRules& wrong : wrong_rules()) {
    found.push_back(
        {wrong.id,
         {.layout = CacheLayout::paged, .block = kBlockRows},
         planting(tells, [rules = wrong.rules](const auto& p) { p.engine.reuse_rules(rules); })});
  }
  return found;
}

Canary canary(std::string_view id, Tells tells) {
  for (Canary& found : canaries(tells)) {
    if (found.id == id) return std::move(found);
  }
  throw std::out_of_range("no such canary: " + std::string(id));
}

std::vector<CacheKind> all_cache_kinds() {
  std::vector<CacheKind> kinds = cache_kinds();
  kinds.push_back({.layout = CacheLayout::paged, .block = 16});
  return kinds;
}

Case operations_case(const ModelData& model, const CacheKind& cache, std::string_view operations,
                     Arithmetic arithmetic) {
  const bool row = arithmetic == Arithmetic::row;
  return {.check = std::string(kOperationsCheck),
          .model = model.name,
          .model_hash = short_hash(model),
          .arithmetic = arithmetic,
          .cache_kind = cache,
          .policy = row ? Policy{Exact{}} : Policy{NoiseLimit{}},
          .tokens = {},
          .schedule = {},
          .operations = parse_operations(operations, "test")};
}

OperationRunner runner_of(const Case& subject, const ModelData& model,
                          const EngineFactory& factory) {
  return {model,
          {subject.scalar, subject.arithmetic, subject.cache_kind},
          subject.policy,
          subject.seed,
          factory};
}

}  // namespace kvcheck
