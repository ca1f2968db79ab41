// SPDX-License-Identifier: MIT
// Models in files: folders, of which kvcheck's own are read and written, and GGUF files.
//
//   config.json        the configuration, see config_json.h
//   model.safetensors  the weights, see safetensors.h: names and shapes as tensor_shapes() lists
//                      them, matrices [in, out] row by row
// or a config.json and weights as Hugging Face's transformers writes them (hf_config.h,
// hf_folder.h) and, each of them only if somebody has something to say:
//   vocabulary.txt     one word a line, as many as the vocabulary has ids
//   corpus.txt         sequences that the model was made for, see sequences.h
//   manifest.json      promises and checksums, see manifest.h; checksums are verified
//   golden.f64         logits of all prefixes by another program, see golden.h
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config_json.h"
#include "engine/golden.h"
#include "engine/manifest.h"
#include "engine/model.h"

namespace kvcheck {

// A model and everything that its folder says about it.
struct ModelData {
  std::string name;  // as the user gave it: a bundled name, a path, or gen:FAMILY:SEED
  Model<float> weights;
  std::string sha256;                          // model_sha256(weights)
  std::vector<std::string> words;              // [vocabulary] or empty
  std::vector<std::vector<int>> corpus;        // empty: none
  std::optional<double> contract_abs;          // largest difference that the cache may make
  std::optional<Published> published;          // a difference that was reported for it
  std::shared_ptr<const GoldenLogits> golden;  // null: none; shared, since a model may be copied
};

// A folder as above or as transformers writes it, or a GGUF file, told by its ending .gguf. The
// name is the path's text. Throws Error at anything wrong with any of the files.
[[nodiscard]] ModelData load_model_path(const std::filesystem::path& path);

// The name is the path's text. Throws Error at anything wrong with any of the files.
[[nodiscard]] ModelData load_model_folder(const std::filesystem::path& folder);

// Writes config.json and model.safetensors; makes the folder if need be. Both appear complete or
// not at all.
void save_model(const std::filesystem::path& folder, const Model<float>& model);

// 64 hex digits over config_text(), a newline and every tensor's little-endian floats in tensors()
// order: the same for a folder, a generated model and a model in memory.
[[nodiscard]] std::string model_sha256(const Model<float>& model);

// The folder of a model that comes with kvcheck, from whatever working folder: inside
// $KVCHECK_FIXTURES if that is set, else inside fixtures/ beside the folder of the program, else
// inside the source tree that it was built from. Throws Error if there is none of that name; a name
// with a slash, or that begins with a dot, is never one.
[[nodiscard]] std::filesystem::path bundled_folder(std::string_view name);

// All names that bundled_folder() knows, sorted.
[[nodiscard]] std::vector<std::string> bundled_names();

}  // namespace kvcheck
