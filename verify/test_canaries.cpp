// SPDX-License-Identifier: MIT
// Faults of the table, by the names that the tests of operations know them by.
#include "verify/test_canaries.h"

#include <array>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "verify/faults.h"
#include "verify/replay.h"
#include "verify/test_faults.h"

namespace kvcheck {
namespace {

// Layer 1, which has no window, keeps what layer 0 forgets.
constexpr std::array<std::pair<std::string_view, std::string_view>, 20> kOfTable{{
    {"truncate-keeps-a-layer", "truncate-keeps-a-layer:layer1"},
    {"reorder-ignored", "reorder-ignored"},
    {"load-one-row-short", "load-one-row-short"},
    {"growth-forgets-a-layer", "growth-forgets-a-layer:layer1"},
    {"chunk-in-one-position", "pos-multi-constant"},
    {"chunk-sees-the-oldest", "mask-upper-left-chunk"},
    {"ring-wraps-early", "ring-wraps-early"},
    {"fork-is-the-original", "fork-is-the-original"},
    {"shift-rotates-a-layer-less", "shift-positions-only:layer1"},
    {"evict-one-row-late", "evict-one-row-late"},
    {"fork-shares-the-last-block", "fork-tail-shared"},
    {"blocks-known-by-their-own-tokens", "hash-no-parent"},
    {"blocks-known-by-few-bits", "hash-truncated"},
    {"blocks-known-before-full", "register-partial"},
    {"blocks-in-the-order-of-memory", "page-identity-on-hit"},
    {"prompt-goes-on-in-the-next-block", "page-slot-by-block"},
    {"block-numbers-of-two-bits", "page-id-narrow"},
    {"block-free-while-held", "free-while-shared"},
    {"block-found-when-taken", "lookup-then-evict"},
    {"prompt-taken-whole", "full-hit-zero-tokens"},
}};

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
