// SPDX-License-Identifier: MIT
// One table of keys, one of tensor names for each family, and what the values mean.
#include "engine/hf_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <utility>

#include "engine/config_reading.h"
#include "engine/echo.h"
#include "engine/error.h"
#include "engine/strict_json.h"

namespace kvcheck {
namespace {

using Json = nlohmann::json;

// ---- Keys

constexpr unsigned kGpt2 = 1;
constexpr unsigned kLlama = 2;
constexpr unsigned kMistral = 4;
constexpr unsigned kQwen2 = 8;
constexpr unsigned kQwen3 = 16;
constexpr unsigned kGemma2 = 32;
constexpr unsigned kSilu = kLlama | kMistral | kQwen2 | kQwen3;
constexpr unsigned kRotary = kSilu | kGemma2;  // all but GPT-2
constexpr unsigned kAll = kGpt2 | kRotary;

enum class Use : std::uint8_t { understood, no_effect, only };

struct KeyRule {
  std::string_view key;
  unsigned families;
  Use use;
  std::string_view values = {};  // of `only`: JSON, joined by " or "
};

constexpr std::array kKeys{
    KeyRule{"model_type", kAll, Use::understood},
    KeyRule{"architectures", kGpt2, Use::only, R"(["GPT2LMHeadModel"] or ["GPT2Model"])"},
    KeyRule{"architectures", kLlama, Use::only, R"(["LlamaForCausalLM"] or ["LlamaModel"])"},
    KeyRule{"architectures", kMistral, Use::only, R"(["MistralForCausalLM"] or ["MistralModel"])"},
    KeyRule{"architectures", kQwen2, Use::only, R"(["Qwen2ForCausalLM"] or ["Qwen2Model"])"},
    KeyRule{"architectures", kQwen3, Use::only, R"(["Qwen3ForCausalLM"] or ["Qwen3Model"])"},
    KeyRule{"architectures", kGemma2, Use::only, R"(["Gemma2ForCausalLM"] or ["Gemma2Model"])"},
    KeyRule{"vocab_size", kAll, Use::understood},
    KeyRule{"tie_word_embeddings", kAll, Use::understood},
    // Of the decoders with rotary positions.
    KeyRule{"hidden_size", kRotary, Use::understood},
    KeyRule{"intermediate_size", kRotary, Use::understood},
    KeyRule{"num_hidden_layers", kRotary, Use::understood},
    KeyRule{"num_attention_heads", kRotary, Use::understood},
    KeyRule{"num_key_value_heads", kRotary, Use::understood},
    KeyRule{"head_dim", kRotary, Use::understood},
    KeyRule{"max_position_embeddings", kRotary, Use::understood},
    KeyRule{"rms_norm_eps", kRotary, Use::understood},
    KeyRule{"rope_theta", kRotary, Use::understood},
    KeyRule{"rope_scaling", kRotary, Use::understood},
    KeyRule{"rope_parameters", kRotary, Use::understood},
    KeyRule{"partial_rotary_factor", kRotary, Use::only, "1.0 or 1 or null"},
    KeyRule{"hidden_act", kSilu, Use::only, R"("silu")"},
    KeyRule{"hidden_act", kGemma2, Use::no_effect},  // hidden_activation counts
    KeyRule{"attention_bias", kLlama | kQwen3 | kGemma2, Use::understood},
    KeyRule{"attention_bias", kMistral | kQwen2, Use::only, "false"},
    KeyRule{"mlp_bias", kLlama, Use::understood},
    KeyRule{"mlp_bias", kMistral | kQwen2 | kQwen3 | kGemma2, Use::only, "false"},
    KeyRule{"pretraining_tp", kLlama | kMistral, Use::no_effect},  // products in slices
    KeyRule{"sliding_window", kMistral | kQwen2 | kQwen3 | kGemma2, Use::understood},
    KeyRule{"sliding_window", kLlama, Use::only, "null"},
    KeyRule{"use_sliding_window", kQwen2 | kQwen3, Use::understood},
    KeyRule{"max_window_layers", kQwen2 | kQwen3, Use::understood},
    KeyRule{"layer_types", kQwen2 | kQwen3 | kGemma2, Use::understood},
    // Of Gemma 2.
    KeyRule{"hidden_activation", kGemma2, Use::only, R"("gelu_pytorch_tanh")"},
    KeyRule{"query_pre_attn_scalar", kGemma2, Use::understood},
    KeyRule{"attn_logit_softcapping", kGemma2, Use::understood},
    KeyRule{"final_logit_softcapping", kGemma2, Use::understood},
    KeyRule{"use_bidirectional_attention", kGemma2, Use::only, "false or null"},
    KeyRule{"cache_implementation", kGemma2, Use::no_effect},
    KeyRule{"sliding_window_size", kGemma2, Use::no_effect},  // sliding_window counts
    // Of GPT-2.
    KeyRule{"n_embd", kGpt2, Use::understood},
    KeyRule{"n_inner", kGpt2, Use::understood},
    KeyRule{"n_layer", kGpt2, Use::understood},
    KeyRule{"n_head", kGpt2, Use::understood},
    KeyRule{"n_positions", kGpt2, Use::understood},
    KeyRule{"layer_norm_epsilon", kGpt2, Use::understood},
    KeyRule{"activation_function", kGpt2, Use::only, R"("gelu_new" or "gelu_pytorch_tanh")"},
    KeyRule{"scale_attn_weights", kGpt2, Use::only, "true"},
    KeyRule{"scale_attn_by_inverse_layer_idx", kGpt2, Use::only, "false"},
    KeyRule{"n_ctx", kGpt2, Use::no_effect},  // n_positions counts
    KeyRule{"reorder_and_upcast_attn", kGpt2, Use::no_effect},
    KeyRule{"attn_pdrop", kGpt2, Use::no_effect},
    KeyRule{"embd_pdrop", kGpt2, Use::no_effect},
    KeyRule{"resid_pdrop", kGpt2, Use::no_effect},
    KeyRule{"summary_activation", kGpt2, Use::no_effect},
    KeyRule{"summary_first_dropout", kGpt2, Use::no_effect},
    KeyRule{"summary_proj_to_labels", kGpt2, Use::no_effect},
    KeyRule{"summary_type", kGpt2, Use::no_effect},
    KeyRule{"summary_use_proj", kGpt2, Use::no_effect},
    // Of everybody.
    KeyRule{"add_cross_attention", kAll, Use::only, "false"},
    KeyRule{"is_encoder_decoder", kAll, Use::only, "false"},
    KeyRule{"is_decoder", kAll, Use::no_effect},
    KeyRule{"quantization_config", kAll, Use::only, "null"},
    KeyRule{"attention_dropout", kAll, Use::no_effect},
    KeyRule{"bos_token_id", kAll, Use::no_effect},
    KeyRule{"eos_token_id", kAll, Use::no_effect},
    KeyRule{"pad_token_id", kAll, Use::no_effect},
    KeyRule{"unk_token_id", kAll, Use::no_effect},
    KeyRule{"torch_dtype", kAll, Use::no_effect},  // the file's own formats count
    KeyRule{"dtype", kAll, Use::no_effect},
    KeyRule{"initializer_range", kAll, Use::no_effect},
    KeyRule{"use_cache", kAll, Use::no_effect},
    KeyRule{"task_specific_params", kAll, Use::no_effect},
    KeyRule{"transformers_version", kAll, Use::no_effect},
    KeyRule{"_name_or_path", kAll, Use::no_effect},
    KeyRule{"_attn_implementation_autoset", kAll, Use::no_effect},
    KeyRule{"output_attentions", kAll, Use::no_effect},
    KeyRule{"output_hidden_states", kAll, Use::no_effect},
    KeyRule{"return_dict", kAll, Use::no_effect},
    KeyRule{"id2label", kAll, Use::no_effect},
    KeyRule{"label2id", kAll, Use::no_effect},
};

bool is_one_of(const Json& value, std::string_view values) {
  constexpr std::string_view kOr = " or ";
  const std::string text = value.dump();
  for (;;) {
    const auto end = values.find(kOr);
    if (values.substr(0, end) == text) return true;
    if (end == values.npos) return false;
    values.remove_prefix(end + kOr.size());
  }
}

void check_keys(const Json& object, unsigned family, std::string_view model_type,
                std::string_view where) {
  for (const auto& item : object.items()) {
    const auto* const rule = std::ranges::find_if(kKeys, [&](const KeyRule& known) {
      return known.key == item.key() && (known.families & family) != 0;
    });
    if (rule == kKeys.end()) {
      throw bad_input({where, fmt::format("unknown key in a configuration of {}", model_type),
                       "keys whose effect on logits is known", in_quotes(item.key())});
    }
    if (rule->use == Use::only && !is_one_of(item.value(), rule->values)) {
      throw bad_value({where, rule->key}, rule->values, &item.value());
    }
  }
}

// ---- Values

// A configuration's values, with defaults for those that are not there or null.
class Values {
 public:
  Values(const Json& object, std::string where) : object_(object), where_(std::move(where)) {}

