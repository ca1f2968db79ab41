// SPDX-License-Identifier: MIT
// One table row for each feature: its name, whether a configuration has it, and how a small one
// gets it.
#include "engine/features.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "engine/echo.h"
#include "engine/error.h"
#include "engine/generated.h"

namespace kvcheck {
namespace {

constexpr std::string_view kPrefix = "tiny:";
constexpr std::string_view kNone = "plain";
constexpr int kContext = 8;
constexpr int kWindow = 3;

bool any_window(const Config& c, bool (*is)(int window, int context)) {
  return std::ranges::any_of(c.windows, [&](int window) { return is(window, c.context); });
}

struct Row {
  Feature feature;
  std::string_view name;
  bool (*has)(const Config&);
  void (*add)(Config&);
};

constexpr std::array kRows{
    Row{Feature::learned, "learned",
        [](const Config& c) { return c.positions == Positions::learned; },
        [](Config& c) { c.positions = Positions::learned; }},
    Row{Feature::rotary, "rotary", [](const Config& c) { return c.positions == Positions::rotary; },
        [](Config& c) { c.positions = Positions::rotary; }},
    Row{Feature::positions, "positions",
        [](const Config& c) {
          return c.positions == Positions::learned || c.positions == Positions::rotary;
        },
        [](Config&) {}},
    Row{Feature::window, "window",
        [](const Config& c) {
          return any_window(c,
                            [](int window, int context) { return window > 0 && window < context; });
        },
        [](Config& c) { c.windows[0] = kWindow; }},
    Row{Feature::global, "global",
        [](const Config& c) { return any_window(c, [](int window, int) { return window == 0; }); },
        [](Config&) {}},
    Row{Feature::two_layers, "two-layers", [](const Config& c) { return c.layers > 1; },
        [](Config&) {}},
    Row{Feature::kv_heads, "kv-heads", [](const Config& c) { return c.kv_heads > 1; },
        [](Config&) {}},
    Row{Feature::shared_heads, "shared-heads",
        [](const Config& c) { return c.kv_heads > 1 && c.kv_heads < c.query_heads; },
        [](Config& c) {
          c.query_heads = 4;
          c.head_size = 2;
        }},
    Row{Feature::alibi, "alibi", [](const Config& c) { return c.positions == Positions::alibi; },
        [](Config& c) { c.positions = Positions::alibi; }},
    Row{Feature::head_norm, "head-norm", [](const Config& c) { return c.head_norm; },
        [](Config& c) { c.head_norm = true; }},
    Row{Feature::score_cap, "score-cap", [](const Config& c) { return c.attention_cap > 0; },
        [](Config& c) { c.attention_cap = 2; }},
    Row{Feature::logit_cap, "logit-cap", [](const Config& c) { return c.logit_cap > 0; },
        [](Config& c) { c.logit_cap = 5; }},
    Row{Feature::embedding_scale, "embedding-scale",
        [](const Config& c) { return c.embedding_scale != 1; },
        [](Config& c) { c.embedding_scale = 2; }},
    Row{Feature::partial_rotary, "partial-rotary",
        [](const Config& c) {
          return c.positions == Positions::rotary && c.rotated() < c.head_size;
        },
        [](Config& c) { c.rotary_dimensions = 2; }},
    Row{Feature::two_bases, "two-bases",
        [](const Config& c) {
          return c.rotary_bases().size() > 1 && c.rotated() > 2 &&
                 any_window(c, [](int window, int) { return window > 0; });
        },
        [](Config& c) {
          c.rotary_base_windowed = 100;
          c.windows[0] = kWindow;
        }},
    Row{Feature::frequencies, "frequencies",
        [](const Config& c) { return c.positions == Positions::rotary && c.rotated() > 2; },
        [](Config&) {}},
    Row{Feature::two_tokens, "two-tokens", [](const Config& c) { return c.vocabulary > 1; },
        [](Config&) {}},
    Row{Feature::post_norms, "post-norms", [](const Config& c) { return c.post_norms; },
        [](Config& c) { c.post_norms = true; }},
    Row{Feature::scaled_rotary, "scaled-rotary",
        [](const Config& c) { return !c.rotary_divisors.empty(); },
        [](Config& c) {
          c.rotary_divisors.assign(static_cast<std::size_t>(c.rotated() / 2), 3);
          if (c.rotary_divisors.size() > 1) c.rotary_divisors[0] = 1;
        }},
    Row{Feature::score_size, "score-size", [](const Config& c) { return c.score_size > 0; },
        [](Config& c) { c.score_size = 3; }},
};
static_assert(kRows.size() == static_cast<std::size_t>(Feature::count));

Feature feature_named(std::string_view text, std::string_view where) {
  const auto* const row = std::ranges::find(kRows, text, &Row::name);
  if (row != kRows.end()) return row->feature;
  std::string names;
  for (const Row& known : kRows)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", known.name);
  throw bad_input(
      {one_line(where), "unknown feature", fmt::format("one of {}", names), one_line(text)});
}

Features parse_features(std::string_view text, std::string_view where) {
  Features found;
  while (text != kNone) {
    const auto plus = text.find('+');
    const Feature feature = feature_named(text.substr(0, plus), where);
    found = found.with(feature);
    if (plus == std::string_view::npos) break;
    text.remove_prefix(plus + 1);
  }
  return found;
}

}  // namespace

std::string_view name(Feature feature) { return kRows[static_cast<std::size_t>(feature)].name; }

std::string to_text(Features features) {
  std::string text;
  for (const Row& row : kRows) {
    if (features.has(row.feature)) text += fmt::format("{}{}", text.empty() ? "" : "+", row.name);
  }
  return text.empty() ? std::string(kNone) : text;
}

Features features_of(const Config& config) {
  Features found;
  for (const Row& row : kRows) {
    if (row.has(config)) found = found.with(row.feature);
  }
  return found;
}

Config tiny_decoder(Features features) {
  Config c;
  c.vocabulary = 7;
  c.width = c.mlp_width = 8;
  c.layers = c.query_heads = c.kv_heads = 2;
  c.head_size = 4;
  c.context = kContext;
  c.norm = Norm::rms;
  c.positions = Positions::rotary;
  c.mlp = Mlp::swiglu;
  c.output = Output::separate;
  c.windows = {0, 0};
  for (const Row& row : kRows) {
    if (features.has(row.feature)) row.add(c);
  }
  return c;
}

std::string tiny_name(Features features, std::uint64_t seed) {
  return fmt::format("{}{}:{}", kPrefix, to_text(features), seed);
}

bool is_tiny_name(std::string_view name) { return name.starts_with(kPrefix); }

Model<float> tiny_model(std::string_view name) {
  const std::string_view rest = name.substr(std::min(kPrefix.size(), name.size()));
  const auto colon = rest.find(':');
  std::uint64_t seed = 0;
  if (colon != std::string_view::npos) {
    std::from_chars(rest.data() + colon + 1, rest.data() + rest.size(), seed);
  }
  const Features features = parse_features(rest.substr(0, colon), name);
  if (tiny_name(features, seed) != name) {
    throw bad_input(
        {"model", "not a small model's name", tiny_name(features, seed), one_line(name)});
  }
  const Config config = tiny_decoder(features);
  if (!features_of(config).contains(features)) {
    throw bad_input({"model", "features that no decoder has together", to_text(features_of(config)),
                     to_text(features)});
  }
  return random_model(config, {}, seed);
}

}  // namespace kvcheck
