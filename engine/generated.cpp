// SPDX-License-Identifier: MIT
// The table of families, and how shapes, weights and names are made from it.
#include "engine/generated.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <tuple>
#include <utility>

#include "engine/echo.h"
#include "engine/error.h"
#include "engine/features.h"

namespace kvcheck {
namespace {

constexpr std::string_view kPrefix = "gen:";
constexpr std::string_view kNameForm = "gen:FAMILY:SEED";
constexpr std::string_view kContextPrefix = "context";  // of a name's last part
constexpr std::string_view kLayerPrefix = "layers.";    // of a tensor's name

// Shapes. Everything small, so that one model's thousands of prefixes take a blink, and no two
// dimensions tied to each other, so that swapping them shows.

void draw_choices(Config& c, Draw& draw) {
  c.norm = draw.next_of({Norm::layer, Norm::rms});
  c.norm_epsilon = draw.next_of({1e-5, 1e-6, 1e-3});
  c.positions = draw.next_of({Positions::learned, Positions::rotary, Positions::learned,
                              Positions::rotary, Positions::none});
  c.rotary_pairs = draw.next_of({RotaryPairs::interleaved, RotaryPairs::halves});
  c.rotary_base = draw.next_of({10000.0, 100.0, 500000.0});
  c.mlp = draw.next_of({Mlp::gelu_tanh, Mlp::swiglu});
  c.qkv_bias = draw.next_one_in(2);
  c.attention_output_bias = draw.next_one_in(2);
  c.mlp_bias = draw.next_one_in(2);
  c.output = draw.next_of({Output::tied, Output::separate});
}

int divisor_of(int n, Draw& draw) {
  const int divisor = draw.next_in({1, n});
  return n % divisor == 0 ? divisor : n;
}

// A shape without windows: those come last, when layers and context are final.
Config draw_shape(Draw& draw) {
  Config c;
  c.vocabulary = draw.next_in({5, 40});
  c.width = draw.next_in({4, 24});
  c.layers = draw.next_of({1, 2, 2, 2, 3, 4});  // two: the least with a stale upper layer
  c.query_heads = draw.next_in({1, 4});
  c.kv_heads = divisor_of(c.query_heads, draw);
  c.head_size = draw.next_of({2, 4, 6, 8});
  c.mlp_width = draw.next_in({4, 32});
  c.context = draw.next_in({6, 20});
  draw_choices(c, draw);
  return c;
}

// One model in three has windows, on about half of its layers. None of 1, which would hide all
// other rows: the windowed family has those.
Config with_windows(Config c, Draw& draw) {
  c.windows.assign(static_cast<std::size_t>(c.layers), 0);
  if (c.context < 2 || !draw.next_one_in(3)) return c;
  for (int& window : c.windows) {
    if (draw.next_one_in(2)) window = draw.next_in({2, c.context});
  }
  return c;
}

Config any(Draw& draw) { return with_windows(draw_shape(draw), draw); }

Config separate_output(Draw& draw) {
  Config c = any(draw);
  c.output = Output::separate;
  return c;
}

Config several_layers(Draw& draw) {
  Config c = draw_shape(draw);
  c.layers = draw.next_in({3, 4});
  return with_windows(c, draw);
}

// One layer's softmax hardly ever lies where rounding decides which row it picks; with six to
// eight, about one prefix in fifty is too ill-conditioned for float.
Config many_layers(Draw& draw) {
  Config c = draw_shape(draw);
  c.layers = draw.next_in({6, 8});
  return with_windows(c, draw);
}

Config grouped_heads(Draw& draw) {
  Config c = any(draw);
  std::tie(c.query_heads, c.kv_heads) =
      draw.next_of({std::pair{4, 2}, std::pair{6, 2}, std::pair{6, 3}});
  c.positions = Positions::rotary;
  c.rotary_pairs = RotaryPairs::interleaved;
  return c;
}

// With one token only a learned position tells one row from another: rotary scores would weigh
// equal values, and every answer of the cache would do.
Config one_token(Draw& draw) {
  Config c = any(draw);
  c.vocabulary = 1;
  c.positions = Positions::learned;
  return c;
}

Config full_context(Draw& draw) {
  Config c = draw_shape(draw);
  c.context = draw.next_in({3, 5});
  return with_windows(c, draw);
}

Config windowed(Draw& draw) {
  Config c = draw_shape(draw);
  c.windows = {1, 2, c.context};
  if (draw.next_one_in(2)) c.windows.push_back(draw.next_in({3, c.context - 1}));
  c.layers = static_cast<int>(c.windows.size());
  for (int last = c.layers - 1; last > 0; --last) {
    std::swap(c.windows[static_cast<std::size_t>(last)],
              c.windows[static_cast<std::size_t>(draw.next_below(last + 1))]);
  }
  return c;
}

Config one_head(Draw& draw) {
  Config c = any(draw);
  c.query_heads = 1;
  c.kv_heads = 1;
  c.positions = Positions::none;
  return c;
}

Config biased(Draw& draw) {
  Config c = any(draw);
  c.qkv_bias = true;
  c.attention_output_bias = true;
  c.mlp_bias = true;
  return c;
}

Config deep(Draw& draw) {
  Config c = draw_shape(draw);
  c.layers = 8;
  c.width = draw.next_in({6, 10});
  c.query_heads = draw.next_in({1, 2});
  c.kv_heads = divisor_of(c.query_heads, draw);
  c.head_size = draw.next_of({2, 4});
  c.mlp_width = draw.next_in({4, 10});
  c.norm = Norm::layer;
  c.positions = Positions::learned;
  c.mlp = Mlp::gelu_tanh;
  c.output = Output::tied;
  return with_windows(c, draw);
}

Config wide(Draw& draw) {
  Config c = draw_shape(draw);
  c.layers = 2;
  c.width = draw.next_in({48, 64});
  c.query_heads = 4;
  c.kv_heads = draw.next_of({1, 2, 4});
  c.head_size = draw.next_of({8, 12, 16});
  c.mlp_width = draw.next_in({64, 96});
  c.norm = Norm::rms;
  c.positions = Positions::rotary;
  c.rotary_pairs = RotaryPairs::halves;
  c.mlp = Mlp::swiglu;
  c.qkv_bias = c.attention_output_bias = c.mlp_bias = false;
  c.output = Output::separate;
  c.windows = {0, 0};
  return c;
}

Config single_context(Draw& draw) {
  Config c = draw_shape(draw);
  c.context = 1;
  return with_windows(c, draw);
}

// What only some decoders have. The other families never draw it: their models stay what they are.

Config alibi(Draw& draw) {
  Config c = any(draw);
  std::tie(c.query_heads, c.kv_heads) =
      draw.next_of({std::pair{3, 1}, std::pair{4, 2}, std::pair{6, 3}, std::pair{8, 4}});
  c.positions = Positions::alibi;
  return c;
}

Config head_norm(Draw& draw) {
  Config c = any(draw);
  c.positions = Positions::rotary;
  c.head_size = draw.next_of({4, 6, 8});
  c.head_norm = true;
  return c;
}

Config soft_caps(Draw& draw) {
  Config c = any(draw);
  c.attention_cap = draw.next_of({1.0, 4.0, 50.0});
  c.logit_cap = draw.next_of({2.0, 30.0});
  return c;
}

Config scaled_embedding(Draw& draw) {
  Config c = any(draw);
  c.embedding_scale = draw.next_one_in(2) ? std::sqrt(c.width) : 0.5;
  return c;
}

Config partial_rotary(Draw& draw) {
  Config c = any(draw);
  c.positions = Positions::rotary;
  c.head_size = draw.next_of({4, 6, 8});
  c.rotary_dimensions = 2 * draw.next_in({1, c.head_size / 2 - 1});
  return c;
}

// Layers with a window and without one take turns, as in Gemma 3. Two dimensions would turn alike
// by any base.
Config two_bases(Draw& draw) {
  Config c = draw_shape(draw);
  c.layers = draw.next_in({2, 4});
  c.head_size = draw.next_of({4, 6, 8});
  c.positions = Positions::rotary;
  c.rotary_base = draw.next_of({10000.0, 500000.0});
  c.rotary_base_windowed = draw.next_of({10.0, 100.0});
  const int window = draw.next_in({2, c.context - 1});
  c.windows.clear();
  for (int l = 0; l < c.layers; ++l) c.windows.push_back(l % 2 == 0 ? window : 0);
  return c;
}

// GPT-2's smallest.
Config gpt2_small(Draw&) {
  Config c;
  c.vocabulary = 50257;
  c.width = 768;
  c.layers = 12;
  c.query_heads = 12;
  c.kv_heads = 12;
  c.head_size = 64;
  c.mlp_width = 3072;
  c.context = 1024;
  c.norm = Norm::layer;
  c.positions = Positions::learned;
  c.mlp = Mlp::gelu_tanh;
  c.qkv_bias = c.attention_output_bias = c.mlp_bias = true;
  c.output = Output::tied;
  c.windows.assign(12, 0);
  return c;
}

constexpr WeightScales kSmall = {.embedding = 0.1F,
                                 .positions = 0.05F,
                                 .query_key = 0.3F,
                                 .value = 0.1F,
                                 .mlp_in = 0.1F,
                                 .residual = 0.1F,
                                 .norm = 0.02F,
                                 .shift = 0.02F,
                                 .bias = 0.02F,
                                 .logits = 0.3F};

constexpr std::array kFamilies = {
    Family{"plain", "ordinary shapes and weights", any},
    Family{"small", "tiny weights: attention is nearly an average", any, kSmall},
    Family{"sharp-attention",
           "large queries and keys: attention picks few rows",
           any,
           {.query_key = 3.0F}},
    Family{"saturated",
           "layers of softmax that is 0 or 1: rounding may choose the row, ill-conditioned",
           many_layers,
           {.query_key = 12.0F}},
    Family{"near-tied",
           "output rows nearly equal: the best tokens are nearly tied",
           separate_output,
           {.output_spread = 0x1p-16F}},
    Family{"tiny-embeddings",
           "embeddings so small that the first norm scales up their rounding",
           separate_output,
           {.embedding = 1e-3F, .positions = 5e-4F}},
    Family{"large-residual",
           "a residual stream that grows from layer to layer",
           several_layers,
           {.residual = 4.0F, .residual_growth = 4.0F}},
    Family{"grouped-heads", "several query heads on each of several K/V heads", grouped_heads},
    Family{"one-token", "a vocabulary of one: only the position tells rows apart", one_token},
    Family{.id = "full-context",
           .summary = "a context so short that every run fills it",
           .config = full_context,
           .in_default_set = false},
    Family{"windowed", "another window in each layer: one row, two rows, all rows", windowed},
    Family{"one-head", "one head and no positions: the barest attention", one_head},
    Family{.id = "biased",
           .summary = "a bias on every product that can have one",
           .config = biased,
           .in_default_set = false},
    Family{"deep", "eight narrow layers", deep},
    Family{"wide", "two wide layers", wide},
    Family{"single-context", "a context of one: nothing to reuse, nothing may be", single_context},
    Family{"alibi", "scores that fall with the distance of keys (ALiBi)", alibi},
    Family{"head-norm", "a norm over each head of queries and keys", head_norm},
    Family{"softcap", "soft caps on scores and logits", soft_caps, {.query_key = 2.0F}},
    Family{"embedding-scale", "embeddings that are scaled", scaled_embedding},
    Family{"partial-rotary", "heads of which only the first dimensions rotate", partial_rotary},
    Family{"two-bases", "one rotary base for layers with a window, one for others", two_bases},
};
static_assert(std::ranges::count_if(kFamilies, &Family::in_default_set) == kDefaultSetSize);

constexpr std::array kLargeFamilies = {
    Family{.id = "gpt2-small",
           .summary = "the shape of GPT-2 with 124 million parameters",
           .config = gpt2_small,
           .scales = {.embedding = 0.1F, .positions = 0.05F},
           .in_default_set = false},
};

// Weights. A rule turns a normal number into an entry of one tensor.

struct Rule {
  float mean = 0.0F;
  float scale = 1.0F;
};

float gain_of(std::string_view field, int layer, const WeightScales& scales) {
  if (field == "query" || field == "key") return scales.query_key;
  if (field == "value") return scales.value;
  if (field == "mlp_gate" || field == "mlp_up") return scales.mlp_in;
  if (field == "output") return scales.logits;
  require(field == "attention_output" || field == "mlp_down", "a matrix without a weight rule");
  float gain = scales.residual;
  for (int l = 0; l < layer; ++l) gain *= scales.residual_growth;
  return gain;
}

// Cuts "layers.L." off the name and gives L, or 0 for a tensor outside the layers.
int take_layer(std::string_view& name) {
  int layer = 0;
  if (!name.starts_with(kLayerPrefix)) return layer;
  name.remove_prefix(kLayerPrefix.size());
  std::from_chars(name.data(), name.data() + name.size(), layer);
  name.remove_prefix(name.find('.') + 1);
  return layer;
}

Rule rule_of(const TensorRef<float>& tensor, const WeightScales& scales) {
  std::string_view name = tensor.name;
  const int layer = take_layer(name);
  if (name == "embedding") return {.scale = scales.embedding};
  if (name == "positions") return {.scale = scales.positions};
  const std::size_t dot = name.rfind('.');
  const std::string_view kind = name.substr(dot + 1);
  if (kind == "scale") return {.mean = 1.0F, .scale = scales.norm};
  if (kind == "shift") return {.scale = scales.shift};
  if (kind == "bias") return {.scale = scales.bias};
  const double gain = gain_of(name.substr(0, dot), layer, scales);
  return {.scale = static_cast<float>(gain / std::sqrt(static_cast<double>(tensor.shape[0])))};
}

// The product is exact in double (see Draw::next_normal), so each entry is rounded by the sum,
// which leaves double precision, and then once to float: by every compiler alike.
void fill(const TensorRef<float>& tensor, const Rule& rule, std::uint64_t seed) {
  Draw draw{.seed = seed, .stream = stream_of(tensor.name)};
  for (float& value : tensor.values) {
    value = static_cast<float>(double{rule.mean} + double{rule.scale} * draw.next_normal());
  }
}

void draw_columns_together(Matrix<float>& output, float spread) {
  for (Eigen::Index i = 0; i < output.rows(); ++i) {
    const double common = output(i, 0);
    for (Eigen::Index j = 0; j < output.cols(); ++j) {
      output(i, j) = static_cast<float>(common + double{spread} * double{output(i, j)});
    }
  }
}

// Two families with the same seed share no numbers.
std::uint64_t family_seed(const Family& family, std::uint64_t seed) {
  return hash(seed, stream_of(family.id), 0);
}

// Names.

std::string family_ids() {
  std::string ids;
  for (const std::span<const Family> table : {families(), large_families()}) {
    for (const Family& family : table) {
      if (!ids.empty()) ids += ", ";
      ids += family.id;
    }
  }
  return ids;
}

const Family& family_named(std::string_view name, std::string_view id) {
  for (const std::span<const Family> table : {families(), large_families()}) {
    const auto found = std::ranges::find(table, id, &Family::id);
    if (found != table.end()) return *found;
  }
  // The list is long: shorter echoes are enough.
  throw bad_input({one_line(name, kEchoMax / 2), "unknown family",
                   fmt::format("one of {}", family_ids()), one_line(id, kEchoMax / 2)});
}

std::uint64_t seed_named(std::string_view name, std::string_view text) {
  std::uint64_t seed = 0;
  std::from_chars(text.data(), text.data() + text.size(), seed);  // stays 0 without a number
  // Compared as text: 7x is no number, and 07 would be a second name for the model of 7.
  if (fmt::format("{}", seed) != text) {
    throw bad_input({one_line(name), "bad seed",
                     "a number from 0 to 18446744073709551615 without leading zeros", text});
  }
  return seed;
}

int context_named(std::string_view name, std::string_view text) {
  const std::string_view digits = text.substr(std::min(kContextPrefix.size(), text.size()));
  int context = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), context);
  const bool is_so = fmt::format("{}{}", kContextPrefix, context) == text;
  if (is_so && context >= 1 && context <= kNamedContextMax) return context;
  throw bad_input({one_line(name), "bad context",
                   fmt::format("{}1 to {}{}", kContextPrefix, kContextPrefix, kNamedContextMax),
                   one_line(text)});
}

}  // namespace

