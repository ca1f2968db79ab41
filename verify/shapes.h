// SPDX-License-Identifier: MIT
// The shapes of every tensor of every step of a generation, as the decoders compute them.
#pragma once

#include <span>
#include <vector>

#include "engine/site.h"
#include "verify/probes.h"

namespace kvcheck {

// [rows, columns] of a named tensor. Sites of one query row come once for each of them: from the
// smallest to the largest, and how many.
struct SiteShape {
  Site site;
  int layer;  // -1 outside the layers
  int tensors = 0;
  int rows_min = 0, rows_max = 0;
  int columns_min = 0, columns_max = 0;

  bool operator==(const SiteShape&) const = default;
};

// In the order in which they are computed.
using StepShapes = std::vector<SiteShape>;

// "[2, 4]", "3 x [2, 1 to 3]"
[[nodiscard]] std::string to_text(const SiteShape& shape);

// Notes the shapes of every step that the engine's cached decoder takes from now on; a step begins
// with its embedding. `steps` must outlive the engine. Throws Error unless the built-in engine is
// inside.
void record_shapes(Engine& engine, ScalarKind scalar, std::vector<StepShapes>& steps);

// Of the forward of these tokens without a cache that answers their last row.
[[nodiscard]] StepShapes uncached_shapes(const ModelData& model, const EngineSetup& setup,
                                         std::span<const int> tokens);

}  // namespace kvcheck
