// SPDX-License-Identifier: MIT
// How other projects test that a cache changes nothing: their assertions, run on the same engines
// as kvcheck's own checks, so that a reader sees what each style of test misses.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "verify/fault.h"

namespace kvcheck {

// What a replica is run on.
struct ReplicaBench {
  const ModelData& model;
  std::uint64_t seed;  // of the tokens and places that are drawn
  std::unique_ptr<Engine> engine;
  // What the cached decoder has had at Site::embedding so far, row after row.
  std::shared_ptr<std::vector<double>> embedded = std::make_shared<std::vector<double>>();
};

struct Replica {
  std::string_view id;
  std::string_view summary;     // what is compared, in one line
  std::string_view stands_for;  // whose test it is
  // Whether the test passes. Throws what the engine throws.
  bool (*passes)(ReplicaBench& bench);
};

[[nodiscard]] std::span<const Replica> replicas();

// float32 in whole-matrix products, as the projects compute. Throws EngineError for an engine that
// does not start.
[[nodiscard]] ReplicaBench make_replica_bench(const ModelData& model, const CacheKind& cache,
                                              std::uint64_t seed, const FaultVariant& variant,
                                              const std::shared_ptr<FaultTrace>& trace);

struct ReplicaResult {
  bool passed = false;
  std::string note = {};  // what the engine threw: a test that ends so has failed
};
[[nodiscard]] ReplicaResult run_replica(const Replica& replica, ReplicaBench& bench);

}  // namespace kvcheck
