// SPDX-License-Identifier: MIT
// The shape of a published model from its config.json in Hugging Face's form, without weights: what
// cost.h needs, and no more. Such a shape is not run.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "engine/config.h"

namespace kvcheck {

struct PublishedConfig {
  std::string model_type;  // llama, mistral, qwen2 or gemma2
  Config shape;            // of a size that validate() would refuse
};

// Of a folder that holds a config.json, or of such a file, if that has a "model_type"; else none.
// Throws Error naming the file and the field for another model_type than those four, and for a
// field that is missing or no good. Fields that say nothing about a shape are not looked at.
[[nodiscard]] std::optional<PublishedConfig> read_published_config(
    const std::filesystem::path& path);

}  // namespace kvcheck
