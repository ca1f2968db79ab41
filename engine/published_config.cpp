// SPDX-License-Identifier: MIT
// Reads the shape facts of a published configuration.
#include "engine/published_config.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "engine/echo.h"
#include "engine/files.h"
#include "engine/strict_json.h"

namespace kvcheck {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

constexpr int kSizeMax = 1 << 24;  // no dimension of a published model comes near
constexpr int kLayersMax = 4096;
constexpr std::array<std::string_view, 4> kKnownTypes{"llama", "mistral", "qwen2", "gemma2"};

// The fields of one file.
class Fields {
 public:
  Fields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {}

  [[nodiscard]] int number(std::string_view key, int most = kSizeMax) const {
    return as_number(find_key(object_, key), key, most);
  }
  // Absent or null: the default.
  [[nodiscard]] int number_or(std::string_view key, int otherwise) const {
    const Json* value = find_key(object_, key);
    return value == nullptr || value->is_null() ? otherwise : as_number(value, key, kSizeMax);
  }
  // Null: 0; it must say so.
  [[nodiscard]] int number_or_null(std::string_view key) const {
    const Json* value = find_key(object_, key);
    return value != nullptr && value->is_null() ? 0 : as_number(value, key, kSizeMax);
  }
  [[nodiscard]] bool says(std::string_view key) const { return find_key(object_, key) != nullptr; }
  [[nodiscard]] bool flag(std::string_view key, bool otherwise) const {
    const Json* value = find_key(object_, key);
    if (value == nullptr) return otherwise;
    if (!value->is_boolean()) throw bad_value({where_, key}, "true or false", value);
    return value->get<bool>();
  }
  [[noreturn]] void refuse(std::string_view key, const std::string& expected, int got) const {
    throw bad_input({where_, key, expected, fmt::format("{}", got)});
  }

 private:
  [[nodiscard]] int as_number(const Json* value, std::string_view key, int most) const {
    const bool whole = value != nullptr && value->is_number_unsigned() &&
                       value->get<std::uint64_t>() >= 1 &&
                       value->get<std::uint64_t>() <= static_cast<std::uint64_t>(most);
    if (!whole)
      throw bad_value({where_, key}, fmt::format("a whole number from 1 to {}", most), value);
    return value->get<int>();
  }

  const Json& object_;
  const std::string where_;
};

// Only Llama's defaults of what is not said can be guessed.
void read_heads(const Fields& fields, std::string_view type, Config& c) {
  c.query_heads = fields.number("num_attention_heads");
  c.kv_heads = type == "llama" ? fields.number_or("num_key_value_heads", c.query_heads)
                               : fields.number("num_key_value_heads");
  if (c.query_heads % c.kv_heads != 0) {
    fields.refuse("num_attention_heads",
                  fmt::format("a multiple of num_key_value_heads {}", c.kv_heads), c.query_heads);
  }
  if (type == "gemma2") (void)fields.number("head_dim");
  c.head_size = fields.number_or("head_dim", c.width / c.query_heads);
  if (c.head_size < 1 || std::int64_t{c.head_size} * c.query_heads > kSizeMax) {
    fields.refuse("head_dim", fmt::format("1 to {} in all heads", kSizeMax), c.head_size);
  }
  if (!fields.says("head_dim") && c.width % c.query_heads != 0) {
    fields.refuse("hidden_size", fmt::format("a multiple of {} heads", c.query_heads), c.width);
  }
}

// Which layers have a window, as the code of each model has it.
void read_windows(const Fields& fields, std::string_view type, Config& c) {
  c.windows.assign(static_cast<std::size_t>(c.layers), 0);
  int window = 0;
  int first = 0;  // layer
  int step = 1;
  if (type == "mistral") window = fields.number_or_null("sliding_window");
  if (type == "gemma2") {
    window = fields.number("sliding_window");
    step = 2;
  }
  if (type == "qwen2" && fields.flag("use_sliding_window", false)) {
    window = fields.number("sliding_window");
    first = fields.number("max_window_layers");
  }
  for (int l = first; l < c.layers; l += step) c.windows[static_cast<std::size_t>(l)] = window;
}

Config read_shape(const Fields& fields, std::string_view type) {
  Config c;
  c.vocabulary = fields.number("vocab_size");
  c.width = fields.number("hidden_size");
  c.layers = fields.number("num_hidden_layers", kLayersMax);
  c.mlp_width = fields.number("intermediate_size");
  c.context = fields.number("max_position_embeddings");
  read_heads(fields, type, c);
  read_windows(fields, type, c);
  c.norm = Norm::rms;
  c.positions = Positions::rotary;
  c.mlp = Mlp::swiglu;  // or another gate: three matrices
  c.qkv_bias = type == "qwen2" || fields.flag("attention_bias", false);
  c.attention_output_bias = type != "qwen2" && fields.flag("attention_bias", false);
  c.mlp_bias = fields.flag("mlp_bias", false);
  c.output = fields.flag("tie_word_embeddings", type == "gemma2") ? Output::tied : Output::separate;
  return c;
}

}  // namespace

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
  const Json object = parse_json(read_text(file), where);
  require_object(object, {where, "configuration"});
  const Json* type = find_key(object, "model_type");
  if (type == nullptr) return std::nullopt;
  for (const std::string_view known : kKnownTypes) {
    if (*type != known) continue;
    return PublishedConfig{std::string(known), read_shape(Fields(object, where), known)};
  }
  throw bad_value({where, "model_type"}, "llama, mistral, qwen2 or gemma2", type);
}

}  // namespace kvcheck
