// SPDX-License-Identifier: MIT
// Faults at the seams of the built-in engine: its verbs, its caches, its plans.
#include "verify/test_canaries.h"

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include "engine/builtin.h"
#include "verify/fault_caches.h"
#include "verify/faults.h"
#include "verify/replay.h"
#include "verify/test_faults.h"

namespace kvcheck {
namespace {

// ---- Plans

// Rows of a further feed of several tokens see as many of the oldest rows as if they were the first
// ones.
void align_masks(StepPlan& plan, const FaultStep&) {
  for (SlotView& view : plan.views) {
    SlotView wrong{.first = {0}, .slots = {}, .write = view.write};
    int in_feed = 0;
    for (std::size_t r = 0; r < plan.rows.size(); ++r) {
      const int sequence = plan.rows[r].sequence;
      const auto of_feed = std::ranges::count(plan.rows, sequence, &PlannedRow::sequence);
      in_feed = r > 0 && plan.rows[r - 1].sequence == sequence ? in_feed + 1 : 0;
      std::span<const int> seen = view.of(static_cast<int>(r));
      const auto first = static_cast<std::size_t>(in_feed + 1);
      if (of_feed > 1) seen = seen.first(std::min(seen.size(), first));
      wrong.slots.insert(wrong.slots.end(), seen.begin(), seen.end());
      if (!view.positions.empty()) {
        const std::span<const int> of_keys = view.positions_of(static_cast<int>(r));
        const auto end = of_keys.begin() + static_cast<std::ptrdiff_t>(seen.size());
        wrong.positions.insert(wrong.positions.end(), of_keys.begin(), end);
      }
      wrong.first.push_back(static_cast<int>(wrong.slots.size()));
    }
    view = std::move(wrong);
  }
}

// A ring takes the slot of its oldest row but one for the next row: it holds one row less. Rows of
// a ring lie at their own positions.
template <Scalar T>
void plant_early_wrap(const Planting<T>& planting) {
  planting.engine.rewrite_plans([config = planting.config](StepPlan& plan, PlannedFeeds) {
    for (int l = 0; l < config.layers; ++l) {
      const int ring = config.windows[static_cast<std::size_t>(l)];
      SlotView& view =
          plan.views[static_cast<std::size_t>(plan.view_of_layer[static_cast<std::size_t>(l)])];
      if (ring < 2 || view.write.empty()) continue;
      for (std::size_t r = 0; r < plan.rows.size(); ++r) {
        const int row = plan.rows[r].position;
        view.write[r] = row % (ring - 1);
        const int end = view.first[r + 1];
        for (int i = view.first[r]; i < end; ++i) {
          view.slots[static_cast<std::size_t>(i)] = (row - (end - 1 - i)) % (ring - 1);
        }
      }
    }
  });
}

// ---- Wrong answers about the reuse of blocks

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

// Canaries that are faults of the table. Layer 1, which has no window, keeps what layer 0 forgets.
constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kOfTable{{
    {"truncate-keeps-a-layer", "truncate-keeps-a-layer:layer1"},
    {"reorder-ignored", "reorder-ignored"},
    {"load-one-row-short", "load-one-row-short"},
    {"growth-forgets-a-layer", "growth-forgets-a-layer:layer1"},
    {"chunk-in-one-position", "pos-multi-constant"},
    {"fork-is-the-original", "fork-is-the-original"},
    {"shift-rotates-a-layer-less", "shift-positions-only:layer1"},
    {"evict-one-row-late", "evict-one-row-late"},
}};

// And those that are not.
constexpr Fault own(std::string_view id, std::string_view cache,
                    std::variant<PlanFault, SiteFault, VerbFault> change) {
  constexpr std::string_view kNone = "a canary";
  return {id, kNone, kNone, kNone, {}, cache, {}, change};
}
constexpr std::array kOwn{
    own("ring-wraps-early", "ring",
        at_verbs([](const auto& planting) { plant_early_wrap(planting); })),
    own("chunk-sees-the-oldest", "flat", PlanFault{align_masks}),
    own("fork-shares-the-last-block", "paged",
        at_verbs([](const auto& p) { p.engine.reuse_rules(shared_when_unfilled()); })),
    own("blocks-known-by-their-own-tokens", "paged",
        at_verbs([](const auto& p) { p.engine.reuse_rules(known_by_own_tokens()); })),
    own("blocks-known-by-few-bits", "paged",
        at_verbs([](const auto& p) { p.engine.reuse_rules(known_by_few_bits()); })),
    own("blocks-known-before-full", "paged",
        at_verbs([](const auto& p) { p.engine.reuse_rules(known_before_full()); })),
    own("blocks-in-the-order-of-memory", "paged",
        at_verbs([](const auto& p) { p.engine.reuse_rules(taken_in_the_order_of_memory()); })),
    own("prompt-goes-on-in-the-next-block", "paged",
        at_verbs([](const auto& p) { p.engine.reuse_rules(going_on_in_the_next_block()); })),
    own("block-numbers-of-two-bits", "paged",
        at_verbs([](const auto& p) { p.engine.reuse_rules(numbers_of_two_bits()); })),
    own("block-free-while-held", "paged",
        at_verbs([](const auto& p) { p.engine.reuse_rules(free_while_held()); })),
    own("block-found-when-taken", "paged",
        at_verbs([](const auto& p) { p.engine.reuse_rules(found_when_taken()); })),
    own("prompt-taken-whole", "paged",
        at_verbs([](const auto& p) { p.engine.reuse_rules(all_taken()); })),
};

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
  std::vector<Canary> all;
  const auto add = [&](std::string_view id, const FaultVariant& variant) {
    all.push_back({id, cache_kind(variant.fault->cache, "canary"),
                   faulty_engine(variant, std::make_shared<FaultTrace>(), tells)});
  };
  for (const auto& [id, fault] : kOfTable) add(id, parse_fault(fault, "canary"));
  for (const Fault& fault : kOwn) add(fault.id, {&fault, {}});
  return all;
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
