// SPDX-License-Identifier: MIT
// The generators, built from choices that do not depend on RapidCheck's size.
#include "properties/gen.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ostream>
#include <utility>

#include "engine/error.h"
#include "engine/generated.h"
#include "engine/random.h"

namespace kvcheck {
namespace {

using Tokens = std::vector<int>;
using Schedule = std::vector<int>;

// At this size RapidCheck's integers are spread over their whole range; larger ones are not safe.
constexpr int kFullSize = 100;

// Every value of the range alike; shrinks towards the low end.
rc::Gen<int> uniform(IntRange range) {
  return rc::gen::resize(kFullSize, rc::gen::inRange(range.low, range.high + 1));
}

// Every listed value alike; shrinks towards the first.
template <typename T>
rc::Gen<T> one_of(std::vector<T> values) {
  const int last = static_cast<int>(values.size()) - 1;
  return rc::gen::map(uniform({0, last}), [values = std::move(values)](int i) {
    return values[static_cast<std::size_t>(i)];
  });
}

rc::Gen<std::vector<int>> some(int count, rc::Gen<int> element) {
  return rc::gen::container<std::vector<int>>(static_cast<std::size_t>(count), std::move(element));
}

// Shapes.

struct Heads {
  int query;
  int kv;
};

rc::Gen<Config> dimensions() {
  using rc::gen::set;
  return rc::gen::build<Config>(set(&Config::layers, one_of<int>({1, 2, 2, 2, 3, 4})),
                                set(&Config::width, one_of<int>({4, 5, 6, 8, 12, 16, 24})),
                                set(&Config::head_size, one_of<int>({2, 4, 6, 8})),
                                set(&Config::mlp_width, one_of<int>({4, 7, 8, 16, 32})),
                                set(&Config::vocabulary, one_of<int>({2, 3, 5, 8, 13, 24, 40, 1})),
                                set(&Config::context, one_of<int>({4, 3, 2, 6, 8, 12, 16, 20, 1})));
}

Config with_heads(Config c, Heads heads) {
  c.query_heads = heads.query;
  c.kv_heads = heads.kv;
  return c;
}

rc::Gen<Config> with_heads() {
  const auto heads = one_of<Heads>(
      {{1, 1}, {2, 2}, {2, 1}, {4, 2}, {3, 3}, {3, 1}, {4, 1}, {4, 4}, {6, 2}, {6, 3}});
  return rc::gen::map(rc::gen::pair(dimensions(), heads),
                      [](const auto& drawn) { return with_heads(drawn.first, drawn.second); });
}

rc::Gen<Config> with_choices() {
  using rc::gen::set;
  return rc::gen::build(
      with_heads(), set(&Config::norm, one_of<Norm>({Norm::layer, Norm::rms})),
      set(&Config::norm_epsilon, one_of<double>({1e-5, 1e-6, 1e-3})),
      set(&Config::positions,
          one_of<Positions>({Positions::none, Positions::learned, Positions::rotary,
                             Positions::learned, Positions::rotary, Positions::alibi})),
      set(&Config::rotary_pairs,
          one_of<RotaryPairs>({RotaryPairs::interleaved, RotaryPairs::halves})),
      set(&Config::rotary_base, one_of<double>({10000.0, 100.0, 500000.0})),
      set(&Config::mlp, one_of<Mlp>({Mlp::gelu_tanh, Mlp::swiglu, Mlp::geglu})),
      set(&Config::qkv_bias, one_of<bool>({false, true})),
      set(&Config::attention_output_bias, one_of<bool>({false, true})),
      set(&Config::mlp_bias, one_of<bool>({false, true})),
      set(&Config::output, one_of<Output>({Output::tied, Output::separate})),
      set(&Config::rotary_base_windowed, one_of<double>({0, 0, 0, 30.0})),
      set(&Config::post_norms, one_of<bool>({false, false, false, true})),
      set(&Config::score_size, one_of<double>({0, 0, 0, 3.0})),
      set(&Config::head_norm, one_of<bool>({false, false, false, true})),
      set(&Config::attention_cap, one_of<double>({0, 0, 0, 0, 1.0, 20.0})),
      set(&Config::logit_cap, one_of<double>({0, 0, 0, 0, 2.0, 30.0})),
      set(&Config::embedding_scale, one_of<double>({1.0, 1.0, 1.0, 0.5, 5.0})));
}

// Heads are rotated in part in a quarter of the cases that have two pairs at least.
rc::Gen<Config> with_rotated_dimensions(const Config& c) {
  std::vector<int> dimensions{0};
  if (c.head_size > 2) dimensions = {0, 0, 0, 2, 0, 0, 0, c.head_size - 2};
  return rc::gen::map(one_of(std::move(dimensions)), [c](int rotated) {
    Config result = c;
    result.rotary_dimensions = rotated;
    return result;
  });
}

// No window at all, or for each layer one of: none (twice as often), wider than the context, at its
// edges, between, two rows, one row.
rc::Gen<std::vector<int>> windows_of(const Config& c) {
  const int layers = c.layers;
  const int n = c.context;
  const auto edges = one_of<int>({0, 0, n + 3, n, n - 1, (n + 1) / 2, 2, 1});
  return rc::gen::weightedOneOf<std::vector<int>>(
      {{3, rc::gen::just(std::vector<int>(static_cast<std::size_t>(layers), 0))},
       {2, some(layers, edges)}});
}

rc::Gen<Config> with_windows(const Config& c) {
  return rc::gen::map(windows_of(c), [c](std::vector<int> windows) {
    Config result = c;
    result.windows = std::move(windows);
    return result;
  });
}

// Tokens.

// One less, as many, and one more tokens than some layer's window holds.
std::vector<int> window_edges(const Config& c) {
  std::vector<int> edges;
  for (const int window : c.windows) {
    for (const int edge : {window - 1, window, window + 1}) {
      if (window > 0 && 1 <= edge && edge <= c.context) edges.push_back(edge);
    }
  }
  return edges;
}

rc::Gen<int> length_of(const Config& c) {
  const rc::Gen<int> any = uniform({1, c.context});
  const std::vector<int> edges = window_edges(c);
  return rc::gen::weightedOneOf<int>({{20, rc::gen::just(c.context)},
                                      {10, rc::gen::just(1)},
                                      {10, rc::gen::just(std::max(1, c.context - 1))},
                                      {25, edges.empty() ? any : one_of(edges)},
                                      {35, any}});
}

rc::Seq<Tokens> fewer_or_lower(const Tokens& tokens) {
  auto fewer = rc::seq::filter(rc::shrink::removeChunks(tokens),
                               [](const Tokens& shorter) { return !shorter.empty(); });
  auto lower = rc::shrink::eachElement(tokens, [](int id) { return rc::shrink::towards(id, 0); });
  return rc::seq::concat(std::move(fewer), std::move(lower));
}

// Schedules.

Schedule decode(int length) { return Schedule(static_cast<std::size_t>(length), 1); }

// The first `prefill` tokens at once, then one by one.
Schedule prefill_then_decode(int prefill, int length) {
  Schedule feeds = decode(length - prefill + 1);
  feeds.front() = prefill;
  return feeds;
}

Schedule two_feeds(int first, int length) {
  return first == length ? Schedule{length} : Schedule{first, length - first};
}

// One entry of `cuts` for each place between two tokens: nonzero ends the feed there.
Schedule cut_at(const std::vector<int>& cuts) {
  Schedule feeds = {1};
  for (const int cut : cuts) {
    if (cut != 0) {
      feeds.push_back(1);
    } else {
      ++feeds.back();
    }
  }
  return feeds;
}

// One feed; then every way of joining two neighbours.
rc::Seq<Schedule> fewer_feeds(const Schedule& feeds) {
  std::vector<Schedule> simpler;
  for (std::size_t i = 0; i + 1 < feeds.size(); ++i) {
    Schedule joined = feeds;
    joined[i] += joined[i + 1];
    joined.erase(joined.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    simpler.push_back(std::move(joined));
  }
  int length = 0;
  for (const int feed : feeds) length += feed;
  if (feeds.size() > 2) simpler.insert(simpler.begin(), Schedule{length});
  return rc::seq::fromContainer(std::move(simpler));
}

}  // namespace

rc::Gen<Config> any_config() {
  return rc::gen::mapcat(rc::gen::mapcat(with_choices(), with_rotated_dimensions), with_windows);
}

std::string GeneratedModel::name() const { return fmt::format("gen:{}:{}", family, seed); }

rc::Gen<GeneratedModel> any_model() {
  std::vector<std::string> ids;
  for (const Family& family : families()) ids.emplace_back(family.id);
  return rc::gen::build<GeneratedModel>(
      rc::gen::set(&GeneratedModel::family, one_of(std::move(ids))),
      rc::gen::set(&GeneratedModel::seed, any_seed()));
}

rc::Gen<std::uint64_t> any_seed() {
  return rc::gen::noShrink(rc::gen::resize(kFullSize, rc::gen::arbitrary<std::uint64_t>()));
}

rc::Gen<Tokens> any_tokens(const Config& config) {
  const rc::Gen<int> token = uniform({0, config.vocabulary - 1});
  auto drawn =
      rc::gen::mapcat(length_of(config), [token](int length) { return some(length, token); });
  return rc::gen::shrink(rc::gen::noShrink(std::move(drawn)), &fewer_or_lower);
}

rc::Gen<Schedule> any_schedule(int length) {
  require(length >= 1, "a schedule needs at least one token");
  const auto split = uniform({1, length});
  const auto prefill =
      rc::gen::map(split, [length](int first) { return prefill_then_decode(first, length); });
  const auto two = rc::gen::map(split, [length](int first) { return two_feeds(first, length); });
  auto drawn = rc::gen::weightedOneOf<Schedule>(
      {{20, rc::gen::just(decode(length))},
       {20, rc::gen::just(Schedule{length})},
       {20, prefill},
       {15, two},
       {25, rc::gen::map(some(length - 1, uniform({0, 1})), cut_at)}});
  return rc::gen::shrink(rc::gen::noShrink(std::move(drawn)), &fewer_feeds);
}

std::ostream& operator<<(std::ostream& out, const Config& c) {
  out << fmt::format(
      "vocabulary {}, width {}, layers {}, heads {}/{} of {}, mlp {} {}, context {}, norm {} {}, "
      "positions {}, pairs {}, base {}, biases {}{}{}, output {}, windows {}",
      c.vocabulary, c.width, c.layers, c.query_heads, c.kv_heads, c.head_size, name(c.mlp),
      c.mlp_width, c.context, name(c.norm), c.norm_epsilon, name(c.positions), name(c.rotary_pairs),
      c.rotary_base, int{c.qkv_bias}, int{c.attention_output_bias}, int{c.mlp_bias}, name(c.output),
      fmt::join(c.windows, "/"));
  if (c.rotary_base_windowed > 0) out << fmt::format(", windowed base {}", c.rotary_base_windowed);
  if (c.rotary_dimensions > 0) out << fmt::format(", {} rotated", c.rotary_dimensions);
  if (c.head_norm) out << ", head norm";
  if (c.post_norms) out << ", post norms";
  if (c.score_size > 0) out << ", score size " << c.score_size;
  if (c.attention_cap > 0) out << fmt::format(", attention cap {}", c.attention_cap);
  if (c.logit_cap > 0) out << fmt::format(", logit cap {}", c.logit_cap);
  if (c.embedding_scale != 1) out << fmt::format(", embedding scale {}", c.embedding_scale);
  return out;
}

std::ostream& operator<<(std::ostream& out, const GeneratedModel& model) {
  return out << model.name();
}

}  // namespace kvcheck