  [[nodiscard]] std::string_view where() const { return where_; }
  [[nodiscard]] bool says(std::string_view key) const { return find_key(object_, key) != nullptr; }
  [[nodiscard]] const Json* find(std::string_view key) const {
    const Json* value = find_key(object_, key);
    return value && value->is_null() ? nullptr : value;
  }
  template <typename T>
  [[nodiscard]] T get(std::string_view key, T missing) const {
    if (const Json* value = find(key)) read_value(*value, {where_, key}, missing);
    return missing;
  }
  [[nodiscard]] int get(std::string_view key) const {
    if (!find(key)) throw bad_value({where_, key}, "a whole number of 32 bits", nullptr);
    return get(key, 0);
  }
  [[nodiscard]] double number(std::string_view key) const {
    if (!find(key)) throw bad_value({where_, key}, "a number", nullptr);
    return get(key, 0.0);
  }

 private:
  const Json& object_;
  std::string where_;
};

Output output_of(const Values& values, bool tied) {
  return values.get("tie_word_embeddings", tied) ? Output::tied : Output::separate;
}

int positive_quotient(int number, int by) { return by > 0 ? number / by : 0; }

Config gpt2(const Values& values) {
  Config c;
  c.vocabulary = values.get("vocab_size");
  c.width = values.get("n_embd");
  c.layers = values.get("n_layer");
  c.query_heads = c.kv_heads = values.get("n_head");
  c.head_size = positive_quotient(c.width, c.query_heads);
  if (c.head_size * std::int64_t{c.query_heads} != c.width) {
    throw bad_input({values.where(), "n_embd",
                     fmt::format("a multiple of n_head {}", c.query_heads),
                     fmt::format("{}", c.width)});
  }
  // More than validate() allows stays more.
  const std::int64_t four = std::min<std::int64_t>(std::int64_t{c.width} * 4, 1 << 30);
  c.mlp_width = values.get("n_inner", static_cast<int>(four));
  c.context = values.get("n_positions");
  c.norm_epsilon = values.get("layer_norm_epsilon", 1e-5);
  c.qkv_bias = c.attention_output_bias = c.mlp_bias = true;
  c.output = output_of(values, true);
  make_windows(c, 0);
  return c;
}

// Llama 3.1's frequencies (transformers, modeling_rope_utils): long waves are stretched by the
// factor, short ones stay, those between change smoothly.
struct Llama3Scaling {
  double factor;
  double low;       // waves in the original context, below which a frequency is stretched
  double high;      // and above which it stays
  double original;  // context

