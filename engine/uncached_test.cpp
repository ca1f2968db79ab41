// SPDX-License-Identifier: MIT
// The oracle against models worked out by hand, and what must hold for every decoder: causality,
// sequences that do not meet, windows that hide, heads that share.
#include "engine/uncached.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <numeric>

#include "engine/generated.h"
#include "engine/test_support.h"

namespace kvcheck {
namespace {

using Tokens = std::vector<int>;
constexpr Arithmetic kBoth[] = {Arithmetic::row, Arithmetic::matrix};

template <typename T>
LogitRows<T> logits(const Model<T>& model, const TokenBlock& block,
                    Arithmetic arithmetic = Arithmetic::row, Rows rows = Rows::all) {
  LogitRows<T> out;
  copy_rows(Uncached<T>(model, ops_for<T>(arithmetic)).logits(block, rows), out);
  return out;
}

template <typename T>
bool same_bits(std::span<const T> a, std::span<const T> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// One layer of width 1, RMSNorm with epsilon 0.75: +-0.5 becomes +-0.5 times the scale.
Model<double> hand_model() {
  Config config = tiny_config();
  config.norm_epsilon = 0.75;
  config.mlp = Mlp::swiglu;
  config.mlp_bias = true;
  config.output = Output::separate;
  Model<double> model = make_model<double>(config);
  Layer<double>& layer = model.layers[0];
  model.embedding << 0.5, -0.5;
  layer.attention_norm.scale << 2;
  layer.query.weight << 1;
  layer.key.weight << std::log(3.0);
  layer.value.weight << 4;
  layer.attention_output.weight << 0.25;
  layer.mlp_norm.scale << 1;
  layer.mlp_gate.bias << std::log(3.0);
  layer.mlp_up.weight << 4 / (3 * std::log(3.0));
  layer.mlp_down.weight << 1;
  layer.mlp_down.bias << 0.5;
  model.final_norm.scale << 1;
  model.output << 1, -2;
  return model;
}

// Tokens 0, 1 are normed to n = 1, -1; q = n, k = n ln 3, v = 4 n.
// Row 0 sees v = 4 alone: x = 0.5 + 4 / 4 = 1.5.
// Row 1 scores -ln 3, ln 3, that is 1/3 : 3 or 0.1, 0.9: x = -0.5 + (0.1 * 4 - 0.9 * 4) / 4 = -1.3.
// MLP: silu(ln 3) = ln 3 / (1 + 1/3) = 3/4 ln 3, times up = 4 / (3 ln 3) normed x: adds the normed
// x, and 0.5. Logits: the normed sum times 1 and -2.
TEST(Uncached, gives_the_logits_worked_out_by_hand) {
  const Model<double> model = hand_model();
  const auto norm = [](double x) { return x / std::sqrt(x * x + 0.75); };
  const double row_0 = norm(1.5 + norm(1.5) + 0.5);
  const double row_1 = norm(-1.3 + norm(-1.3) + 0.5);
  for (const Arithmetic arithmetic : kBoth) {
    const auto found = logits(model, {Tokens{0, 1}}, arithmetic);
    ASSERT_EQ(found.rows(), 2);
    EXPECT_NEAR(found.row(0)[0], row_0, 1e-14);
    EXPECT_NEAR(found.row(0)[1], -2 * row_0, 1e-14);
    EXPECT_NEAR(found.row(1)[0], row_1, 1e-14);
    EXPECT_NEAR(found.row(1)[1], -2 * row_1, 1e-14);
    const auto widest = logits(cast<long double>(model), {Tokens{0, 1}}, arithmetic);
    EXPECT_NEAR(static_cast<double>(widest.row(1)[0]), row_1, 1e-14);
  }
}

// ---- What only some decoders have, in the same model

double last_by_hand(double first_score, double second_score) {
  const auto norm = [](double x) { return x / std::sqrt(x * x + 0.75); };
  const double first = 1 / (1 + std::exp(second_score - first_score));
  const double x = -0.5 + first - (1 - first);
  return norm(x + norm(x) + 0.5);
}

void expect_last(const Model<double>& model, double expected) {
  for (const Arithmetic arithmetic : kBoth) {
    const auto found = logits(model, {Tokens{0, 1}}, arithmetic);
    EXPECT_NEAR(found.row(1)[0], expected, 1e-14);
    const auto wide = logits(cast<long double>(model), {Tokens{0, 1}}, arithmetic);
    EXPECT_NEAR(static_cast<double>(wide.row(1)[0]), expected, 1e-14);
  }
}

TEST(Uncached, caps_scores_and_logits_by_hand) {
  const double ln3 = std::log(3.0);
  Model<double> model = hand_model();
  expect_last(model, last_by_hand(-ln3, ln3));
  model.config.attention_cap = ln3;
  const double expected = last_by_hand(-ln3 * std::tanh(1.0), ln3 * std::tanh(1.0));
  expect_last(model, expected);
  model.config.logit_cap = 0.25;
  expect_last(model, 0.25 * std::tanh(expected / 0.25));
}

// One head: its slope is 1 / 256. The bias comes after the scale and before the cap.
TEST(Uncached, lowers_scores_by_the_distance_by_hand) {
  const double ln3 = std::log(3.0);
  Model<double> model = hand_model();
  model.config.positions = Positions::alibi;
  expect_last(model, last_by_hand(-ln3 - 1.0 / 256, ln3));
  model.config.attention_cap = 0.5;
  const auto capped = [](double score) { return 0.5 * std::tanh(score / 0.5); };
  expect_last(model, last_by_hand(capped(-ln3 - 1.0 / 256), capped(ln3)));
}

// q = 1, k = ln 3 and their negatives, each normed by itself and scaled.
TEST(Uncached, norms_heads_by_hand) {
  const double ln3 = std::log(3.0);
  Model<double> model = hand_model();
  model.config.head_norm = true;
  model.layers[0].query_norm.scale.setConstant(1, 3);
  model.layers[0].key_norm.scale.setConstant(1, 0.5);
  const double q = 3 / std::sqrt(1.75);
  const double k = 0.5 * ln3 / std::sqrt(ln3 * ln3 + 0.75);
  expect_last(model, last_by_hand(-q * k, q * k));
}

TEST(Uncached, scales_the_embedding_and_nothing_else) {
  Model<double> model = hand_model();
  const auto expected = logits(model, {Tokens{0, 1}});
  model.embedding /= 4;
  model.config.embedding_scale = 4;
  EXPECT_EQ(logits(model, {Tokens{0, 1}}).values, expected.values);
}

// Nothing but embedding (1, 0) + position (p, 0), LayerNorm with epsilon 0.75 and a tied output:
// half the difference d = (1 + p) / 2 is normed to +-d / sqrt(d^2 + 0.75), then scaled and shifted.
TEST(Uncached, adds_learned_positions_and_centres_by_hand) {
  Config config = tiny_config();
  config.width = 2;
  config.norm = Norm::layer;
  config.norm_epsilon = 0.75;
  config.positions = Positions::learned;
  Model<double> model = make_model<double>(config);
  model.embedding << 1, 0, 3, 5;
  model.positions << 0, 0, 1, 0, 2, 0, 3, 0;
  model.final_norm.scale << 2, 4;
  model.final_norm.shift << 0.5, 0.25;
  tie_output(model);
  const auto found = logits(model, {Tokens{0, 0, 0, 0}});
  for (int p = 0; p < 4; ++p) {
    const double d = 0.5 * (1 + p);
    const double first = 2 * d / std::sqrt(d * d + 0.75) + 0.5;
    const double second = -4 * d / std::sqrt(d * d + 0.75) + 0.25;
    EXPECT_NEAR(found.row(p)[0], first, 1e-14);
    EXPECT_NEAR(found.row(p)[1], 3 * first + 5 * second, 1e-13);
  }
}

Config small_config(std::vector<int> windows) {
  Config c;
  c.vocabulary = 11;
  c.width = 6;
  c.layers = static_cast<int>(windows.size());
  c.windows = std::move(windows);
  c.query_heads = 4;
  c.kv_heads = 2;
  c.head_size = 4;
  c.mlp_width = 9;
  c.context = 12;
  c.positions = Positions::learned;
  c.qkv_bias = true;
  return c;
}

Model<float> small_model(std::vector<int> windows = {0, 0}) {
  return random_model(small_config(std::move(windows)), WeightScales{}, 5);
}

TEST(Uncached, no_row_depends_on_later_tokens) {
  for (const Family& family : families()) {
    const Model<float> model = generate_model(family, 3);
    const int length = model.config.context;
    Tokens tokens = random_tokens(model.config.vocabulary, length, 1, 0);
    const auto before = logits(model, {tokens});
    for (int i = length - 1; i > 0; --i) {
      int& token = tokens[static_cast<std::size_t>(i)];
      token = (token + 1) % model.config.vocabulary;
      const auto after = logits(model, {tokens});
      for (int r = 0; r < i; ++r) ASSERT_TRUE(same_bits(before.row(r), after.row(r))) << family.id;
      const bool moved = !same_bits(before.row(i), after.row(i));
      ASSERT_TRUE(moved || model.config.vocabulary == 1) << family.id;
    }
  }
}

TEST(Uncached, a_block_of_sequences_is_each_of_them_alone) {
  for (const Family& family : families()) {
    const Model<float> model = generate_model(family, 4);
    const int length = std::min(model.config.context, 5);
    for (const int sequences : {2, 3, 8, 13}) {
      const Tokens all = random_tokens(model.config.vocabulary, length * sequences, 2, 0);
      const auto together = logits(model, {all, sequences});
      for (int b = 0; b < sequences; ++b) {
        Tokens own;
        for (int t = 0; t < length; ++t) own.push_back(all[t * sequences + b]);
        const auto alone = logits(model, {own});
        for (int t = 0; t < length; ++t) {
          ASSERT_TRUE(same_bits(together.row(t * sequences + b), alone.row(t))) << family.id;
        }
      }
    }
  }
}

TEST(Uncached, the_last_rows_are_the_last_of_all_rows) {
  const Model<float> model = small_model();
  const Tokens tokens{1, 2, 3, 4, 5, 6};
  const TokenBlock block{tokens, 2};
  const auto all = logits(model, block);
  const auto last = logits(model, block, Arithmetic::row, Rows::last);
  ASSERT_EQ(last.rows(), 2);
  EXPECT_TRUE(same_bits(last.row(0), all.row(4)));
  EXPECT_TRUE(same_bits(last.row(1), all.row(5)));
}

// Windows of 2 and 3: the last of 8 rows reaches back 1 + 2 rows, to token 4.
TEST(Uncached, a_row_depends_on_just_the_tokens_that_its_windows_reach) {
  const Model<float> model = small_model({2, 3});
  const Tokens tokens{1, 2, 3, 4, 5, 6, 7, 8};
  for (const Arithmetic arithmetic : kBoth) {
    const auto before = logits(model, {tokens}, arithmetic);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      Tokens changed = tokens;
      changed[i] = 9;
      const auto after = logits(model, {changed}, arithmetic);
      EXPECT_EQ(same_bits(before.row(7), after.row(7)), i < 4) << i;
    }
  }
}

// The columns of a K/V head, once for each query head that reads it.
void repeat_heads(const Linear<float>& from, const Config& config, Linear<float>& to) {
  const int size = config.head_size;
  for (int h = 0; h < config.query_heads; ++h) {
    const int kv = h / config.group();
    to.weight.middleCols(h * size, size) = from.weight.middleCols(kv * size, size);
    to.bias.segment(h * size, size) = from.bias.segment(kv * size, size);
  }
}

TEST(Uncached, grouped_heads_are_heads_with_repeated_keys_and_values) {
  const Model<float> grouped = small_model();
  Config config = grouped.config;
  config.kv_heads = config.query_heads;
  Model<float> repeated = random_model(config, WeightScales{}, 5);
  for (std::size_t l = 0; l < repeated.layers.size(); ++l) {
    const Layer<float>& from = grouped.layers[l];
    Layer<float> to = from;
    to.key = repeated.layers[l].key;
    to.value = repeated.layers[l].value;
    repeat_heads(from.key, grouped.config, to.key);
    repeat_heads(from.value, grouped.config, to.value);
    repeated.layers[l] = to;
  }
  const Tokens tokens{3, 1, 4, 1, 5};
  const TokenBlock block{tokens};
  EXPECT_EQ(logits(grouped, block).values, logits(repeated, block).values);
}

// "site layer row: rows x columns" of every call.
std::vector<std::string> sites_seen(const Model<float>& model, const TokenBlock& block, Rows rows) {
  std::vector<std::string> seen;
  const auto note = [&](const SiteTensor<float>& t) {
    seen.push_back(std::string(name(t.site)) + " " + std::to_string(t.layer) + " " +
                   std::to_string(t.row) + ": " + std::to_string(t.rows) + " x " +
                   std::to_string(t.columns));
  };
  const Observer<float> observer(note, SiteSet::all());
  (void)Uncached<float>(model, row_ops<float>()).logits(block, rows, &observer);
  return seen;
}

// What is seen of a layer: `top` for the last one when only last rows are asked for, which computes
// keys and values of all rows but queries, and what follows from them, of the last ones only.
std::vector<std::string> sites_of_layer(int layer, bool top) {
  const std::string l = fmt::format(" {} ", layer);
  const std::string rows = top ? "0: 2 x " : "0: 4 x ";
  std::vector<std::string> sites{"attention_norm" + l + "0: 4 x 6", "query" + l + rows + "16",
                                 "key" + l + "0: 4 x 8", "value" + l + "0: 4 x 8"};
  for (int token = top ? 1 : 0; token < 2; ++token) {
    for (const std::string site : {"cached_key", "cached_value"}) {
      for (int row = 2 * token; row < 2 * token + 2; ++row) {
        sites.push_back(fmt::format("{}{}{}: {} x 8", site, l, row, token + 1));
      }
    }
    for (const std::string site : {"scores", "probabilities"}) {
      for (int row = 2 * token; row < 2 * token + 2; ++row) {
        sites.push_back(fmt::format("{}{}{}: 4 x {}", site, l, row, token + 1));
      }
    }
  }
  for (const std::string site : {"attention", "attention_output", "attention_residual", "mlp_norm",
                                 "mlp_hidden", "mlp_output", "residual"}) {
    const std::string columns = site == "attention" ? "16" : site == "mlp_hidden" ? "9" : "6";
    sites.push_back(site + l + rows + columns);
  }
  return sites;
}

// Two sequences of two tokens, width 6, 4 heads of 4 over 2 K/V heads, MLP 9, vocabulary 11.
TEST(Uncached, observers_see_every_site_in_the_order_of_dependence) {
  for (const Rows rows : {Rows::all, Rows::last}) {
    std::vector<std::string> expected{"embedding -1 0: 4 x 6", "input -1 0: 4 x 6"};
    for (const int layer : {0, 1}) {
      const auto sites = sites_of_layer(layer, layer == 1 && rows == Rows::last);
      expected.insert(expected.end(), sites.begin(), sites.end());
    }
    const std::string answered = rows == Rows::all ? "4" : "2";
    expected.push_back("final_norm -1 0: " + answered + " x 6");
    expected.push_back("logits -1 0: " + answered + " x 11");
    EXPECT_EQ(sites_seen(small_model(), {Tokens{1, 2, 3, 4}, 2}, rows), expected);
  }
}

TEST(Uncached, an_observer_sees_the_values_that_come_out) {
  const Model<float> model = small_model();
  const Tokens tokens{1, 2, 3};
  const TokenBlock block{tokens};
  std::vector<float> seen;
  const Observer<float> observer = [&](const SiteTensor<float>& t) {
    if (t.site == Site::probabilities) {
      float sum = 0;
      for (int c = 0; c < t.columns; ++c) sum += t.at(t.rows - 1, c);
      EXPECT_NEAR(sum, 1, 1e-6);
    }
    if (t.site != Site::logits) return;
    for (int i = 0; i < t.rows * t.columns; ++i) seen.push_back(t.at(i / 11, i % 11));
  };
  (void)Uncached<float>(model, row_ops<float>()).logits(block, Rows::all, &observer);
  EXPECT_EQ(seen, logits(model, block).values);
}

TEST(Uncached, what_an_observer_changes_changes_the_last_row) {
  const Model<float> model = small_model();
  const Tokens tokens{1, 2, 3};
  const TokenBlock block{tokens};
  const auto before = logits(model, block);
  for (int s = 0; s <= static_cast<int>(Site::logits); ++s) {
    const auto change = [s](const SiteTensor<float>& t) {
      if (t.site == static_cast<Site>(s)) t.at(t.rows - 1, 0) += 1;
    };
    const Observer<float> observer(change, SiteSet::all());
    LogitRows<float> after;
    copy_rows(Uncached<float>(model, row_ops<float>()).logits(block, Rows::all, &observer), after);
    EXPECT_FALSE(same_bits(before.row(2), after.row(2))) << name(static_cast<Site>(s));
  }
}

TEST(Uncached, refuses_what_the_model_cannot_take) {
  const Model<float> model = small_model();
  const auto refusal = [&](const Tokens& tokens, int sequences = 1) {
    return error_of([&] { (void)logits(model, {tokens, sequences}); });
  };
  EXPECT_EQ(refusal({}), "full: no tokens, expected at least 1, got 0");
  EXPECT_EQ(refusal(Tokens(13, 0)), "full: past the context, expected at most 12 rows, got 13");
  EXPECT_EQ(refusal({1, 11}),
            "full: token outside the vocabulary, expected an id from 0 to 10, got 11");
  EXPECT_EQ(refusal({-1}),
            "full: token outside the vocabulary, expected an id from 0 to 10, got -1");
  EXPECT_EQ(refusal(Tokens(24, 0), 2), "no error");
}

// Rotary positions. A pair (a, b) is a + b i, turned by position * base^(-2 i / head size).

using Complex = std::complex<long double>;

// The entries of pair i of head h: the two pairings differ in nothing else.
std::pair<int, int> pair_of(RotaryPairs pairs, int h, int i, int size) {
  if (pairs == RotaryPairs::halves) return {h * size + i, h * size + i + size / 2};
  return {h * size + 2 * i, h * size + 2 * i + 1};
}

Config rotary_config(int head_size) {
  Config c = small_config({0});
  c.positions = Positions::rotary;
  c.head_size = head_size;
  c.context = 40;
  c.rotary_base = 100;
  return c;
}

template <typename T>
std::vector<T> rotated(const Config& config, RotaryPairs pairs, std::vector<T> row, int position) {
  const View<T> view{row.data(), 1, static_cast<int>(row.size()), 1};
  rotate(rotary_table<T>(config, config.rotary_base), pairs, std::vector<int>{position},
         config.head_size, view);
  return row;
}

template <typename T>
std::vector<T> some_row(int size, std::uint64_t seed) {
  Draw draw{.seed = seed};
  std::vector<T> row(static_cast<std::size_t>(size));
  for (T& value : row) value = static_cast<T>(draw.next_normal());
  return row;
}

template <typename T>
class Rotary : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(Rotary, Scalars);

TYPED_TEST(Rotary, turns_each_pair_of_each_head_by_its_own_angle) {
  using T = TypeParam;
  for (const int size : {2, 4, 6, 16}) {
    const std::vector<T> row = some_row<T>(3 * size, 1);
    for (const RotaryPairs pairs : {RotaryPairs::interleaved, RotaryPairs::halves}) {
      for (const int position : {0, 1, 7, 39}) {
        const std::vector<T> found = rotated(rotary_config(size), pairs, row, position);
        for (int i = 0; i < 3 * size / 2; ++i) {
          const auto [a, b] = pair_of(pairs, i / (size / 2), i % (size / 2), size);
          const long double angle = position * std::pow(100.0L, -2.0L * (i % (size / 2)) / size);
          const Complex turned = Complex(row[a], row[b]) * std::polar(1.0L, angle);
          const T bound =
              4 * std::numeric_limits<T>::epsilon() * (1 + std::abs(row[a]) + std::abs(row[b]));
          EXPECT_NEAR(found[a], T(turned.real()), bound);
          EXPECT_NEAR(found[b], T(turned.imag()), bound);
        }
        EXPECT_EQ(found == row, position == 0);
      }
    }
  }
}

TYPED_TEST(Rotary, scores_depend_on_the_distance_of_positions_only) {
  using T = TypeParam;
  const Config config = rotary_config(8);
  const std::vector<T> q = some_row<T>(8, 2);
  const std::vector<T> k = some_row<T>(8, 3);
  for (const RotaryPairs pairs : {RotaryPairs::interleaved, RotaryPairs::halves}) {
    const auto score = [&](int q_position, int k_position) {
      const std::vector<T> a = rotated(config, pairs, q, q_position);
      const std::vector<T> b = rotated(config, pairs, k, k_position);
      return std::inner_product(a.begin(), a.end(), b.begin(), T(0));
    };
    for (int shift = 1; shift < 30; ++shift) {
      EXPECT_NEAR(score(9, 4), score(9 + shift, 4 + shift), 60 * std::numeric_limits<T>::epsilon());
    }
    EXPECT_GT(std::abs(score(9, 4) - score(9, 5)), 0.01);
  }
}

TYPED_TEST(Rotary, every_row_of_a_block_takes_its_own_position) {
  using T = TypeParam;
  const Config config = rotary_config(4);
  const std::vector<int> positions{5, 0, 39, 5, 12};
  std::vector<T> block = some_row<T>(6 * 8, 4);  // [feature][row], 6 scalars apart
  const std::vector<T> before = block;
  rotate(rotary_table<T>(config, config.rotary_base), RotaryPairs::halves, positions, 4,
         {block.data(), 5, 8, 6});
  for (std::size_t r = 0; r < 5; ++r) {
    std::vector<T> own(8);
    for (std::size_t f = 0; f < 8; ++f) own[f] = before[6 * f + r];
    own = rotated(config, RotaryPairs::halves, own, positions[r]);
    for (std::size_t f = 0; f < 8; ++f) EXPECT_EQ(block[6 * f + r], own[f]);
  }
}

// ---- Two rotary bases

// A window that hides nothing only chooses the base.
TEST(Uncached, layers_with_a_window_rotate_by_their_own_base) {
  const Tokens tokens{1, 2, 3, 4, 5, 6};
  const auto with = [&](double base, double windowed, std::vector<int> windows) {
    Config config = small_config(std::move(windows));
    config.positions = Positions::rotary;
    config.rotary_base = base;
    config.rotary_base_windowed = windowed;
    return logits(random_model(config, WeightScales{}, 5), {tokens}).values;
  };
  const auto one = with(1000, 0, {0, 0});
  const auto other = with(20, 0, {0, 0});
  EXPECT_NE(one, other);
  EXPECT_EQ(with(1000, 20, {0, 0}), one);
  EXPECT_EQ(with(1000, 20, {12, 12}), other);
  EXPECT_EQ(with(1000, 0, {12, 12}), one);
  EXPECT_NE(with(1000, 20, {12, 0}), one);
  EXPECT_NE(with(1000, 20, {12, 0}), other);
  EXPECT_EQ(with(1000, 20, {12, 0}), with(20, 1000, {0, 12}));
}

}  // namespace
}  // namespace kvcheck
