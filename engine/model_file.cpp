// SPDX-License-Identifier: MIT
// Puts the files of a model folder together, and finds the folders that come with kvcheck.
#include "engine/model_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <system_error>

#include "engine/echo.h"
#include "engine/error.h"
#include "engine/files.h"
#include "engine/gguf_model.h"
#include "engine/hf_folder.h"
#include "engine/mapped_file.h"
#include "engine/safetensors.h"
#include "engine/sequences.h"
#include "engine/sha256.h"
#include "engine/strict_json.h"

namespace kvcheck {
namespace {

namespace fs = std::filesystem;

// Any file that a manifest lists may be as large as the largest weights.
constexpr std::int64_t kListedBytesMax = kSafetensorsBytesMax;

// The widest weights that are read, and a vocabulary.
constexpr std::int64_t kGgufBytesMax = 2 * kBytesMax + (std::int64_t{1} << 30);

void require_folder(const fs::path& folder) {
  std::error_code ignored;
  const fs::file_status status = fs::status(folder, ignored);
  if (fs::is_directory(status)) return;
  throw bad_input({path_text(folder), "model", "a folder or a .gguf file",
                   fs::exists(status) ? "a file" : "none"});
}

void verify_files(const fs::path& folder, const Manifest& manifest) {
  for (const auto& [name, expected] : manifest.files) {
    const std::string got = file_sha256(folder / name, kListedBytesMax);
    if (got == expected) continue;
    throw bad_input({path_text(folder / name), "SHA-256", expected, got});
  }
}

void load_manifest(const fs::path& folder, ModelData& data) {
  const fs::path path = folder / "manifest.json";
  if (!is_there(path)) return;
  const Manifest manifest = parse_manifest(read_text(path), path_text(path));
  // Before any other file is looked at: a changed file is best called changed.
  verify_files(folder, manifest);
  data.contract_abs = manifest.contract_abs;
  data.published = manifest.published;
}

void load_texts(const fs::path& folder, ModelData& data) {
  const int vocabulary = data.weights.config.vocabulary;
  const fs::path words = folder / "vocabulary.txt";
  if (is_there(words)) data.words = parse_words(read_text(words), path_text(words), vocabulary);
  const fs::path corpus = folder / "corpus.txt";
  if (is_there(corpus)) {
    data.corpus = parse_sequences(read_text(corpus), path_text(corpus), data.words, vocabulary);
  }
}

void load_golden(const fs::path& folder, ModelData& data) {
  const fs::path golden = folder / "golden.f64";
  if (!is_there(golden)) return;
  data.golden = std::make_shared<const GoldenLogits>(read_golden(golden, data.weights.config));
}

// A file that a user may have meant by its folder: the first by name.
std::optional<fs::path> gguf_in(const fs::path& folder) {
  std::set<fs::path> found;
  std::error_code code;
  for (fs::directory_iterator at(folder, code), end; !code && at != end; at.increment(code)) {
    std::error_code ignored;
    if (at->path().extension() == ".gguf" && at->is_regular_file(ignored)) found.insert(*at);
  }
  if (found.empty()) return std::nullopt;
  return *found.begin();
}

// A configuration of kvcheck's own says so, or is told that it should.
Model<float> load_weights(const fs::path& folder) {
  const fs::path path = folder / "config.json";
  const auto gguf = is_there(path) ? std::nullopt : gguf_in(folder);
  if (gguf) {
    throw bad_input({path_text(path), "file", "it, or the name of a .gguf file instead of a folder",
                     fmt::format("a folder that holds {}", path_text(gguf->filename()))});
  }
  const std::string text = read_text(path);
  const nlohmann::json object = parse_json(text, path_text(path));
  if (is_hf_config(object)) {
    return read_hf_weights(folder, parse_hf_config(object, path_text(path)));
  }
  if (object.is_object() && !object.contains("format")) {
    throw bad_value(
        {path_text(path), "model_type"},
        fmt::format("one of {}, or kvcheck's own format", fmt::join(hf_model_types(), ", ")),
        nullptr);
  }
  return read_safetensors(folder / "model.safetensors", parse_config(text, path_text(path)));
}

// Folders that may hold bundled models, the one to prefer first.
std::vector<fs::path> fixture_folders() {
  if (const char* folder = std::getenv("KVCHECK_FIXTURES")) return {fs::path(folder)};
  std::vector<fs::path> folders;
  std::error_code none;
  const fs::path program = fs::read_symlink("/proc/self/exe", none);
  if (!none) folders.push_back(program.parent_path().parent_path() / "fixtures");
#ifdef KVCHECK_FIXTURES_DIR
  folders.emplace_back(KVCHECK_FIXTURES_DIR);
#endif
  return folders;
}

bool has_configuration(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / "config.json", ignored);
}

bool is_bundled_name(std::string_view name) {
  return !name.empty() && !name.starts_with('.') &&
         name.find_first_of(std::string_view("/\0", 2)) == name.npos;
}

}  // namespace

ModelData load_model_path(const fs::path& path) {
  std::error_code unknown;  // what cannot be looked at is told when it is opened
  if (path.extension() != ".gguf" || fs::is_directory(path, unknown)) {
    return load_model_folder(path);
  }
  const MappedFile file(path, kGgufBytesMax);
  GgufModel model = gguf_model(parse_gguf(file.bytes(), file.where()));
  ModelData data;
  data.name = path.string();
  data.sha256 = model_sha256(model.weights);
  data.weights = std::move(model.weights);
  data.words = std::move(model.words);
  return data;
}

ModelData load_model_folder(const fs::path& folder) {
  require_folder(folder);
  ModelData data;
  data.name = folder.string();
  load_manifest(folder, data);
  data.weights = load_weights(folder);
  data.sha256 = model_sha256(data.weights);
  load_texts(folder, data);
  load_golden(folder, data);
  return data;
}

void save_model(const fs::path& folder, const Model<float>& model) {
  validate(model.config, path_text(folder));
  make_folder(folder);
  OutputFile weights(folder / "model.safetensors");
  OutputFile config(folder / "config.json");
  write_safetensors(weights, model);
  config.write(config_text(model.config) + "\n");
  weights.finish();
  config.finish();
  weights.commit();
  config.commit();
}

std::string model_sha256(const Model<float>& model) {
  const std::string text = config_text(model.config) + "\n";
  Sha256 hash;
  hash.add(std::as_bytes(std::span(text)));
  for (const auto& tensor : tensors(model)) hash.add(std::as_bytes(tensor.values));
  return hash.hex();
}

fs::path bundled_folder(std::string_view name) {
  if (is_bundled_name(name)) {
    for (const fs::path& folder : fixture_folders()) {
      if (has_configuration(folder / name)) return folder / name;
    }
  }
  const std::vector<std::string> names = bundled_names();
  const std::string known =
      names.empty() ? "a model folder" : fmt::format("one of {}", fmt::join(names, ", "));
  throw bad_input({in_quotes(name), "bundled model", known, "none"});
}

std::vector<std::string> bundled_names() {
  std::set<std::string> names;
  for (const fs::path& folder : fixture_folders()) {
    std::error_code code;
    for (fs::directory_iterator at(folder, code), end; !code && at != end; at.increment(code)) {
      const std::string name = at->path().filename().string();
      if (is_bundled_name(name) && has_configuration(at->path())) names.insert(name);
    }
  }
  return {names.begin(), names.end()};
}

}  // namespace kvcheck
