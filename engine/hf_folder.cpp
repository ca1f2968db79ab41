// SPDX-License-Identifier: MIT
// Collects the tensors of one file or of several parts.
#include "engine/hf_folder.h"

#include <algorithm>
#include <list>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "engine/echo.h"
#include "engine/error.h"
#include "engine/files.h"
#include "engine/manifest.h"
#include "engine/mapped_file.h"
#include "engine/safetensors.h"
#include "engine/strict_json.h"

namespace kvcheck {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::string_view kWhole = "model.safetensors";
constexpr std::string_view kIndex = "model.safetensors.index.json";

// Tensors in place, and the files that they lie in.
struct Tensors {
  std::list<MappedFile> files;
  std::vector<StoredTensor> stored;
};

void add_file(const fs::path& path, Tensors& tensors) {
  const MappedFile& file = tensors.files.emplace_back(path, kSafetensorsBytesMax);
  std::vector<StoredTensor> more = parse_safetensors(file.bytes(), file.where(), Dtypes::any);
  std::ranges::move(more, std::back_inserter(tensors.stored));
}

// The parts' names; what the index says of tensors must be so. Its metadata is not looked at, as by
// nobody else: files differ in whether "total_size" counts tensors that are shared.
void add_parts(const fs::path& folder, Tensors& tensors) {
  const fs::path path = folder / kIndex;
  const std::string where = path_text(path);
  const Json index = parse_json(read_text(path), where);
  require_object(index, {where, "index"});
  const Json* map = find_key(index, "weight_map");
  if (!map) throw bad_value({where, "weight_map"}, "an object", nullptr);
  require_object(*map, {where, "weight_map"});
  std::set<std::pair<std::string, std::string>> listed;  // part, tensor
  std::set<std::string> parts;
  for (const auto& item : map->items()) {
    const Json& part = item.value();
    if (!part.is_string() || !is_file_name(part.get_ref<const std::string&>())) {
      throw bad_value({where, "weight_map of " + tensor_text(item.key())},
                      "the name of a file in the folder", &part);
    }
    listed.emplace(path_text(folder / part.get<std::string>()), item.key());
    parts.insert(part.get<std::string>());
  }
  for (const std::string& part : parts) add_file(folder / part, tensors);
  for (const StoredTensor& tensor : tensors.stored) {
    if (listed.erase({tensor.where, tensor.name}) == 1) continue;
    throw bad_input({where, tensor_text(tensor.name), "its part " + tensor.where, "none"});
  }
  if (listed.empty()) return;
  throw bad_input({listed.begin()->first, tensor_text(listed.begin()->second),
                   "as " + where + " says", "none"});
}

}  // namespace

Model<float> read_hf_weights(const fs::path& folder, const HfConfig& config) {
  Tensors tensors;
  if (!is_there(folder / kWhole) && is_there(folder / kIndex)) {
    add_parts(folder, tensors);
  } else {
    add_file(folder / kWhole, tensors);
  }
  // A model that was saved without its head has names without a prefix.
  TensorPlaces places = config.family->places;
  const std::string embedding = std::string(places.places.front().source) + ".weight";
  if (std::ranges::find(tensors.stored, embedding, &StoredTensor::name) != tensors.stored.end()) {
    places.prefix = {};
  }
  return assemble(config.config, tensors.stored, places, path_text(folder));
}

}  // namespace kvcheck
