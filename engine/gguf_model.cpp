// SPDX-License-Identifier: MIT
// One table of metadata, one of tensor names, and what the values mean to llama.cpp.
#include "engine/gguf_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "engine/config_reading.h"
#include "engine/echo.h"
#include "engine/error.h"
#include "engine/sequences.h"

namespace kvcheck {
namespace {

// ---- Metadata

constexpr unsigned kLlama = 1;
constexpr unsigned kQwen2 = 2;
constexpr unsigned kGpt2 = 4;
constexpr unsigned kGemma2 = 8;
constexpr unsigned kQwen3 = 16;
constexpr unsigned kRotary = kLlama | kQwen2 | kGemma2 | kQwen3;
constexpr unsigned kAll = kRotary | kGpt2;

// Keys below "ARCHITECTURE.". `only`: the one value that is understood, as gguf_text() shows it.
struct KeyRule {
  std::string_view key;
  unsigned architectures;
  std::string_view only = {};
};
constexpr std::array kKeys{
    KeyRule{"context_length", kAll},
    KeyRule{"embedding_length", kAll},
    KeyRule{"block_count", kAll},
    KeyRule{"feed_forward_length", kAll},
    KeyRule{"attention.head_count", kAll},
    KeyRule{"attention.head_count_kv", kRotary},
    KeyRule{"attention.key_length", kRotary},
    KeyRule{"attention.value_length", kRotary},
    KeyRule{"attention.layer_norm_rms_epsilon", kRotary},
    KeyRule{"attention.layer_norm_epsilon", kGpt2},
    KeyRule{"attention.causal", kAll, "true"},
    KeyRule{"attention.sliding_window", kGemma2},
    KeyRule{"attn_logit_softcapping", kGemma2},
    KeyRule{"final_logit_softcapping", kGemma2},
    KeyRule{"rope.dimension_count", kAll},
    KeyRule{"rope.freq_base", kRotary},
    KeyRule{"rope.scaling.type", kRotary, "\"none\""},
    KeyRule{"rope.scaling.original_context_length", kRotary},  // says where the factors are from
    KeyRule{"vocab_size", kAll},
    KeyRule{"expert_count", kAll, "0"},
    KeyRule{"expert_used_count", kAll, "0"},
};

// Keys of all architectures that have no effect on logits, by how they begin.
constexpr std::array<std::string_view, 3> kNoEffect{"general.", "tokenizer.", "quantize."};

struct Values;
struct Architecture {
  std::string_view name;
  unsigned bit;
  Config (*config)(const Values&);
  TensorPlaces places;
};

// The values of one architecture.
struct Values {
  const Gguf& gguf;
  std::string_view architecture;

