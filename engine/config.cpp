// SPDX-License-Identifier: MIT
// Which configurations make a decoder.
#include "engine/config.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "engine/config_reading.h"
#include "engine/error.h"
#include "engine/model.h"

namespace kvcheck {
namespace {

// No dimension of a decoder that fits into kBytesMax is larger; keeps all products below 2^63.
constexpr int kDimensionMax = 1 << 24;
constexpr int kLayersMax = 4096;
// Caps and factors that leave numbers of ordinary size within what a float can hold.
constexpr double kFactorMin = 1e-3;
constexpr double kFactorMax = 1e6;

void in_range(std::string_view where, std::string_view field, std::int64_t value, int most) {
  if (value >= 1 && value <= most) return;
  throw bad_input({where, field, fmt::format("1 to {}", most), fmt::format("{}", value)});
}

void dimensions(const Config& c, std::string_view where) {
  in_range(where, "vocabulary", c.vocabulary, kDimensionMax);
  in_range(where, "width", c.width, kDimensionMax);
  in_range(where, "layers", c.layers, kLayersMax);
  in_range(where, "query_heads", c.query_heads, kDimensionMax);
  in_range(where, "kv_heads", c.kv_heads, kDimensionMax);
  in_range(where, "head_size", c.head_size, kDimensionMax);
  in_range(where, "mlp_width", c.mlp_width, kDimensionMax);
  in_range(where, "context", c.context, kDimensionMax);
  in_range(where, "query_heads x head_size", std::int64_t{c.query_heads} * c.head_size,
           kDimensionMax);
}

void divisions(const Config& c, std::string_view where) {
  if (c.query_heads % c.kv_heads != 0) {
    throw bad_input({where, "query_heads", fmt::format("a multiple of kv_heads {}", c.kv_heads),
                     fmt::format("{}", c.query_heads)});
  }
  if (c.rotary_dimensions < 0 || c.rotary_dimensions > c.head_size ||
      c.rotary_dimensions % 2 != 0) {
    throw bad_input({where, "rotary_dimensions",
                     fmt::format("0 (all) or an even number up to head_size {}", c.head_size),
                     fmt::format("{}", c.rotary_dimensions)});
  }
  if (c.positions == Positions::rotary && c.rotated() % 2 != 0) {
    throw bad_input({where, "head_size", "an even number for rotary positions",
                     fmt::format("{}", c.head_size)});
  }
}

// Written so that a NaN is refused.
void factors(const Config& c, std::string_view where) {
  const auto ordinary = [](double value) { return value >= kFactorMin && value <= kFactorMax; };
  const std::string range = fmt::format("from {} to {}", kFactorMin, kFactorMax);
  for (const auto& [field, cap] :
       {std::pair{"attention_cap", c.attention_cap}, std::pair{"logit_cap", c.logit_cap}}) {
    if (cap == 0.0 || ordinary(cap)) continue;
    throw bad_input({where, field, "0 (none) or " + range, fmt::format("{}", cap)});
  }
  if (c.score_size != 0.0 && !ordinary(c.score_size)) {
    throw bad_input(
        {where, "score_size", "0 (head_size) or " + range, fmt::format("{}", c.score_size)});
  }
  if (!ordinary(c.embedding_scale)) {
    throw bad_input(
        {where, "embedding_scale", "a number " + range, fmt::format("{}", c.embedding_scale)});
  }
}

// Written so that a NaN is refused, as below.
void rotary_divisors(const Config& c, std::string_view where) {
  if (c.rotary_divisors.empty()) return;
  const auto pairs = static_cast<std::size_t>(c.rotated() / 2);
  if (c.positions != Positions::rotary || c.rotary_divisors.size() != pairs) {
    throw bad_input({where, "rotary_divisors",
                     fmt::format("none, or one for each of {} rotary pairs",
                                 c.positions == Positions::rotary ? pairs : 0),
                     fmt::format("{}", c.rotary_divisors.size())});
  }
  for (const double divisor : c.rotary_divisors) {
    if (divisor >= kFactorMin && divisor <= kFactorMax) continue;
    throw bad_input({where, "rotary_divisors",
                     fmt::format("numbers from {} to {}", kFactorMin, kFactorMax),
                     fmt::format("{}", divisor)});
  }
}

void numbers(const Config& c, std::string_view where) {
  if (!(c.norm_epsilon > 0.0 && c.norm_epsilon < 1.0)) {
    throw bad_input(
        {where, "norm_epsilon", "a number above 0 and below 1", fmt::format("{}", c.norm_epsilon)});
  }
  if (!(c.rotary_base > 1.0 && std::isfinite(c.rotary_base))) {
    throw bad_input(
        {where, "rotary_base", "a finite number above 1", fmt::format("{}", c.rotary_base)});
  }
  const double windowed = c.rotary_base_windowed;
  if (!(windowed == 0.0 || (windowed > 1.0 && std::isfinite(windowed)))) {
    throw bad_input({where, "rotary_base_windowed", "0 (rotary_base) or a finite number above 1",
                     fmt::format("{}", windowed)});
  }
  rotary_divisors(c, where);
  factors(c, where);
  if (c.windows.size() != static_cast<std::size_t>(c.layers)) {
    throw bad_input({where, "windows", fmt::format("one number a layer, {}", c.layers),
                     fmt::format("{}", c.windows.size())});
  }
  for (const int window : c.windows) {
    if (window < 0) {
      throw bad_input({where, "windows", "0 (all) or more", fmt::format("{}", window)});
    }
  }
}

void size(const Config& c, std::string_view where) {
  // Estimated in floating point first: the sum over many large layers could pass 2^63.
  const double kv = double(c.kv_heads) * c.head_size;
  const double per_layer = double(c.width) * (2.0 * c.query_width() + 2.0 * kv + 3.0 * c.mlp_width);
  const double tables = double(c.width) * (2.0 * c.vocabulary + c.context);
  const double weights = sizeof(float) * (tables + c.layers * per_layer);
  if (!(weights <= double(kBytesMax))) {
    throw bad_input({where, "weights", fmt::format("at most {} bytes", kBytesMax),
                     fmt::format("about {:.3g} bytes", weights)});
  }
  const double cache = 2.0 * c.layers * double(c.context) * kv * sizeof(double);
  if (!(cache <= double(kBytesMax))) {
    throw bad_input({where, "cache at full context", fmt::format("at most {} bytes", kBytesMax),
                     fmt::format("about {:.3g} bytes", cache)});
  }
}

}  // namespace

void validate(const Config& config, std::string_view where) {
  validate_shape(config, where);
  size(config, where);
}

void validate_shape(const Config& config, std::string_view where) {
  dimensions(config, where);
  divisions(config, where);
  numbers(config, where);
}

void make_windows(Config& config, int window) {
  if (config.layers < 1 || config.layers > kLayersMax) return;
  config.windows.assign(static_cast<std::size_t>(config.layers), window);
}

std::int64_t cache_bytes(const Config& config, int rows, int scalar_size) {
  return std::int64_t{2} * config.layers * rows * config.kv_heads * config.head_size * scalar_size;
}

}  // namespace kvcheck
