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
  std::string model_type;
  Config shape;  // of a size that validate() would refuse
};

// Of a .json file, or of a folder that holds a config.json with a "model_type" and no weights; else
// none. Throws Error for what hf_config.h does not take.
[[nodiscard]] std::optional<PublishedConfig> read_published_config(
    const std::filesystem::path& path);

}  // namespace kvcheck