std::span<const Family> families() { return kFamilies; }

std::span<const Family> large_families() { return kLargeFamilies; }

Model<float> random_model(const Config& config, const WeightScales& scales, std::uint64_t seed) {
  Model<float> model = make_model<float>(config);
  for (const TensorRef<float>& tensor : tensors(model)) {
    fill(tensor, rule_of(tensor, scales), seed);
  }
  if (config.output == Output::separate && scales.output_spread < 1.0F) {
    draw_columns_together(model.output, scales.output_spread);
  }
  tie_output(model);
  return model;
}

Model<float> generate_model(const GeneratedName& name) {
  const std::uint64_t own = family_seed(*name.family, name.seed);
  Draw draw{.seed = own, .stream = stream_of("config")};
  Config config = name.family->config(draw);
  if (name.context > 0) config.context = name.context;
  return random_model(config, name.family->scales, own);
}

Model<float> generate_model(const Family& family, std::uint64_t seed) {
  return generate_model({&family, seed});
}

bool is_generated_name(std::string_view name) {
  return name.starts_with(kPrefix) || is_tiny_name(name);
}

std::string generated_name(const Family& family, std::uint64_t seed) {
  return fmt::format("{}{}:{}", kPrefix, family.id, seed);
}

GeneratedName parse_generated_name(std::string_view name) {
  if (!is_generated_name(name)) throw bad_input({"model", "not a generated name", kNameForm, name});
  const std::string_view rest = name.substr(kPrefix.size());
  const std::size_t colon = rest.find(':');
  const Family& family = family_named(name, rest.substr(0, colon));
  if (colon == std::string_view::npos)
    throw bad_input({one_line(name), "missing seed", kNameForm, name});
  const std::string_view numbers = rest.substr(colon + 1);
  const std::size_t next = numbers.find(':');
  GeneratedName parsed{&family, seed_named(name, numbers.substr(0, next))};
  if (next != std::string_view::npos) {
    parsed.context = context_named(name, numbers.substr(next + 1));
  }
  return parsed;
}

Model<float> generate_model(std::string_view name) {
  if (is_tiny_name(name)) return tiny_model(name);
  return generate_model(parse_generated_name(name));
}

std::vector<std::string> default_set(std::uint64_t seed) {
  std::vector<std::string> names;
  for (const Family& family : kFamilies) {
    if (family.in_default_set) names.push_back(generated_name(family, seed));
  }
  return names;
}

std::vector<int> random_tokens(int vocabulary, int count, std::uint64_t seed, std::uint64_t index) {
  Draw draw{.seed = hash(seed, stream_of("tokens"), 0), .stream = index};
  std::vector<int> tokens(static_cast<std::size_t>(count));
  std::generate(tokens.begin(), tokens.end(), [&] { return draw.next_below(vocabulary); });
  return tokens;
}

}  // namespace kvcheck
