// SPDX-License-Identifier: MIT
// Counting bytes.
#include "verify/held_bytes.h"

#include <algorithm>

#include "engine/row_format.h"

namespace kvcheck {

std::int64_t held_bytes(const Config& config, const EngineSetup& setup, int rows) {
  const bool narrow = setup.scalar == ScalarKind::f32;
  const std::int64_t row = narrow ? row_bytes<float>(setup.cache.format, config.kv_width())
                                  : row_bytes<double>(setup.cache.format, config.kv_width());
  std::int64_t all = 0;
  for (const int window : config.windows) {
    const bool ring = setup.cache.layout == CacheLayout::ring && window > 0;
    all += ring ? std::min(rows, window) : rows;
  }
  return 2 * all * row;
}

}  // namespace kvcheck