  [[nodiscard]] double divisor(double frequency) const {
    const double waves = original * frequency / (2 * std::numbers::pi);
    if (waves < low) return factor;
    if (waves > high) return 1;
    const double smooth = (waves - low) / (high - low);
    return 1 / ((1 - smooth) / factor + smooth);
  }
};

// Written so that a NaN is refused.
double positive(const Values& values, std::string_view key) {
  const double value = values.number(key);
  if (value > 0) return value;
  throw bad_value({values.where(), key}, "a number above 0", values.find(key));
}

Llama3Scaling llama3_scaling(const Values& rope) {
  const Llama3Scaling scaling{positive(rope, "factor"), positive(rope, "low_freq_factor"),
                              positive(rope, "high_freq_factor"),
                              positive(rope, "original_max_position_embeddings")};
  if (scaling.low < scaling.high) return scaling;
  throw bad_value({rope.where(), "low_freq_factor"},
                  fmt::format("less than high_freq_factor {}", scaling.high),
                  rope.find("low_freq_factor"));
}

constexpr std::array<std::string_view, 7> kRopeKeys{"rope_type",
                                                    "type",
                                                    "rope_theta",
                                                    "factor",
                                                    "low_freq_factor",
                                                    "high_freq_factor",
                                                    "original_max_position_embeddings"};

// What is said at two places must be the same: nobody knows which of them a reader takes.
void require_same(const Json* value, const JsonPlace& place, const Json* other,
                  std::string_view where_other) {
  if (value == nullptr || other == nullptr || *value == *other) return;
  throw bad_value(place, fmt::format("{}, as {} says", one_line(other->dump()), where_other),
                  value);
}

std::string_view scaling_type(const Values& rope) {
  const Json* type = rope.find("rope_type");
  require_same(rope.find("type"), {rope.where(), "type"}, type, "rope_type");
  if (type == nullptr) type = rope.find("type");
  for (const std::string_view known : {"default", "linear", "llama3"}) {
    if (type != nullptr && *type == known) return known;
  }
  throw bad_value({rope.where(), "rope_type"}, R"("default" or "linear" or "llama3")", type);
}

// `rope` is what "rope_scaling" or, since version 5, "rope_parameters" holds.
void read_rope_object(const Json& object, const JsonPlace& place, const Values& outside,
                      Config& c) {
  require_object(object, place);
  require_known_keys(object, kRopeKeys, place);
  const Values rope(object, fmt::format("{}: {}", place.where, place.what));
  require_same(rope.find("rope_theta"), {rope.where(), "rope_theta"}, outside.find("rope_theta"),
               "rope_theta outside");
  c.rotary_base = rope.get("rope_theta", c.rotary_base);
  const std::string_view type = scaling_type(rope);
  // A head of no believable size is left to validate().
  constexpr int kHeadBelievable = 1 << 16;
  if (type == "default" || c.head_size > kHeadBelievable) return;
  const auto pairs = static_cast<std::size_t>(std::max(c.head_size, 0) / 2);
  if (type == "linear") {
    c.rotary_divisors.assign(pairs, rope.number("factor"));
    return;
  }
  const Llama3Scaling scaling = llama3_scaling(rope);
  for (std::size_t i = 0; i < pairs; ++i) {
    const double place_of_pair = -2.0 * static_cast<double>(i) / c.head_size;
    c.rotary_divisors.push_back(scaling.divisor(std::pow(c.rotary_base, place_of_pair)));
  }
}

void read_rope(const Values& values, Config& c) {
  c.positions = Positions::rotary;
  c.rotary_pairs = RotaryPairs::halves;
  c.rotary_base = values.get("rope_theta", 10000.0);
  const Json* scaling = values.find("rope_scaling");
  const Json* parameters = values.find("rope_parameters");
  if (scaling && parameters) {
    throw bad_value({values.where(), "rope_scaling"}, "none beside rope_parameters", scaling);
  }
  if (scaling) read_rope_object(*scaling, {values.where(), "rope_scaling"}, values, c);
  if (parameters) read_rope_object(*parameters, {values.where(), "rope_parameters"}, values, c);
}

int quotient_of_heads(const Values& values, const Config& c) {
  if (c.query_heads > 0 && c.width % c.query_heads != 0) {
    throw bad_input(
        {values.where(), "hidden_size",
         fmt::format("a multiple of num_attention_heads {}, or head_dim", c.query_heads),
         fmt::format("{}", c.width)});
  }
  return positive_quotient(c.width, c.query_heads);
}

// What all decoders with rotary positions have in common.
Config rotary_decoder(const Values& values) {
  Config c;
  c.vocabulary = values.get("vocab_size");
  c.width = values.get("hidden_size");
  c.mlp_width = values.get("intermediate_size");
  c.layers = values.get("num_hidden_layers");
  c.query_heads = values.get("num_attention_heads");
  c.kv_heads = values.get("num_key_value_heads", c.query_heads);
  c.head_size = values.find("head_dim") ? values.get("head_dim") : quotient_of_heads(values, c);
  c.context = values.get("max_position_embeddings");
  c.norm = Norm::rms;
  c.norm_epsilon = values.get("rms_norm_eps", 1e-6);
  c.mlp = Mlp::swiglu;
  c.output = output_of(values, false);
  make_windows(c, 0);
  read_rope(values, c);
  return c;
}

Config llama(const Values& values) {
  Config c = rotary_decoder(values);
  c.qkv_bias = c.attention_output_bias = values.get("attention_bias", false);
  c.mlp_bias = values.get("mlp_bias", false);
  return c;
}

// Keys without which a family has defaults that nobody would guess.
void require_keys(const Values& values, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) (void)values.get(key);
}

// Likewise, of keys whose null says "none".
void require_said(const Values& values, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    if (!values.says(key)) throw bad_value({values.where(), key}, "a number or null", nullptr);
  }
}

