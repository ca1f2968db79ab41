// SPDX-License-Identifier: MIT
// Engines whose faults only operations on caches bring to light, for the tests of the check that
// must find them; and the model that they are tried on.
#pragma once

#include <string_view>
#include <vector>

#include "verify/case.h"
#include "verify/fault.h"
#include "verify/operation_run.h"
#include "verify/probes.h"

namespace kvcheck {

// Rotary positions, context 16; layer 0 sees a window of 4, layer 1 everything.
[[nodiscard]] ModelData two_window_model();

struct Canary {
  std::string_view id;
  CacheKind cache;  // that it is planted in
  EngineFactory factory;
};
[[nodiscard]] std::vector<Canary> canaries(Tells tells);
// Throws std::out_of_range if there is none of this name.
[[nodiscard]] Canary canary(std::string_view id, Tells tells);

// Every kind of cache, and one with blocks as long as a context.
[[nodiscard]] std::vector<CacheKind> all_cache_kinds();
// These operations, in this kind of cache; row arithmetic to the last bit, or whole matrices within
// the noise.
[[nodiscard]] Case operations_case(const ModelData& model, const CacheKind& cache,
                                   std::string_view operations,
                                   Arithmetic arithmetic = Arithmetic::row);
[[nodiscard]] OperationRunner runner_of(const Case& subject, const ModelData& model,
                                        const EngineFactory& factory);

}  // namespace kvcheck
