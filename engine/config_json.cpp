// SPDX-License-Identifier: MIT
// Reads and writes configurations through one list of their fields.
#include "engine/config_json.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/config_reading.h"
#include "engine/echo.h"
#include "engine/error.h"
#include "engine/strict_json.h"

namespace kvcheck {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kFormat = "kvcheck-model-1";

// Optional keys are always written, rare ones only where they say something: the text of a model
// without what they are for, and the hash over it, is what it was before there were such keys.
enum class Presence { required, optional, rare };

// Calls visit(key, member, presence) for every field, in the order of the text.
template <typename Visit>
void visit_fields(Visit&& visit) {
  using enum Presence;
  visit("vocabulary", &Config::vocabulary, required);
  visit("width", &Config::width, required);
  visit("layers", &Config::layers, required);
  visit("query_heads", &Config::query_heads, required);
  visit("kv_heads", &Config::kv_heads, required);
  visit("head_size", &Config::head_size, required);
  visit("mlp_width", &Config::mlp_width, required);
  visit("context", &Config::context, required);
  visit("norm", &Config::norm, required);
  visit("norm_epsilon", &Config::norm_epsilon, optional);
  visit("positions", &Config::positions, required);
  visit("rotary_pairs", &Config::rotary_pairs, optional);
  visit("rotary_base", &Config::rotary_base, optional);
  visit("rotary_base_windowed", &Config::rotary_base_windowed, rare);
  visit("rotary_dimensions", &Config::rotary_dimensions, rare);
  visit("rotary_divisors", &Config::rotary_divisors, rare);
  visit("mlp", &Config::mlp, required);
  visit("qkv_bias", &Config::qkv_bias, optional);
  visit("attention_output_bias", &Config::attention_output_bias, optional);
  visit("mlp_bias", &Config::mlp_bias, optional);
  visit("output", &Config::output, required);
  visit("windows", &Config::windows, optional);
  visit("head_norm", &Config::head_norm, rare);
  visit("post_norms", &Config::post_norms, rare);
  visit("score_size", &Config::score_size, rare);
  visit("attention_cap", &Config::attention_cap, rare);
  visit("logit_cap", &Config::logit_cap, rare);
  visit("embedding_scale", &Config::embedding_scale, rare);
}

constexpr auto choices(Norm) { return std::array{Norm::layer, Norm::rms}; }
constexpr auto choices(Positions) {
  return std::array{Positions::none, Positions::learned, Positions::rotary, Positions::alibi};
}
constexpr auto choices(RotaryPairs) {
  return std::array{RotaryPairs::interleaved, RotaryPairs::halves};
}
constexpr auto choices(Mlp) { return std::array{Mlp::gelu_tanh, Mlp::swiglu, Mlp::geglu}; }
constexpr auto choices(Output) { return std::array{Output::tied, Output::separate}; }

template <typename Choice>
void read_value(const Json& value, const JsonPlace& place, Choice& field) {
  std::string expected;
  for (const Choice choice : choices(Choice{})) {
    if (value == name(choice)) {
      field = choice;
      return;
    }
    expected += fmt::format("{}\"{}\"", expected.empty() ? "" : " or ", name(choice));
  }
  throw bad_value(place, expected, &value);
}

template <typename Value>
std::string text_of(const Value& value) {
  if constexpr (std::is_enum_v<Value>) {
    return Json(name(value)).dump();
  } else {
    return Json(value).dump();
  }
}

void require_format(const Json& object, std::string_view where) {
  const Json* format = find_key(object, "format");
  if (format && *format == kFormat) return;
  throw bad_value({where, "format"}, fmt::format("\"{}\"", kFormat), format);
}

std::vector<std::string_view> known_keys() {
  std::vector<std::string_view> keys{"format"};
  visit_fields([&](std::string_view key, auto, Presence) { keys.push_back(key); });
  return keys;
}

}  // namespace

std::string config_text(const Config& config) {
  std::string text = fmt::format("{{\n  \"format\": \"{}\"", kFormat);
  const Config usual;
  visit_fields([&](std::string_view key, auto member, Presence presence) {
    if (presence == Presence::rare && config.*member == usual.*member) return;
    text += fmt::format(",\n  \"{}\": {}", key, text_of(config.*member));
  });
  return text + "\n}";
}

Config parse_config(std::string_view text, std::string_view where) {
  const Json object = parse_json(text, where);
  require_object(object, {where, "configuration"});
  require_format(object, where);
  require_known_keys(object, known_keys(), {where, "configuration"});
  Config config;
  visit_fields([&](std::string_view key, auto member, Presence presence) {
    const Json* value = find_key(object, key);
    if (value) return read_value(*value, {where, key}, config.*member);
    if (presence == Presence::required) throw bad_value({where, key}, "a value", nullptr);
  });
  if (!object.contains("windows")) make_windows(config, 0);
  validate(config, where);
  return config;
}

}  // namespace kvcheck