Config mistral(const Values& values) {
  require_keys(values, {"num_key_value_heads"});
  require_said(values, {"sliding_window"});
  Config c = rotary_decoder(values);
  make_windows(c, values.get("sliding_window", 0));
  return c;
}

// Windows of layers that "layer_types" lists.
void windows_by_type(const Values& values, int window, Config& c) {
  const Json& types = *values.find("layer_types");
  if (!types.is_array() || types.size() != c.windows.size()) {
    throw bad_value({values.where(), "layer_types"},
                    fmt::format("one text for each of {} layers", c.layers), &types);
  }
  for (std::size_t l = 0; l < c.windows.size(); ++l) {
    if (types[l] == "full_attention") {
      c.windows[l] = 0;
    } else if (types[l] == "sliding_attention" && window > 0) {
      c.windows[l] = window;
    } else {
      throw bad_value({values.where(), fmt::format("layer_types of layer {}", l)},
                      window > 0 ? R"("full_attention" or "sliding_attention")"
                                 : R"("full_attention", without a sliding window)",
                      &types[l]);
    }
  }
}

Config qwen(const Values& values) {
  require_keys(values, {"num_key_value_heads"});
  Config c = rotary_decoder(values);
  const int window = values.get("use_sliding_window", false) ? values.get("sliding_window") : 0;
  if (values.find("layer_types")) {
    windows_by_type(values, window, c);
    return c;
  }
  // The layers from max_window_layers on have the window.
  if (window == 0) return c;
  const int first = values.get("max_window_layers");
  for (int l = std::max(first, 0); l < static_cast<int>(c.windows.size()); ++l) {
    c.windows[static_cast<std::size_t>(l)] = window;
  }
  return c;
}

