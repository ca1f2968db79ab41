// SPDX-License-Identifier: MIT
// The engine that a case was run on.
#include "verify/planted.h"

#include <fmt/format.h>

#include "engine/echo.h"
#include "engine/error.h"
#include "verify/faults.h"

namespace kvcheck {

void require_plantable(const FaultVariant& variant, const ModelData& model, const CacheKind& cache,
                       std::string_view where) {
  const Fault& fault = *variant.fault;
  const Config& config = model.weights.config;
  const std::string what = fmt::format("{} on {}", to_text(variant), one_line(model.name));
  if (!fault.applies(config, cache)) {
    throw bad_input({where, what,
                     fmt::format("a model with: {}; cache {}", to_text(fault.needs), fault.cache),
                     fmt::format("{}; cache {}", to_text(features_of(config)), name(cache))});
  }
  if (variant.at.layer && *variant.at.layer >= config.layers) {
    throw bad_input({where, what, fmt::format("a layer from 0 to {}", config.layers - 1),
                     fmt::format("{}", *variant.at.layer)});
  }
}

EngineFactory engine_of(const Case& subject, const ModelData& model,
                        const std::shared_ptr<FaultTrace>& trace, std::string_view where) {
  if (subject.fault.empty()) return builtin_engine;
  const FaultVariant variant = parse_fault(subject.fault, where);
  require_plantable(variant, model, subject.cache_kind, where);
  return faulty_engine(variant, trace);
}

}  // namespace kvcheck
