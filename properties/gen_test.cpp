// SPDX-License-Identifier: MIT
// The generators reach what they promise to reach, on stated shares of the cases. A property test
// whose edges are never drawn passes for the wrong reason.
#include "properties/gen.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <sstream>
#include <string>
#include <unordered_map>

#include "engine/generated.h"

namespace kvcheck {
namespace {

namespace detail = rc::detail;

constexpr int kCases = 3000;

struct Silent : detail::TestListener {
  void onTestCaseFinished(const detail::CaseDescription&) override {}
  void onShrinkTried(const detail::CaseDescription&, bool) override {}
  void onTestFinished(const detail::TestMetadata&, const detail::TestResult&) override {}
};

// Runs the property without looking at the environment, on the same cases every time.
template <typename Property>
detail::TestResult run(Property property) {
  detail::TestMetadata metadata;
  metadata.id = "gen";
  detail::TestParams params;
  params.seed = 1;
  params.maxSuccess = kCases;
  Silent listener;
  const std::unordered_map<std::string, detail::Reproduce> none;
  return detail::checkTestable(property, metadata, params, listener, none);
}

// The share of cases with each tag; none, and a failed test, unless all cases passed.
class Shares {
 public:
  template <typename Property>
  explicit Shares(Property property) {
    const detail::TestResult result = run(property);
    detail::SuccessResult success;
    if (!result.match(success) || success.numSuccess != kCases) {
      std::ostringstream message;
      detail::printResultMessage(result, message);
      ADD_FAILURE() << message.str();
      return;
    }
    for (const auto& [tags, count] : success.distribution) {
      for (const std::string& tag : std::set<std::string>(tags.begin(), tags.end())) {
        shares_[tag] += count / double{kCases};
      }
    }
  }

  double operator[](const std::string& tag) const {
    const auto found = shares_.find(rc::toString(tag));
    return found == shares_.end() ? 0.0 : found->second;
  }

