// SPDX-License-Identifier: MIT
// Counting bytes.
#include "verify/held_bytes.h"

#include "engine/cost.h"

namespace kvcheck {

std::int64_t held_bytes(const Config& config, const EngineSetup& setup, int rows) {
  const int number = setup.scalar == ScalarKind::f32 ? sizeof(float) : sizeof(double);
  const CacheBytes bytes = cache_kind_bytes(config, setup.cache, rows, number);
  return bytes.held.value();
}

}  // namespace kvcheck
