// SPDX-License-Identifier: MIT
// What a decoder must have for some fault of its cache to show, and the smallest decoders that have
// it. A name such as "tiny:rotary+window:7" stands for one model for ever.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "engine/config.h"
#include "engine/model.h"

namespace kvcheck {

enum class Feature : std::uint8_t {
  learned,          // learned positions
  rotary,           // rotary positions
  positions,        // either of them: logits depend on where a token stands
  window,           // a layer with a window shorter than the context
  global,           // a layer without one
  two_layers,       // at least two layers
  kv_heads,         // several K/V heads
  shared_heads,     // several K/V heads, each of which serves several query heads
  alibi,            // scores that fall with the distance
  head_norm,        // queries and keys normed head by head
  score_cap,        // soft cap of scores
  logit_cap,        // soft cap of logits
  embedding_scale,  // factor on the embedding other than 1
  partial_rotary,   // rotary positions of some dimensions only
  two_bases,        // another rotary base in layers with a window
  frequencies,      // several rotary frequencies; the first one is the same for every base
  two_tokens,       // several tokens: with one, rows of equal positions are equal
  post_norms,       // norms of what attention and MLP add
  scaled_rotary,    // rotary frequencies other than those of the base
  score_size,       // scores over another root than that of the head size
  count,
};

[[nodiscard]] std::string_view name(Feature feature);

class Features {
 public:
  constexpr Features() = default;
  constexpr Features(std::initializer_list<Feature> features) {
    for (const Feature feature : features) bits_ |= bit(feature);
  }

  [[nodiscard]] constexpr bool has(Feature feature) const { return (bits_ & bit(feature)) != 0; }
  [[nodiscard]] constexpr bool contains(Features others) const {
    return (others.bits_ & ~bits_) == 0;
  }
  [[nodiscard]] constexpr Features with(Feature feature) const {
    Features more = *this;
    more.bits_ |= bit(feature);
    return more;
  }
  bool operator==(const Features&) const = default;

 private:
  static constexpr std::uint32_t bit(Feature feature) {
    return std::uint32_t{1} << static_cast<unsigned>(feature);
  }
  std::uint32_t bits_ = 0;
};

// "rotary+window", or "plain" for none.
[[nodiscard]] std::string to_text(Features features);

// All that a configuration has.
[[nodiscard]] Features features_of(const Config& config);

// A decoder of two layers, width 8 and context 8 that has these; rotary positions where nothing
// else is asked for.
[[nodiscard]] Config tiny_decoder(Features features);

// tiny:FEATURES:SEED, features in the order of their enumeration.
[[nodiscard]] std::string tiny_name(Features features, std::uint64_t seed);
// Whether the name claims to be such a model's; it may still be a bad one.
[[nodiscard]] bool is_tiny_name(std::string_view name);
// Throws Error unless the name is just what tiny_name() would write.
[[nodiscard]] Model<float> tiny_model(std::string_view name);

}  // namespace kvcheck
