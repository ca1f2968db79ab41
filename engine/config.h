// SPDX-License-Identifier: MIT
// The shape of a decoder: every number and choice that its weights do not hold.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace kvcheck {

enum class Norm { layer, rms };  // LayerNorm with shift, or RMSNorm without
// How a position enters: a learned row that is added, a rotation of queries and keys, or (ALiBi) a
// score that falls with the distance between query and key.
enum class Positions { none, learned, rotary, alibi };
enum class RotaryPairs { interleaved, halves };  // (2i, 2i+1), or (i, i + head_size/2)
enum class Mlp { gelu_tanh, swiglu, geglu };     // geglu: with tanh-GELU in the place of SiLU
enum class Output { tied, separate };            // tied: the transpose of the embedding

struct Config {
  int vocabulary = 0;
  int width = 0;
  int layers = 0;
  int query_heads = 0;
  int kv_heads =
      0;  // divides query_heads; query head h reads K/V head h / (query_heads / kv_heads)
  int head_size = 0;
  int mlp_width = 0;
  int context = 0;  // most input positions of a sequence
  Norm norm = Norm::layer;
  double norm_epsilon = 1e-5;
  Positions positions = Positions::learned;
  RotaryPairs rotary_pairs = RotaryPairs::halves;
  double rotary_base = 10000.0;
  double rotary_base_windowed = 0.0;  // of layers with a window, as in Gemma 3; 0 = rotary_base
  int rotary_dimensions = 0;          // first ones of each head that are rotated; 0 = all
  // What the frequency of each pair is divided by, [rotated / 2]; empty: 1 (Llama 3).
  std::vector<double> rotary_divisors = {};
  Mlp mlp = Mlp::gelu_tanh;
  bool qkv_bias = false;
  bool attention_output_bias = false;
  bool mlp_bias = false;
  Output output = Output::tied;
  std::vector<int>
      windows;  // [layers]; a query sees itself and windows[l] - 1 positions before, 0 = all
  bool head_norm = false;  // RMSNorm over each head of queries and keys, before a rotation (Qwen3)
  // Norms of what attention and MLP add, [width], before it is added (Gemma 2).
  bool post_norms = false;
  // A score is query x key / root of this; 0 = head_size (Gemma 2).
  double score_size = 0.0;
  // A score, scaled and with its bias, becomes cap x tanh(score / cap); 0 = it stays (Gemma 2).
  double attention_cap = 0.0;
  double logit_cap = 0.0;        // likewise of the logits
  double embedding_scale = 1.0;  // factor on the embedding's rows (Gemma: the root of the width)

  bool operator==(const Config&) const = default;

  [[nodiscard]] int query_width() const { return query_heads * head_size; }
  [[nodiscard]] int kv_width() const { return kv_heads * head_size; }
  [[nodiscard]] int group() const { return query_heads / kv_heads; }  // query heads per K/V head
  // The first position that a query at `position` of `layer` sees.
  [[nodiscard]] int first_visible(int layer, int position) const {
    const int window = windows[static_cast<std::size_t>(layer)];
    return window == 0 || position < window ? 0 : position - window + 1;
  }
  // Dimensions of each head that are rotated.
  [[nodiscard]] int rotated() const {
    return rotary_dimensions == 0 ? head_size : rotary_dimensions;
  }
  // What a query times a key is multiplied by.
  [[nodiscard]] long double score_scale() const {
    return 1.0L / std::sqrt(score_size == 0.0 ? static_cast<long double>(head_size) : score_size);
  }
  // The rotary bases that there are, and which of them is a layer's.
  [[nodiscard]] std::vector<double> rotary_bases() const {
    if (positions != Positions::rotary) return {};
    if (rotary_base_windowed == 0.0) return {rotary_base};
    return {rotary_base, rotary_base_windowed};
  }
  [[nodiscard]] int rotary_base_of(int layer) const {
    return rotary_base_windowed > 0.0 && windows[static_cast<std::size_t>(layer)] > 0 ? 1 : 0;
  }
};

// Most bytes that the weights, or one sequence's cache, may take: a bound on what is allocated for
// a file that only claims to be a model.
inline constexpr std::int64_t kBytesMax = std::int64_t{8} << 30;

// Throws Error naming `where` and the field unless the numbers make a decoder of bearable size.
void validate(const Config& config, std::string_view where);

// Bytes of a full-precision cache: layers x 2 x rows x K/V heads x head size x scalar size.
[[nodiscard]] std::int64_t cache_bytes(const Config& config, int rows, int scalar_size);

[[nodiscard]] constexpr std::string_view name(Norm v) { return v == Norm::layer ? "layer" : "rms"; }
[[nodiscard]] constexpr std::string_view name(Positions v) {
  return v == Positions::none      ? "none"
         : v == Positions::learned ? "learned"
         : v == Positions::rotary  ? "rotary"
                                   : "alibi";
}
[[nodiscard]] constexpr std::string_view name(RotaryPairs v) {
  return v == RotaryPairs::interleaved ? "interleaved" : "halves";
}
[[nodiscard]] constexpr std::string_view name(Mlp v) {
  return v == Mlp::gelu_tanh ? "gelu-tanh" : v == Mlp::swiglu ? "swiglu" : "geglu";
}
// Whether a gate is multiplied onto the hidden row.
[[nodiscard]] constexpr bool gated(Mlp v) { return v != Mlp::gelu_tanh; }
[[nodiscard]] constexpr std::string_view name(Output v) {
  return v == Output::tied ? "tied" : "separate";
}

}  // namespace kvcheck