Config qwen2(const Values& values) {
  Config c = qwen(values);
  c.qkv_bias = true;
  return c;
}

Config qwen3(const Values& values) {
  require_keys(values, {"head_dim"});
  Config c = qwen(values);
  c.qkv_bias = c.attention_output_bias = values.get("attention_bias", false);
  c.head_norm = true;
  return c;
}

Config gemma2(const Values& values) {
  require_keys(values, {"num_key_value_heads", "head_dim", "query_pre_attn_scalar"});
  require_said(values, {"attn_logit_softcapping", "final_logit_softcapping"});
  Config c = rotary_decoder(values);
  c.qkv_bias = c.attention_output_bias = values.get("attention_bias", false);
  c.output = output_of(values, true);
  c.mlp = Mlp::geglu;
  c.post_norms = true;
  c.embedding_scale = std::sqrt(c.width);
  const double score_size = values.number("query_pre_attn_scalar");
  if (score_size != c.head_size) c.score_size = score_size;
  c.attention_cap = values.get("attn_logit_softcapping", 0.0);
  c.logit_cap = values.get("final_logit_softcapping", 0.0);
  const int window = values.get("sliding_window");
  if (values.find("layer_types")) {
    windows_by_type(values, window, c);
    return c;
  }
  for (std::size_t l = 0; l < c.windows.size(); l += 2) c.windows[l] = window;
  return c;
}

// ---- Tensors

using enum Stored;

constexpr std::array kGpt2Places{
    TensorPlace{"embedding", "wte"},
    TensorPlace{"positions", "wpe"},
    TensorPlace{"layers.*.attention_norm", "h.*.ln_1"},
    TensorPlace{"layers.*.query", "h.*.attn.c_attn", as_here, 0, 3},
    TensorPlace{"layers.*.key", "h.*.attn.c_attn", as_here, 1, 3},
    TensorPlace{"layers.*.value", "h.*.attn.c_attn", as_here, 2, 3},
    TensorPlace{"layers.*.attention_output", "h.*.attn.c_proj"},
    TensorPlace{"layers.*.mlp_norm", "h.*.ln_2"},
    TensorPlace{"layers.*.mlp_up", "h.*.mlp.c_fc"},
    TensorPlace{"layers.*.mlp_down", "h.*.mlp.c_proj"},
    TensorPlace{"final_norm", "ln_f"},
    TensorPlace{"output", "lm_head", transposed},
};

