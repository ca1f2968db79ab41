// SPDX-License-Identifier: MIT
// What a model's makers promise about it, the manifest.json of a model folder.
//
//   "contract":  {"abs": 1e-5}                largest difference that the cache may make
//   "published": {"max_abs_difference": 3e-6, "source": "where it is published"}
//   "files":     {"model.safetensors": "<SHA-256, 64 lower-case hex digits>", ...}
//
// All three may be absent. Other keys, such as training settings, are for people.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace kvcheck {

// A difference between cached and uncached logits that somebody reported for this model.
struct Published {
  double max_abs_difference = 0.0;
  std::string source;

  bool operator==(const Published&) const = default;
};

struct Manifest {
  std::optional<double> contract_abs;
  std::optional<Published> published;
  std::map<std::string, std::string> files;  // name in the folder -> SHA-256
};

// A plain name: a list of files in a folder has no business outside of it.
[[nodiscard]] bool is_file_name(std::string_view name);

[[nodiscard]] Manifest parse_manifest(std::string_view text, std::string_view where);

}  // namespace kvcheck
