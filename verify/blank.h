// SPDX-License-Identifier: MIT
// Models on which every engine agrees with every other one.
#pragma once

#include "engine/model_file.h"

namespace kvcheck {

// Whether all logits of a row are the same number, in each row of a forward of some tokens: then
// nothing that a cache does can show.
[[nodiscard]] bool is_blank(const ModelData& model);

}  // namespace kvcheck