 private:
  std::map<std::string, double> shares_;
};

// The values of a failed property's smallest counterexample, as shown.
template <typename Property>
std::vector<std::string> smallest(Property property) {
  detail::FailureResult failure;
  std::vector<std::string> shown;
  if (!run(property).match(failure)) return shown;
  for (const auto& [type, value] : failure.counterExample) shown.push_back(value);
  return shown;
}

void tag(std::string_view text) { RC_TAG(std::string(text)); }

void expect_at_least(const Shares& shares, double least, std::initializer_list<const char*> tags) {
  for (const char* const tag : tags) EXPECT_GE(shares[tag], least) << tag;
}

TEST(Gen, configs_are_valid_and_have_every_choice) {
  const Shares shares([] {
    const Config c = *any_config();
    validate(c, "config");
    for (const auto choice : {name(c.norm), name(c.positions), name(c.mlp), name(c.output)}) {
      tag(choice);
    }
    if (c.positions == Positions::rotary) tag(name(c.rotary_pairs));
    tag(c.qkv_bias ? "qkv bias" : "no qkv bias");
    tag(c.attention_output_bias ? "attention bias" : "no attention bias");
    tag(c.mlp_bias ? "mlp bias" : "no mlp bias");
    if (c.head_norm) tag("head norm");
    if (c.attention_cap > 0) tag("attention cap");
    if (c.logit_cap > 0) tag("logit cap");
    if (c.embedding_scale != 1) tag("embedding scale");
    if (c.rotated() < c.head_size) tag("partial rotary");
    if (c.rotary_base_windowed > 0) tag("windowed base");
    for (int l = 0; l < c.layers; ++l) {
      if (c.rotary_bases().size() > 1 && c.rotary_base_of(l) == 1) tag("windowed base in use");
    }
  });
  expect_at_least(shares, 0.45,
                  {"layer", "rms", "tied", "separate", "qkv bias", "no qkv bias", "attention bias",
                   "no attention bias", "mlp bias", "no mlp bias"});
  expect_at_least(shares, 0.3, {"gelu-tanh", "swiglu", "geglu"});
  expect_at_least(shares, 0.3, {"learned", "rotary"});
  expect_at_least(shares, 0.3, {"attention cap", "logit cap", "embedding scale"});
  expect_at_least(shares, 0.2, {"head norm", "windowed base"});
  expect_at_least(shares, 0.13, {"none", "alibi", "interleaved", "halves", "partial rotary"});
  expect_at_least(shares, 0.015, {"windowed base in use"});
}

TEST(Gen, configs_have_every_kind_of_shape) {
  const Shares shares([] {
    const Config c = *any_config();
    tag(c.layers == 1 ? "one layer" : c.layers == 2 ? "two layers" : "more layers");
    tag(c.query_heads == c.kv_heads ? "all heads" : c.kv_heads == 1 ? "one K/V head" : "grouped");
    if (c.width != c.query_width()) tag("width apart from heads");
    if (c.context == 1) tag("context 1");
    if (c.vocabulary == 1) tag("vocabulary 1");
    const auto windows = std::count_if(c.windows.begin(), c.windows.end(), [](int w) { return w; });
    tag(windows == 0 ? "no windows" : windows < c.layers ? "some windows" : "all windows");
    for (const int edge : {1, 2, c.context - 1, c.context, c.context + 3}) {
      if (std::count(c.windows.begin(), c.windows.end(), edge) == 0) continue;
      tag(edge <= 2 ? fmt::format("window {}", edge)
                    : fmt::format("window context{:+}", edge - c.context));
    }
  });
  expect_at_least(shares, 0.4, {"two layers", "width apart from heads", "no windows"});
  expect_at_least(shares, 0.12,
                  {"one layer", "more layers", "all heads", "one K/V head", "grouped",
                   "some windows", "all windows"});
  expect_at_least(shares, 0.05,
                  {"context 1", "vocabulary 1", "window 1", "window 2", "window context-1",
                   "window context+0", "window context+3"});
}

TEST(Gen, models_are_of_every_family_and_never_the_same) {
  std::set<std::uint64_t> seeds;
  const Shares shares([&seeds] {
    const GeneratedModel model = *any_model();
    const GeneratedName parsed = parse_generated_name(model.name());
    RC_ASSERT(parsed.family->id == model.family);
    RC_ASSERT(parsed.seed == model.seed);
    seeds.insert(model.seed);
    tag(model.family);
  });
  for (const Family& family : families()) {
    EXPECT_GE(shares[std::string(family.id)], 0.033) << family.id;
  }
  EXPECT_EQ(seeds.size(), std::size_t{kCases});
}

TEST(Gen, seeds_use_all_64_bits) {
  std::uint64_t any = 0;
  std::uint64_t all = ~std::uint64_t{0};
  std::set<std::uint64_t> seen;
  const Shares shares([&] {
    const std::uint64_t seed = *any_seed();
    any |= seed;
    all &= seed;
    seen.insert(seed);
    tag(seed >> 63 != 0 ? "high" : "low");
  });
  EXPECT_EQ(any, ~std::uint64_t{0});
  EXPECT_EQ(all, 0U);
  EXPECT_EQ(seen.size(), std::size_t{kCases});
  expect_at_least(shares, 0.45, {"high", "low"});
}

// Tags that say where `length` lies among the edges of `c`.
void tag_length(const Config& c, int length) {
  if (length == c.context) tag("context");
  if (length == 1) tag("one");
  if (length == c.context - 1) tag("context - 1");
  if (1 < length && length < c.context - 1) tag("between");
  for (const int window : c.windows) {
    if (window > 0 && length == window - 1) tag("window - 1");
    if (window > 0 && length == window) tag("window");
    if (window > 0 && length == window + 1) tag("window + 1");
  }
}

// The tokens of a model with windows and a context that is long against them.
Config long_context() { return {.vocabulary = 7, .layers = 2, .context = 40, .windows = {0, 12}}; }

TEST(Gen, tokens_are_valid) {
  const Shares shares([] {
    const Config c = *any_config();
    const std::vector<int> tokens = *any_tokens(c);
    RC_ASSERT(!tokens.empty());
    RC_ASSERT(static_cast<int>(tokens.size()) <= c.context);
    for (const int id : tokens) RC_ASSERT(0 <= id && id < c.vocabulary);
    if (std::count(tokens.begin(), tokens.end(), c.vocabulary - 1) > 0) tag("last id");
    if (std::count(tokens.begin(), tokens.end(), 0) > 0) tag("first id");
  });
  expect_at_least(shares, 0.4, {"first id", "last id"});
}

TEST(Gen, tokens_reach_the_context_and_the_windows_of_any_model) {
  const Shares shares([] {
    const Config c = *any_config();
    tag_length(c, static_cast<int>((*any_tokens(c)).size()));
  });
  expect_at_least(shares, 0.2, {"context", "one", "between"});
  expect_at_least(shares, 0.1, {"context - 1", "window"});
  expect_at_least(shares, 0.05, {"window - 1", "window + 1"});
}

TEST(Gen, tokens_reach_the_edges_of_a_long_context) {
  const Shares shares(
      [] { tag_length(long_context(), static_cast<int>((*any_tokens(long_context())).size())); });
  expect_at_least(shares, 0.17, {"context"});
  expect_at_least(shares, 0.25, {"between"});
  expect_at_least(shares, 0.07, {"one", "context - 1", "window - 1", "window", "window + 1"});
}

TEST(Gen, a_plain_range_would_miss_the_edges) {
  // The same question to RapidCheck's own integers: the test above can fail, and this is why
  // lengths are not drawn that way.
  const Shares shares(
      [] { tag_length(long_context(), *rc::gen::inRange(1, long_context().context + 1)); });
  EXPECT_LT(shares["context"], 0.02);
  EXPECT_LT(shares["window"], 0.06);
}

TEST(Gen, schedules_sum_to_the_length_and_have_every_form) {
  const Shares shares([] {
    const int length = *rc::gen::element(2, 3, 4, 7, 12, 20);
    const std::vector<int> feeds = *any_schedule(length);
    for (const int feed : feeds) RC_ASSERT(feed >= 1);
    RC_ASSERT(std::accumulate(feeds.begin(), feeds.end(), 0) == length);
    if (length < 4) return;
    const auto ones = std::count(feeds.begin(), feeds.end(), 1);
    const auto count = std::ssize(feeds);
    tag(ones == count ? "decode" : count == 1 ? "single" : "uneven");
    if (count > 2 && feeds[0] > 1 && ones == count - 1) tag("prefill then decode");
    if (count == 2) tag("two feeds");
    if (count > 2 && feeds.back() > 1) tag("late chunk");
  });
  // Of 3000 cases, two thirds are long enough to have a form.
  expect_at_least(shares, 0.12, {"decode", "single", "uneven"});
  expect_at_least(shares, 0.08, {"prefill then decode", "two feeds"});
  expect_at_least(shares, 0.04, {"late chunk"});
}

TEST(Gen, a_short_schedule_has_every_cut) {
  std::set<std::vector<int>> seen;
  const Shares shares([&seen] { seen.insert(*any_schedule(5)); });
  EXPECT_EQ(seen.size(), 16U);
  EXPECT_EQ(any_schedule(1)(rc::Random(1), 0).value(), std::vector<int>{1});
}

TEST(Gen, tokens_shrink_to_fewer_and_lower_ones) {
  EXPECT_EQ(smallest([] { RC_ASSERT((*any_tokens(long_context()).as("tokens")).size() < 3U); }),
            (std::vector<std::string>{"[0, 0, 0]"}));
  EXPECT_EQ(smallest([] {
              const std::vector<int> tokens = *any_tokens(long_context());
              RC_ASSERT(*std::max_element(tokens.begin(), tokens.end()) < 5);
            }),
            (std::vector<std::string>{"[5]"}));
}

TEST(Gen, schedules_shrink_to_fewer_feeds) {
  EXPECT_EQ(smallest([] { RC_ASSERT(*any_schedule(9) == std::vector<int>{-1}); }),
            (std::vector<std::string>{"[9]"}));
  const auto shown = smallest([] { RC_ASSERT((*any_schedule(9)).size() < 3U); });
  ASSERT_EQ(shown.size(), 1U);
  EXPECT_EQ(std::count(shown[0].begin(), shown[0].end(), ','), 2) << shown[0];
}

TEST(Gen, a_schedule_is_tried_as_one_feed_first) {
  rc::Random random(1);
  for (int i = 0; i < 20; ++i) {
    const auto drawn = any_schedule(9)(random.split(), 0);
    if (drawn.value().size() == 1) continue;
    EXPECT_EQ(drawn.shrinks().next()->value(), std::vector<int>{9});
  }
}

TEST(Gen, models_shrink_to_the_plain_family_and_keep_their_seed) {
  const auto shown = smallest([] { RC_ASSERT((*any_model()).seed == 0U); });
  ASSERT_EQ(shown.size(), 1U);
  EXPECT_TRUE(shown[0].starts_with("gen:plain:")) << shown[0];
  EXPECT_GE(shown[0].size(), 20U) << shown[0];
}

TEST(Gen, configs_shrink_to_the_barest_decoder) {
  const auto shown = smallest([] { RC_ASSERT((*any_config()).layers < 2); });
  EXPECT_EQ(shown, (std::vector<std::string>{
                       "vocabulary 2, width 4, layers 2, heads 1/1 of 2, mlp gelu-tanh 4, context "
                       "4, norm layer 1e-05, positions none, pairs interleaved, base 10000, biases "
                       "000, output tied, windows 0/0"}));
}

}  // namespace
}  // namespace kvcheck
