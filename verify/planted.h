// SPDX-License-Identifier: MIT
// The engine that a case was run on: the built-in one, with the case's fault planted if it has one.
#pragma once

#include <memory>
#include <string_view>

#include "verify/case.h"
#include "verify/fault.h"

namespace kvcheck {

// Throws Error naming `where` unless the fault can be planted in this model with this kind of
// cache.
void require_plantable(const FaultVariant& variant, const ModelData& model, const CacheKind& cache,
                       std::string_view where);

// What the fault changes is counted by `trace`. Throws Error naming `where` for a fault that cannot
// be planted there.
[[nodiscard]] EngineFactory engine_of(const Case& subject, const ModelData& model,
                                      const std::shared_ptr<FaultTrace>& trace,
                                      std::string_view where);

}  // namespace kvcheck
