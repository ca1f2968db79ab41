// SPDX-License-Identifier: MIT
// The config.json of a folder that Hugging Face's transformers wrote, as a configuration.
//
// A table says of every key and family whether it is understood, has no effect on logits, or may
// have some values only. Any other key is an Error that names it: what changes logits must not be
// dropped in silence.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config.h"
#include "engine/stored_tensor.h"

namespace kvcheck {

// Whether the text of a config.json, a JSON object, is transformers' rather than kvcheck's own.
[[nodiscard]] bool is_hf_config(const nlohmann::json& object);

// Decoders that share their names of keys and tensors.
struct HfFamily {
  std::string_view model_type;
  TensorPlaces places;  // names in the files
};

struct HfConfig {
  Config config;
  const HfFamily* family;
};

// A validated configuration; `where` names the file in messages.
[[nodiscard]] HfConfig parse_hf_config(const nlohmann::json& object, std::string_view where);
// The same of a model of any size, with the whole context that it says: for what is not run.
[[nodiscard]] HfConfig parse_hf_shape(const nlohmann::json& object, std::string_view where);

// Every model_type that is read.
[[nodiscard]] std::vector<std::string> hf_model_types();

}  // namespace kvcheck
