// SPDX-License-Identifier: MIT
// Models on which every engine agrees with every other one.
#pragma once

#include "engine/model_file.h"

namespace kvcheck {

// Whether all logits of all rows of a forward of some tokens are the same number: then nothing that
// a cache does can show.
[[nodiscard]] bool is_blank(const ModelData& model);

}  // namespace kvcheck
