// SPDX-License-Identifier: MIT
// What a sequence holds, against what it must: as the engine says it and, of the built-in engine,
// as it lies in the caches of its layers.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "verify/facts.h"
#include "verify/probes.h"

namespace kvcheck {

// What a sequence must hold.
struct Holding {
  std::span<const int> positions;  // [rows]: of the rows, oldest first
  int next_position = 0;
  int peak = 0;  // most rows since it held none: what rings have overwritten
};

// `when` is asked for words where something is wrong. Throws EngineError, which is counted, where
// the engine finds its memory overwritten.
void expect_held(Engine& engine, SequenceId sequence, const Config& config,
                 const EngineSetup& setup, const Holding& holding,
                 const std::function<std::string()>& when, Facts& facts);

}  // namespace kvcheck