  [[nodiscard]] std::string name_of(std::string_view key) const {
    return fmt::format("{}.{}", architecture, key);
  }
  [[nodiscard]] const GgufValue* find(std::string_view key) const {
    return gguf.find(name_of(key));
  }
  [[nodiscard]] Error bad(std::string_view key, std::string_view expected) const {
    const GgufValue* value = find(key);
    return bad_input({gguf.where, "key " + in_quotes(name_of(key)), expected,
                      value == nullptr ? "none" : gguf_text(*value)});
  }
  [[nodiscard]] int whole(std::string_view key, std::optional<int> missing = {}) const;
  [[nodiscard]] double number(std::string_view key, std::optional<double> missing = {}) const;
  [[nodiscard]] bool holds(std::string_view tensor) const { return tensor_of(tensor) != nullptr; }
  [[nodiscard]] const StoredTensor* tensor_of(std::string_view name) const {
    const auto found = std::ranges::find(gguf.tensors, name, &StoredTensor::name);
    return found == gguf.tensors.end() ? nullptr : &*found;
  }
};

int Values::whole(std::string_view key, std::optional<int> missing) const {
  constexpr std::uint64_t kMost = std::numeric_limits<int>::max();
  const GgufValue* value = find(key);
  if (value == nullptr && missing) return *missing;
  std::uint64_t found = kMost + 1;
  if (value != nullptr) {
    if (const auto* number = std::get_if<std::uint64_t>(value)) found = *number;
    const auto* number = std::get_if<std::int64_t>(value);
    if (number != nullptr && *number >= 0) found = static_cast<std::uint64_t>(*number);
  }
  if (found > kMost) throw bad(key, "a whole number of 31 bits");
  return static_cast<int>(found);
}

double Values::number(std::string_view key, std::optional<double> missing) const {
  const GgufValue* value = find(key);
  if (value == nullptr && missing) return *missing;
  if (value == nullptr || !std::holds_alternative<double>(*value)) {
    throw bad(key, "a number with a fraction");
  }
  return std::get<double>(*value);
}

void check_keys(const Gguf& gguf, const Architecture& architecture) {
  const std::string prefix = fmt::format("{}.", architecture.name);
  for (const auto& pair : gguf.metadata) {
    const std::string_view key = pair.first;
    if (std::ranges::any_of(kNoEffect, [&](auto start) { return key.starts_with(start); })) {
      continue;
    }
    const auto* const rule = std::ranges::find_if(kKeys, [&](const KeyRule& known) {
      return key.starts_with(prefix) && known.key == key.substr(prefix.size()) &&
             (known.architectures & architecture.bit) != 0;
    });
    if (rule == kKeys.end()) {
      throw bad_input({gguf.where, fmt::format("unknown key of {}", architecture.name),
                       "keys whose effect on logits is known", in_quotes(key)});
    }
    const std::string value = gguf_text(pair.second);
    if (!rule->only.empty() && value != rule->only) {
      throw bad_input({gguf.where, "key " + in_quotes(key), rule->only, value});
    }
  }
}

// ---- Configurations

// What all have; the vocabulary is as large as the embedding.
Config decoder(const Values& values) {
  Config c;
  const StoredTensor* embedding = values.tensor_of("token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2 ||
      embedding->shape[0] > std::numeric_limits<int>::max()) {
    throw bad_input({values.gguf.where, tensor_text("token_embd.weight"),
                     "[vocabulary, embedding_length]",
                     embedding == nullptr ? "none" : shape_text(embedding->shape)});
  }
  c.vocabulary = static_cast<int>(embedding->shape[0]);
  if (values.whole("vocab_size", c.vocabulary) != c.vocabulary) {
    throw values.bad("vocab_size", fmt::format("{}, as the embedding", c.vocabulary));
  }
  c.width = values.whole("embedding_length");
  c.layers = values.whole("block_count");
  c.mlp_width = values.whole("feed_forward_length");
  c.query_heads = values.whole("attention.head_count");
  c.kv_heads = values.whole("attention.head_count_kv", c.query_heads);
  c.head_size =
      values.whole("attention.key_length", c.query_heads > 0 ? c.width / c.query_heads : 0);
  if (values.whole("attention.value_length", c.head_size) != c.head_size) {
    throw values.bad("attention.value_length", fmt::format("{}, as of keys", c.head_size));
  }
  c.context = std::min(values.whole("context_length"), kStoredContextMax);
  c.output = values.holds("output.weight") ? Output::separate : Output::tied;
  make_windows(c, 0);
  return c;
}

// Llama 3's factors lie in a tensor of their own.
void read_divisors(const Values& values, Config& c) {
  const StoredTensor* factors = values.tensor_of("rope_freqs.weight");
  if (factors == nullptr) return;
  const std::vector<std::int64_t> pairs{c.rotated() / 2};
  if (factors->shape != pairs) {
    throw bad_input({values.gguf.where, tensor_text(factors->name) + " shape", shape_text(pairs),
                     shape_text(factors->shape)});
  }
  std::vector<float> numbers(static_cast<std::size_t>(pairs[0]));
  widen(*factors->dtype, factors->bytes, numbers);
  c.rotary_divisors.assign(numbers.begin(), numbers.end());
}

Config rotary_decoder(const Values& values, RotaryPairs pairs) {
  Config c = decoder(values);
  c.norm = Norm::rms;
  c.norm_epsilon = values.number("attention.layer_norm_rms_epsilon");
  c.positions = Positions::rotary;
  c.rotary_pairs = pairs;
  c.rotary_base = values.number("rope.freq_base", 10000.0);
  const int rotated = values.whole("rope.dimension_count", c.head_size);
  // Here 0 would say "all of them", which is not what the file says.
  if (rotated == 0) throw values.bad("rope.dimension_count", "an even number from 2 on");
  if (rotated != c.head_size) c.rotary_dimensions = rotated;
  c.mlp = Mlp::swiglu;
  c.qkv_bias = values.holds("blk.0.attn_q.bias");
  c.attention_output_bias = values.holds("blk.0.attn_output.bias");
  c.mlp_bias = values.holds("blk.0.ffn_up.bias");
  read_divisors(values, c);
  return c;
}

// Queries and keys were reordered for pairs side by side when the file was made.
Config llama(const Values& values) { return rotary_decoder(values, RotaryPairs::interleaved); }

Config qwen2(const Values& values) { return rotary_decoder(values, RotaryPairs::halves); }

Config qwen3(const Values& values) {
  Config c = rotary_decoder(values, RotaryPairs::halves);
  c.head_norm = true;
  return c;
}

Config gpt2(const Values& values) {
  Config c = decoder(values);
  c.norm_epsilon = values.number("attention.layer_norm_epsilon");
  c.qkv_bias = c.attention_output_bias = c.mlp_bias = true;
  return c;
}

Config gemma2(const Values& values) {
  constexpr int kLayersOf27b = 46;  // how llama.cpp tells the one with another scale
  Config c = rotary_decoder(values, RotaryPairs::halves);
  c.mlp = Mlp::geglu;
  c.post_norms = true;
  c.embedding_scale = std::sqrt(c.width);
  c.attention_cap = values.number("attn_logit_softcapping", 50.0);
  c.logit_cap = values.number("final_logit_softcapping", 30.0);
  if (c.layers == kLayersOf27b && c.query_heads > 0) c.score_size = c.width / c.query_heads;
  const int window = values.whole("attention.sliding_window", 4096);
  for (std::size_t l = 0; l < c.windows.size(); l += 2) c.windows[l] = window;
  return c;
}

// ---- Tensors

using enum Stored;

// Norms have llama.cpp's names, which are those of what follows them; scales are as they are used.
constexpr std::array kRotaryPlaces{
    TensorPlace{"embedding", "token_embd"},
    TensorPlace{"layers.*.attention_norm", "blk.*.attn_norm"},
    TensorPlace{"layers.*.query", "blk.*.attn_q", transposed},
    TensorPlace{"layers.*.key", "blk.*.attn_k", transposed},
    TensorPlace{"layers.*.value", "blk.*.attn_v", transposed},
    TensorPlace{"layers.*.query_norm", "blk.*.attn_q_norm"},
    TensorPlace{"layers.*.key_norm", "blk.*.attn_k_norm"},
    TensorPlace{"layers.*.attention_output", "blk.*.attn_output", transposed},
    TensorPlace{"layers.*.attention_post_norm", "blk.*.post_attention_norm"},
    TensorPlace{"layers.*.mlp_norm", "blk.*.ffn_norm"},
    TensorPlace{"layers.*.mlp_gate", "blk.*.ffn_gate", transposed},
    TensorPlace{"layers.*.mlp_up", "blk.*.ffn_up", transposed},
    TensorPlace{"layers.*.mlp_down", "blk.*.ffn_down", transposed},
    TensorPlace{"layers.*.mlp_post_norm", "blk.*.post_ffw_norm"},
    TensorPlace{"final_norm", "output_norm"},
    TensorPlace{"output", "output", transposed},
};

constexpr std::array kGpt2Places{
    TensorPlace{"embedding", "token_embd"},
    TensorPlace{"positions", "position_embd"},
    TensorPlace{"layers.*.attention_norm", "blk.*.attn_norm"},
    TensorPlace{"layers.*.query", "blk.*.attn_qkv", transposed, 0, 3},
    TensorPlace{"layers.*.key", "blk.*.attn_qkv", transposed, 1, 3},
    TensorPlace{"layers.*.value", "blk.*.attn_qkv", transposed, 2, 3},
    TensorPlace{"layers.*.attention_output", "blk.*.attn_output", transposed},
    TensorPlace{"layers.*.mlp_norm", "blk.*.ffn_norm"},
    TensorPlace{"layers.*.mlp_up", "blk.*.ffn_up", transposed},
    TensorPlace{"layers.*.mlp_down", "blk.*.ffn_down", transposed},
    TensorPlace{"final_norm", "output_norm"},
    TensorPlace{"output", "output", transposed},
};

// Its numbers are in the configuration.
bool rotary_factors(std::string_view name) { return name == "rope_freqs.weight"; }

const std::array<Architecture, 5>& architectures() {
  static const TensorPlaces kRotaryTensors{kRotaryPlaces, {}, false, rotary_factors};
  static const std::array<Architecture, 5> kArchitectures{
      {{"llama", kLlama, llama, kRotaryTensors},
       {"qwen2", kQwen2, qwen2, kRotaryTensors},
       {"qwen3", kQwen3, qwen3, kRotaryTensors},
       {"gpt2", kGpt2, gpt2, {kGpt2Places}},
       {"gemma2", kGemma2, gemma2, kRotaryTensors}}};
  return kArchitectures;
}

const Architecture& architecture_of(const Gguf& gguf) {
  const GgufValue* name = gguf.find("general.architecture");
  const auto* text = name == nullptr ? nullptr : std::get_if<std::string_view>(name);
  std::vector<std::string_view> known;
  for (const Architecture& architecture : architectures()) {
    if (text != nullptr && *text == architecture.name) return architecture;
    known.push_back(architecture.name);
  }
  throw bad_input({gguf.where, "key \"general.architecture\"",
                   fmt::format("one of {}", fmt::join(known, ", ")),
                   name == nullptr ? "none" : gguf_text(*name)});
}

std::vector<std::string> words_of(const Gguf& gguf, int vocabulary) {
  constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
  const GgufValue* value = gguf.find(kTokens);
  if (value == nullptr) return {};
  const auto* array = std::get_if<GgufArray>(value);
  if (array == nullptr || array->texts.size() != static_cast<std::size_t>(vocabulary)) {
    throw bad_input({gguf.where, "key " + in_quotes(kTokens),
                     fmt::format("an array of {} texts, the vocabulary", vocabulary),
                     gguf_text(*value)});
  }
  return plain_words(array->texts);
}

}  // namespace

GgufModel gguf_model(const Gguf& gguf) {
  const Architecture& architecture = architecture_of(gguf);
  check_keys(gguf, architecture);
  const Config config = architecture.config({gguf, architecture.name});
  validate(config, gguf.where);
  std::vector<std::string> words = words_of(gguf, config.vocabulary);
  return {assemble(config, gguf.tensors, architecture.places, gguf.where), std::move(words)};
}

}  // namespace kvcheck
