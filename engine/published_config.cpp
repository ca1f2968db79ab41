// SPDX-License-Identifier: MIT
// Finds a published configuration.
#include "engine/published_config.h"

#include <nlohmann/json.hpp>

#include "engine/echo.h"
#include "engine/files.h"
#include "engine/hf_config.h"
#include "engine/strict_json.h"

namespace kvcheck {

namespace fs = std::filesystem;

std::optional<PublishedConfig> read_published_config(const fs::path& path) {
  std::error_code unknown;
  const bool folder = fs::is_directory(path, unknown);
  const fs::path file = folder ? path / "config.json" : path;
  if (!folder && path.extension() != ".json") return std::nullopt;
  // A folder with weights is a model, and read as one.
  for (const char* weights : {"model.safetensors", "model.safetensors.index.json"}) {
    if (folder && fs::exists(path / weights, unknown)) return std::nullopt;
  }
  if (!fs::is_regular_file(file, unknown)) return std::nullopt;
  const std::string where = path_text(file);
  const nlohmann::json object = parse_json(read_text(file), where);
  require_object(object, {where, "configuration"});
  if (folder && !is_hf_config(object)) return std::nullopt;
  const HfConfig parsed = parse_hf_shape(object, where);
  return PublishedConfig{std::string(parsed.family->model_type), parsed.config};
}

}  // namespace kvcheck