constexpr std::array kLlamaPlaces{
    TensorPlace{"embedding", "embed_tokens"},
    TensorPlace{"layers.*.attention_norm", "layers.*.input_layernorm"},
    TensorPlace{"layers.*.query", "layers.*.self_attn.q_proj", transposed},
    TensorPlace{"layers.*.key", "layers.*.self_attn.k_proj", transposed},
    TensorPlace{"layers.*.value", "layers.*.self_attn.v_proj", transposed},
    TensorPlace{"layers.*.query_norm", "layers.*.self_attn.q_norm"},
    TensorPlace{"layers.*.key_norm", "layers.*.self_attn.k_norm"},
    TensorPlace{"layers.*.attention_output", "layers.*.self_attn.o_proj", transposed},
    TensorPlace{"layers.*.mlp_norm", "layers.*.post_attention_layernorm"},
    TensorPlace{"layers.*.mlp_gate", "layers.*.mlp.gate_proj", transposed},
    TensorPlace{"layers.*.mlp_up", "layers.*.mlp.up_proj", transposed},
    TensorPlace{"layers.*.mlp_down", "layers.*.mlp.down_proj", transposed},
    TensorPlace{"final_norm", "norm"},
    TensorPlace{"output", "lm_head", transposed},
};

constexpr std::array kGemma2Places = [] {
  std::array<TensorPlace, kLlamaPlaces.size() + 2> places{};
  std::ranges::copy(kLlamaPlaces, places.begin());
  for (TensorPlace& place : places) {
    if (place.target == "layers.*.mlp_norm") place.source = "layers.*.pre_feedforward_layernorm";
  }
  places[kLlamaPlaces.size()] = {"layers.*.attention_post_norm",
                                 "layers.*.post_attention_layernorm"};
  places[kLlamaPlaces.size() + 1] = {"layers.*.mlp_post_norm",
                                     "layers.*.post_feedforward_layernorm"};
  return places;
}();

// Masks and frequencies that older versions saved, and a tied output that some save twice: the
// embedding is what counts then.
bool unused_of_gpt2(std::string_view name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         name == "lm_head.weight";
}
bool unused_of_llama(std::string_view name) {
  return name.ends_with(".rotary_emb.inv_freq") || name == "lm_head.weight";
}

struct FamilyRow {
  unsigned bit;
  Config (*config)(const Values&);
  HfFamily family;
};

const std::vector<FamilyRow>& families() {
  static const TensorPlaces kLlamaTensors{kLlamaPlaces, "model.", false, unused_of_llama};
  static const std::vector<FamilyRow> kFamilies{
      {kGpt2, gpt2, {"gpt2", {kGpt2Places, "transformer.", false, unused_of_gpt2}}},
      {kLlama, llama, {"llama", kLlamaTensors}},
      {kMistral, mistral, {"mistral", kLlamaTensors}},
      {kQwen2, qwen2, {"qwen2", kLlamaTensors}},
      {kQwen3, qwen3, {"qwen3", kLlamaTensors}},
      {kGemma2, gemma2, {"gemma2", {kGemma2Places, "model.", true, unused_of_llama}}},
  };
  return kFamilies;
}

}  // namespace

bool is_hf_config(const Json& object) {
  return object.is_object() && object.contains("model_type") && !object.contains("format");
}

HfConfig parse_hf_shape(const Json& object, std::string_view where) {
  const Json* type = find_key(object, "model_type");
  for (const FamilyRow& row : families()) {
    if (!type || *type != row.family.model_type) continue;
    check_keys(object, row.bit, row.family.model_type, where);
    const Config config = row.config(Values(object, std::string(where)));
    validate_shape(config, where);
    return {config, &row.family};
  }
  throw bad_value({where, "model_type"},
                  fmt::format("one of {}", fmt::join(hf_model_types(), ", ")), type);
}

HfConfig parse_hf_config(const Json& object, std::string_view where) {
  HfConfig parsed = parse_hf_shape(object, where);
  Config& config = parsed.config;
  if (config.positions == Positions::rotary) {
    config.context = std::min(config.context, kStoredContextMax);
  }
  validate(config, where);
  return parsed;
}

std::vector<std::string> hf_model_types() {
  std::vector<std::string> types;
  for (const FamilyRow& row : families()) types.emplace_back(row.family.model_type);
  return types;
}

}  // namespace kvcheck
