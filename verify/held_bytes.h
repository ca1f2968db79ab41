// SPDX-License-Identifier: MIT
// The bytes that a sequence must say it holds.
#pragma once

#include <cstdint>

#include "engine/config.h"
#include "verify/probes.h"

namespace kvcheck {

// Of `rows` rows, keys and values of every layer, by the configuration and the kind of cache alone.
[[nodiscard]] std::int64_t held_bytes(const Config& config, const EngineSetup& setup, int rows);

}  // namespace kvcheck
