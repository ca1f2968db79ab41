// SPDX-License-Identifier: MIT
// The weights of a folder as Hugging Face's transformers writes it: model.safetensors, or parts
// that model.safetensors.index.json lists.
#pragma once

#include <filesystem>

#include "engine/hf_config.h"
#include "engine/model.h"

namespace kvcheck {

// Throws Error at anything wrong with any of the files.
[[nodiscard]] Model<float> read_hf_weights(const std::filesystem::path& folder,
                                           const HfConfig& config);

}  // namespace kvcheck
