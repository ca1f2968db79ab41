// SPDX-License-Identifier: MIT
// Faults at the seams of the built-in engine: its verbs, its caches, its plans.
#include "verify/test_canaries.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
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

// The rows of a prompt's blocks are taken from wherever the same tokens were fed to a new sequence,
// whatever stood before them.
template <Scalar T>
class BlocksByOwnTokens {
 public:
  explicit BlocksByOwnTokens(Builtin<T>& engine) : engine_(engine) {}

  void feed(Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
    std::vector<bool> is_new;
    for (const Feed& feed : feeds) is_new.push_back(engine_.cache(feed.sequence).length() == 0);
    if (feeds.size() == 1 && rows == Rows::last && is_new[0]) {
      prompt(inner, feeds[0], out);
    } else {
      inner.batch(feeds, rows, out);
    }
    for (std::size_t i = 0; i < feeds.size(); ++i) {
      if (is_new[i]) remember(feeds[i]);
    }
  }

 private:
  void prompt(Engine& inner, const Feed& feed, Logits& out) {
    std::size_t known = 0;
    while (known + kBlock < feed.tokens.size() && blocks_.contains(block(feed, known))) {
      known += kBlock;
    }
    if (known > 0) {
      inner.feed(feed.sequence, feed.tokens.first(known), Rows::last, out);
      for (std::size_t first = 0; first < known; first += kBlock) {
        auto row = blocks_.at(block(feed, first)).begin();
        each_row(feed, first, [&](T* to) { std::ranges::copy(*row++, to); });
      }
    }
    inner.feed(feed.sequence, feed.tokens.subspan(known), Rows::last, out);
  }

  void remember(const Feed& feed) {
    for (std::size_t first = 0; first + kBlock <= feed.tokens.size(); first += kBlock) {
      std::vector<std::vector<T>> rows;
      const std::ptrdiff_t stride = engine_.cache(feed.sequence).slot_stride();
      each_row(feed, first, [&](const T* row) { rows.emplace_back(row, row + stride); });
      blocks_.emplace(block(feed, first), std::move(rows));
    }
  }

  template <typename Visit>
  void each_row(const Feed& feed, std::size_t first, Visit visit) {
    KvCache<T>& cache = engine_.cache(feed.sequence);
    for (int l = 0; l < cache.store().layers(); ++l) {
      for (std::size_t slot = first; slot < first + kBlock; ++slot) {
        visit(cache.key(l, static_cast<int>(slot)));
        visit(cache.value(l, static_cast<int>(slot)));
      }
    }
  }

  static std::vector<int> block(const Feed& feed, std::size_t first) {
    const auto tokens = feed.tokens.subspan(first, kBlock);
    return {tokens.begin(), tokens.end()};
  }

  static constexpr std::size_t kBlock = 2;
  Builtin<T>& engine_;
  std::map<std::vector<int>, std::vector<std::vector<T>>> blocks_;
};

template <Scalar T>
void plant_blocks_by_own_tokens(const Planting<T>& planting) {
  auto blocks = std::make_shared<BlocksByOwnTokens<T>>(planting.engine);
  planting.hooks.feed = [blocks](Engine& inner, std::span<const Feed> feeds, Rows rows,
                                 Logits& out) { blocks->feed(inner, feeds, rows, out); };
}

// Canaries that are faults of the table. Layer 1, which has no window, keeps what layer 0 forgets.
constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kOfTable{{
    {"truncate-keeps-a-layer", "truncate-keeps-a-layer:layer1"},
    {"fork-shares-the-last-block", "fork-shares-the-last-block"},
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
    own("blocks-known-by-their-own-tokens", "flat",
        at_verbs([](const auto& planting) { plant_blocks_by_own_tokens(planting); })),
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
