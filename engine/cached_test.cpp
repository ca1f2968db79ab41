// SPDX-License-Identifier: MIT
// A cached row is the uncached row, however a sequence is fed and whatever is fed beside it; a
// refused step changes nothing; a wrong plan gives wrong logits.
#include "engine/cached.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <string_view>
#include <tuple>
#include <utility>

#include "engine/cache_edit.h"
#include "engine/cache_pool.h"
#include "engine/error.h"
#include "engine/generated.h"
#include "engine/test_support.h"
#include "engine/uncached.h"

namespace kvcheck {
namespace {

using Tokens = std::vector<int>;
constexpr Arithmetic kBoth[] = {Arithmetic::row, Arithmetic::matrix};

template <typename T>
bool same_bits(std::span<const T> a, std::span<const T> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

template <typename T>
LogitRows<T> uncached(const Model<T>& model, const Tokens& tokens, Arithmetic arithmetic) {
  LogitRows<T> out;
  copy_rows(Uncached<T>(model, ops_for<T>(arithmetic)).logits({tokens}, Rows::all), out);
  return out;
}

// A decoder with as many sequences as a test opens.
template <typename T>
struct Decoder {
  Decoder(const Model<T>& model, Arithmetic arithmetic)
      : config(model.config), cached(model, ops_for<T>(arithmetic)) {}

  KvCache<T>& open() { return caches.emplace_back(config); }
  LogitRows<T> feed(const std::vector<CacheFeed<T>>& feeds, Rows rows = Rows::all) {
    LogitRows<T> out;
    copy_rows(cached.feed(feeds, rows), out);
    return out;
  }
  LogitRows<T> feed(KvCache<T>& cache, const Tokens& tokens, Rows rows = Rows::all) {
    return feed({{&cache, tokens}}, rows);
  }

  Config config;
  Cached<T> cached;
  std::deque<KvCache<T>> caches;
};

// All logits of the tokens, fed with a cut after token i where bit i of `cuts` is set.
template <typename T>
LogitRows<T> fed_with_cuts(Decoder<T>& decoder, const Tokens& tokens, unsigned cuts) {
  KvCache<T>& cache = decoder.open();
  LogitRows<T> all;
  for (std::size_t begin = 0, end = 1; end <= tokens.size(); ++end) {
    if (end < tokens.size() && (cuts >> (end - 1) & 1U) == 0) continue;
    const auto first = tokens.begin();
    const LogitRows<T> rows =
        decoder.feed(cache, Tokens(first + static_cast<int>(begin), first + static_cast<int>(end)));
    all.vocabulary = rows.vocabulary;
    all.values.insert(all.values.end(), rows.values.begin(), rows.values.end());
    begin = end;
  }
  EXPECT_EQ(cache.length(), static_cast<int>(tokens.size()));
  EXPECT_TRUE(cache.guards_intact() && cache.poison_intact());
  return all;
}

template <typename T>
class CachedOf : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(CachedOf, Scalars);

TYPED_TEST(CachedOf, every_schedule_gives_the_uncached_rows_to_the_last_bit) {
  for (const Family& family : families()) {
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      const Model<TypeParam> model = cast<TypeParam>(generate_model(family, seed));
      const int length = std::min(model.config.context, 6);
      const Tokens tokens = random_tokens(model.config.vocabulary, length, seed, 1);
      const auto expected = uncached(model, tokens, Arithmetic::row);
      Decoder<TypeParam> decoder(model, Arithmetic::row);
      for (unsigned cuts = 0; cuts < 1U << (length - 1); ++cuts) {
        const auto found = fed_with_cuts(decoder, tokens, cuts);
        ASSERT_TRUE(same_bits<TypeParam>(found.values, expected.values))
            << generated_name(family, seed) << ", cuts " << cuts;
      }
    }
  }
}

TYPED_TEST(CachedOf, a_full_context_gives_the_uncached_rows_by_one_feed_and_by_decoding) {
  for (const Family& family : families()) {
    const Model<TypeParam> model = cast<TypeParam>(generate_model(family, 7));
    const Tokens tokens = random_tokens(model.config.vocabulary, model.config.context, 7, 2);
    const auto expected = uncached(model, tokens, Arithmetic::row);
    Decoder<TypeParam> decoder(model, Arithmetic::row);
    for (const unsigned cuts : {0U, ~0U, 0x249249U}) {
      const auto found = fed_with_cuts(decoder, tokens, cuts);
      ASSERT_TRUE(same_bits<TypeParam>(found.values, expected.values)) << family.id;
    }
  }
}

// The largest difference of two answers next to the largest logit.
template <typename T>
double distance(const LogitRows<T>& a, const LogitRows<T>& b) {
  const Eigen::Map<const Vector<T>> x(a.values.data(), static_cast<Eigen::Index>(a.values.size()));
  const Eigen::Map<const Vector<T>> y(b.values.data(), static_cast<Eigen::Index>(b.values.size()));
  return static_cast<double>((x - y).cwiseAbs().maxCoeff() / y.cwiseAbs().maxCoeff());
}

// Two thirds of the digits: families that turn rounding into more stay below that in double, all
// but the saturated one in float.
TYPED_TEST(CachedOf, matrix_arithmetic_differs_from_uncached_rows_by_rounding) {
  const double bound = std::pow(double{std::numeric_limits<TypeParam>::epsilon()}, 2.0 / 3);
  for (const Family& family : families()) {
    if (std::is_same_v<TypeParam, float> && family.id == "saturated") continue;
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      const Model<TypeParam> model = cast<TypeParam>(generate_model(family, seed));
      const Tokens tokens = random_tokens(model.config.vocabulary, model.config.context, seed, 3);
      const auto expected = uncached(model, tokens, Arithmetic::matrix);
      Decoder<TypeParam> decoder(model, Arithmetic::matrix);
      for (const unsigned cuts : {0U, ~0U, 0x5U, 0x92492U}) {
        const auto found = fed_with_cuts(decoder, tokens, cuts);
        ASSERT_LE(distance(found, expected), bound) << generated_name(family, seed);
      }
    }
  }
}

// Three sequences that hold 4, 0 and 1 tokens are fed 1, 3 and 2.
template <typename T>
struct Batch {
  Batch(const Model<T>& model, Arithmetic arithmetic) : decoder(model, arithmetic) {
    for (std::size_t s = 0; s < 3; ++s) {
      const auto index = static_cast<std::uint64_t>(s);
      KvCache<T>& cache = decoder.open();
      tokens[s] = random_tokens(model.config.vocabulary, std::array{1, 3, 2}[s], 9, index);
      const int held = std::array{4, 0, 1}[s];
      if (held > 0) {
        (void)decoder.feed(cache, random_tokens(model.config.vocabulary, held, 8, index));
      }
      feeds.push_back({&cache, tokens[s]});
    }
  }

  Decoder<T> decoder;
  std::array<Tokens, 3> tokens;
  std::vector<CacheFeed<T>> feeds;
};

TYPED_TEST(CachedOf, a_batch_of_unequal_feeds_is_each_of_them_alone) {
  for (const Family& family : families()) {
    const Model<TypeParam> model = cast<TypeParam>(generate_model(family, 2));
    if (model.config.context < 5) continue;
    Batch<TypeParam> together(model, Arithmetic::row);
    Batch<TypeParam> alone(model, Arithmetic::row);
    const auto found = together.decoder.feed(together.feeds);
    std::vector<TypeParam> expected;
    for (const auto& one : alone.feeds) {
      const auto rows = alone.decoder.feed({one});
      expected.insert(expected.end(), rows.values.begin(), rows.values.end());
    }
    ASSERT_TRUE(same_bits<TypeParam>(found.values, expected)) << family.id;
    for (std::size_t s = 0; s < 3; ++s) {
      EXPECT_EQ(together.feeds[s].cache->length(), alone.feeds[s].cache->length());
    }
  }
}

// One token for each of many sequences, all but one of which hold equally many rows.
template <typename T>
struct Equals {
  Equals(const Model<T>& model, Arithmetic arithmetic, int held, int count)
      : decoder(model, arithmetic) {
    for (int s = 0; s < count; ++s) {
      const auto index = static_cast<std::uint64_t>(s);
      KvCache<T>& cache = decoder.open();
      const int rows = s == 5 ? 1 : held;
      (void)decoder.feed(cache, random_tokens(model.config.vocabulary, rows, 8, index));
      tokens.push_back(random_tokens(model.config.vocabulary, 1, 9, index));
      feeds.push_back({&cache, tokens.back()});
    }
  }

  Decoder<T> decoder;
  std::deque<Tokens> tokens;
  std::vector<CacheFeed<T>> feeds;
};

TYPED_TEST(CachedOf, rows_that_see_equally_many_keys_are_each_of_them_alone) {
  for (const Family& family : families()) {
    const Model<TypeParam> model = cast<TypeParam>(generate_model(family, 3));
    if (model.config.context < 3) continue;
    const int held = std::min(model.config.context - 1, 9);
    Equals<TypeParam> together(model, Arithmetic::row, held, 11);
    Equals<TypeParam> alone(model, Arithmetic::row, held, 11);
    const auto found = together.decoder.feed(together.feeds);
    std::vector<TypeParam> expected;
    for (const auto& one : alone.feeds) {
      const auto rows = alone.decoder.feed({one});
      expected.insert(expected.end(), rows.values.begin(), rows.values.end());
    }
    EXPECT_TRUE(same_bits<TypeParam>(found.values, expected)) << family.id;
  }
}

// It is told row after row, where rows otherwise attend together.
TYPED_TEST(CachedOf, an_observer_that_does_nothing_changes_no_bit_of_a_batch) {
  int compared = 0;
  for (const Family& family : families()) {
    const Model<TypeParam> model = cast<TypeParam>(generate_model(family, 3));
    for (const int held : {2, 4, 7, 12}) {
      if (held >= model.config.context) continue;
      for (const Arithmetic arithmetic : kBoth) {
        Equals<TypeParam> plain(model, arithmetic, held, 3);
        Equals<TypeParam> observed(model, arithmetic, held, 3);
        const Observer<TypeParam> nothing = [](const SiteTensor<TypeParam>&) {};
        LogitRows<TypeParam> seen;
        copy_rows(observed.decoder.cached.feed(observed.feeds, Rows::all, &nothing), seen);
        EXPECT_TRUE(same_bits<TypeParam>(plain.decoder.feed(plain.feeds).values, seen.values))
            << family.id << ", " << held << " rows, " << name(arithmetic);
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 20);
}

TYPED_TEST(CachedOf, the_last_rows_are_those_of_each_feed) {
  const Model<TypeParam> model = cast<TypeParam>(generate_model("gen:deep:1"));
  Batch<TypeParam> batch(model, Arithmetic::row);
  Batch<TypeParam> again(model, Arithmetic::row);
  const auto all = batch.decoder.feed(batch.feeds);
  const auto last = again.decoder.feed(again.feeds, Rows::last);
  ASSERT_EQ(last.rows(), 3);
  EXPECT_TRUE(same_bits(last.row(0), all.row(0)));
  EXPECT_TRUE(same_bits(last.row(1), all.row(3)));
  EXPECT_TRUE(same_bits(last.row(2), all.row(5)));
}

// Every scalar of a cache, its guards included, and its length.
template <typename T>
std::string bytes_of(const KvCache<T>& cache, const Config& config) {
  const std::ptrdiff_t guard = 16;
  const auto scalars =
      static_cast<std::size_t>(config.layers * cache.capacity() * cache.slot_stride() + 2 * guard);
  std::string bytes = std::to_string(cache.length());
  for (const T* at : {cache.key(0, 0), cache.value(0, 0)}) {
    bytes.append(reinterpret_cast<const char*>(at - guard), scalars * sizeof(T));
  }
  return bytes;
}

// The error of feeding `bad` beside two good feeds, in each place; nothing may have changed.
std::string refusal(const Tokens& bad) {
  const Model<float> model = random_model(tiny_config(), WeightScales{}, 1);
  std::string message;
  for (std::size_t place = 0; place < 3; ++place) {
    Decoder<float> decoder(model, Arithmetic::row);
    std::vector<CacheFeed<float>> feeds;
    const Tokens good{1};
    for (std::size_t s = 0; s < 3; ++s) {
      feeds.push_back({&decoder.open(), s == place ? bad : good});
      (void)decoder.feed(*feeds[s].cache, {0, 1});
    }
    std::string before, after;
    for (const auto& feed : feeds) before += bytes_of(*feed.cache, model.config);
    const std::string found = error_of([&] { (void)decoder.feed(feeds); });
    for (const auto& feed : feeds) after += bytes_of(*feed.cache, model.config);
    EXPECT_TRUE(before == after) << place;
    EXPECT_TRUE(place == 0 || found == message) << found;
    message = found;
  }
  return message;
}

TEST(Cached, a_refused_feed_leaves_all_caches_of_its_batch_as_they_were) {
  EXPECT_EQ(refusal({}), "feed: no tokens, expected at least 1, got 0");
  EXPECT_EQ(refusal({0, 1, 0}), "feed: past the context, expected at most 4 rows, got 5");
  EXPECT_EQ(refusal({0, 2}),
            "feed: token outside the vocabulary, expected an id from 0 to 1, got 2");
  EXPECT_EQ(refusal({-1}),
            "feed: token outside the vocabulary, expected an id from 0 to 1, got -1");
}

TEST(Cached, an_accepted_feed_changes_the_bytes_that_the_refusals_compare) {
  const Model<float> model = random_model(tiny_config(), WeightScales{}, 1);
  Decoder<float> decoder(model, Arithmetic::row);
  KvCache<float>& cache = decoder.open();
  const std::string before = bytes_of(cache, model.config);
  (void)decoder.feed(cache, {0, 1});
  EXPECT_FALSE(before == bytes_of(cache, model.config));
}

TEST(Cached, a_full_context_takes_no_further_token) {
  const Model<float> model = random_model(tiny_config(), WeightScales{}, 1);
  Decoder<float> decoder(model, Arithmetic::row);
  KvCache<float>& cache = decoder.open();
  (void)decoder.feed(cache, {0, 1, 0, 1});
  EXPECT_EQ(error_of([&] { (void)decoder.feed(cache, {0}); }),
            "feed: past the context, expected at most 4 rows, got 5");
  EXPECT_EQ(cache.length(), 4);
}

// The last logits of five tokens, the last one fed by a rewritten plan.
LogitRows<float> rewritten(std::string_view name, Arithmetic arithmetic, PlanRewrite rewrite) {
  const Model<float> model = generate_model(name);
  Decoder<float> decoder(model, arithmetic);
  KvCache<float>& cache = decoder.open();
  const Tokens tokens = random_tokens(model.config.vocabulary, 5, 1, 1);
  (void)decoder.feed(cache, Tokens(tokens.begin(), tokens.begin() + 4));
  decoder.cached.rewrite_plans(std::move(rewrite));
  return decoder.feed(cache, {tokens[4]});
}

constexpr auto kLeave = [](StepPlan&, PlannedFeeds) {};

TEST(Cached, a_position_off_by_one_changes_the_logits) {
  for (const std::string_view name : {"gen:deep:1", "gen:wide:1", "gen:grouped-heads:1"}) {
    for (const Arithmetic arithmetic : kBoth) {
      const auto right = rewritten(name, arithmetic, kLeave);
      const auto wrong = rewritten(name, arithmetic,
                                   [](StepPlan& plan, PlannedFeeds) { ++plan.rows[0].position; });
      EXPECT_GT(distance(wrong, right), 1e-4) << name;
    }
  }
}

TEST(Cached, a_slot_that_holds_nothing_makes_the_logits_nan) {
  for (const std::string_view name : {"gen:deep:1", "gen:wide:1", "gen:grouped-heads:1"}) {
    for (const Arithmetic arithmetic : kBoth) {
      const auto found = rewritten(name, arithmetic, [](StepPlan& plan, PlannedFeeds) {
        plan.views[0].slots.push_back(5);
        ++plan.views[0].first[1];
      });
      for (const float logit : found.values) ASSERT_TRUE(std::isnan(logit)) << name;
    }
  }
}

TEST(Cached, a_row_written_to_another_layers_store_makes_the_logits_nan) {
  const auto write = [](StepPlan& plan, PlannedFeeds) { plan.write_store[3] = 4; };
  const auto found = rewritten("gen:deep:1", Arithmetic::row, write);
  for (const float logit : found.values) EXPECT_TRUE(std::isnan(logit));
}

TEST(Cached, a_hidden_row_changes_the_logits) {
  const auto right = rewritten("gen:wide:1", Arithmetic::row, kLeave);
  const auto wrong = rewritten("gen:wide:1", Arithmetic::row, [](StepPlan& plan, PlannedFeeds) {
    plan.views[0].slots.erase(plan.views[0].slots.begin());
    --plan.views[0].first[1];
  });
  EXPECT_GT(distance(wrong, right), 1e-4);
}

TEST(Cached, another_layers_store_or_head_changes_the_logits) {
  const auto right = rewritten("gen:grouped-heads:1", Arithmetic::row, kLeave);
  const auto head = [](StepPlan& plan, PlannedFeeds) { plan.kv_head_of[0] = 1; };
  EXPECT_GT(distance(rewritten("gen:grouped-heads:1", Arithmetic::row, head), right), 1e-4);
  const auto deep = rewritten("gen:deep:1", Arithmetic::row, kLeave);
  const auto store = [](StepPlan& plan, PlannedFeeds) { plan.read_store[3] = 2; };
  EXPECT_GT(distance(rewritten("gen:deep:1", Arithmetic::row, store), deep), 1e-4);
}

TEST(Cached, a_row_that_is_stored_nowhere_leaves_poison_behind) {
  const auto found = rewritten("gen:wide:1", Arithmetic::row, [](StepPlan& plan, PlannedFeeds) {
    own_view(plan, 1).write[0] = kNowhere;
  });
  for (const float logit : found.values) EXPECT_TRUE(std::isnan(logit));
}

TEST(Cached, a_scale_of_its_own_changes_the_logits) {
  const auto right = rewritten("gen:wide:1", Arithmetic::row, kLeave);
  const auto wrong = rewritten("gen:wide:1", Arithmetic::row, [](StepPlan& plan, PlannedFeeds) {
    plan.rules[0].score_scale *= 2;
  });
  EXPECT_GT(distance(wrong, right), 1e-4);
}

// A rotation by one and the same angle leaves what a query and its keys say of each other; the
// cached keys were rotated by their own.
TEST(Cached, positions_of_a_layer_rotate_its_queries_and_keys) {
  const auto at = [](int query, int key) {
    return rewritten("gen:grouped-heads:1", Arithmetic::row, [=](StepPlan& plan, PlannedFeeds) {
      RowPositions& own = own_positions(plan, 0);
      own.query[0] += query;
      own.key[0] += key;
    });
  };
  const auto right = rewritten("gen:grouped-heads:1", Arithmetic::row, kLeave);
  EXPECT_EQ(at(0, 0).values, right.values);
  EXPECT_GT(distance(at(1, 0), right), 1e-4);
  EXPECT_GT(distance(at(0, 1), right), 1e-4);
  EXPECT_GT(distance(at(-9, -9), right), 1e-4);
}

TEST(Cached, a_slot_outside_the_cache_breaks_the_engine) {
  for (const int slot : {-1, 1000}) {
    const auto rewrite = [slot](StepPlan& plan, PlannedFeeds) { plan.rows[0].slot = slot; };
    EXPECT_THROW((void)rewritten("gen:wide:1", Arithmetic::row, rewrite), EngineError);
  }
}

// ---- Plans that nobody can carry out

// Layer 0 sees four rows, layer 1 all of them; four query heads share two K/V heads.
Model<float> windowed_model() {
  Config config = tiny_config();
  config.vocabulary = 7;
  config.width = 8;
  config.layers = 2;
  config.query_heads = 4;
  config.kv_heads = 2;
  config.head_size = 2;
  config.mlp_width = 8;
  config.context = 16;
  config.positions = Positions::rotary;
  config.windows = {4, 0};
  return random_model(config, WeightScales{}, 3);
}

// What comes of feeding two tokens after six by a rewritten plan: "EngineError", or "" if the plan
// was carried out. A plan that was refused must have changed nothing.
std::string outcome(const CacheKind& kind, const PlanRewrite& rewrite) {
  const Model<float> model = windowed_model();
  const auto pool = make_pool<float>(model.config, kind);
  Cached<float> cached(model, row_ops<float>());
  KvCache<float>& cache = pool->make();
  const auto feed = [&](const Tokens& tokens) {
    const CacheFeed<float> one{&cache, tokens};
    pool->reserve(std::span(&one, 1));
    (void)cached.feed(std::span(&one, 1), Rows::last);
  };
  feed({0, 1, 2, 3, 4, 5});
  const std::uint64_t before = fingerprint(cache);
  cached.rewrite_plans(rewrite);
  try {
    feed({6, 0});
    return "";
  } catch (const EngineError&) {
    EXPECT_EQ(cache.length(), 6);
    EXPECT_EQ(fingerprint(cache), before);
    EXPECT_TRUE(cache.store().guards_intact());
    return "EngineError";
  }
}

struct PlannedIndex {
  std::string_view what;
  int& (*of)(StepPlan&);
  int end;
  CacheKind kind = {};
};

constexpr CacheKind kRing{.layout = CacheLayout::ring};
const PlannedIndex kIndices[] = {
    {"write_store", [](StepPlan& p) -> int& { return p.write_store[1]; }, 2},
    {"read_store", [](StepPlan& p) -> int& { return p.read_store[0]; }, 2},
    {"view_of_layer", [](StepPlan& p) -> int& { return p.view_of_layer[1]; }, 2},
    {"kv_head_of", [](StepPlan& p) -> int& { return p.kv_head_of[3]; }, 2},
    {"length_after", [](StepPlan& p) -> int& { return p.length_after[0]; }, 17},
    {"sequence", [](StepPlan& p) -> int& { return p.rows[1].sequence; }, 1},
    {"position", [](StepPlan& p) -> int& { return p.rows[1].position; }, 16},
    {"slot", [](StepPlan& p) -> int& { return p.rows[1].slot; }, 16},
    {"seen slot", [](StepPlan& p) -> int& { return p.views[1].slots.back(); }, 16},
    {"slot written to a ring", [](StepPlan& p) -> int& { return p.views[0].write[1]; }, 4, kRing},
    {"slot seen in a ring", [](StepPlan& p) -> int& { return p.views[0].slots[2]; }, 4, kRing},
    {"length of a ring", [](StepPlan& p) -> int& { return p.length_after[0]; }, 17, kRing},
};

TEST(Cached, an_index_outside_of_what_there_is_breaks_the_engine) {
  for (const PlannedIndex& index : kIndices) {
    for (const int bad : {-1, index.end, index.end + 1000, std::numeric_limits<int>::max(),
                          std::numeric_limits<int>::min()}) {
      const auto rewrite = [&](StepPlan& plan, PlannedFeeds) { index.of(plan) = bad; };
      EXPECT_EQ(outcome(index.kind, rewrite), "EngineError") << index.what << " " << bad;
    }
  }
}

TEST(Cached, a_wrong_index_within_what_there_is_is_carried_out) {
  for (const PlannedIndex& index : kIndices) {
    for (const int wrong : {0, index.end - 1}) {
      const auto rewrite = [&](StepPlan& plan, PlannedFeeds) { index.of(plan) = wrong; };
      EXPECT_EQ(outcome(index.kind, rewrite), "") << index.what << " " << wrong;
    }
  }
}

TEST(Cached, a_row_in_a_ring_that_is_not_planned_as_one_breaks_the_engine) {
  EXPECT_EQ(outcome(kRing, [](StepPlan& plan, PlannedFeeds) { plan.views[0].write.clear(); }),
            "EngineError");
}

TEST(Cached, a_row_that_sees_nothing_breaks_the_engine) {
  for (const std::size_t row : {0U, 1U}) {
    const auto rewrite = [&](StepPlan& plan, PlannedFeeds) {
      SlotView& view = plan.views[0];
      const int hidden = static_cast<int>(view.of(static_cast<int>(row)).size());
      view.slots.erase(view.slots.end() - hidden, view.slots.end());
      for (std::size_t r = row + 1; r < view.first.size(); ++r) view.first[r] -= hidden;
    };
    EXPECT_EQ(outcome({}, rewrite), "EngineError") << row;
  }
}

TEST(Cached, lists_of_a_plan_that_do_not_fit_each_other_break_the_engine) {
  const std::pair<std::string_view, void (*)(StepPlan&)> rewrites[] = {
      {"views from 1 on", [](StepPlan& p) { p.views[0].first[0] = 1; }},
      {"views from -1 on", [](StepPlan& p) { p.views[0].first[0] = -1; }},
      {"views that end early", [](StepPlan& p) { --p.views[0].first[2]; }},
      {"views that end late", [](StepPlan& p) { ++p.views[0].first[2]; }},
      {"views that go back", [](StepPlan& p) { p.views[0].first[1] = 1000; }},
      {"views of fewer rows", [](StepPlan& p) { p.views[1].first.pop_back(); }},
      {"no view", [](StepPlan& p) { p.views.clear(); }},
      {"a view of no row", [](StepPlan& p) { p.views[1].first.clear(); }},
      {"one slot written", [](StepPlan& p) { p.views[0].write.assign(1, 0); }},
      {"three slots written", [](StepPlan& p) { p.views[0].write.assign(3, 0); }},
      {"a layer without a store", [](StepPlan& p) { p.write_store.pop_back(); }},
      {"a layer without rows", [](StepPlan& p) { p.read_store.pop_back(); }},
      {"a layer without a view", [](StepPlan& p) { p.view_of_layer.pop_back(); }},
      {"a head too few", [](StepPlan& p) { p.kv_head_of.pop_back(); }},
      {"a head too many", [](StepPlan& p) { p.kv_head_of.push_back(0); }},
      {"no length", [](StepPlan& p) { p.length_after.clear(); }},
      {"two lengths", [](StepPlan& p) { p.length_after.push_back(8); }},
      {"no rows", [](StepPlan& p) { p.rows.clear(); }},
      {"a layer without a rule", [](StepPlan& p) { p.rules.pop_back(); }},
      {"a layer without positions",
       [](StepPlan& p) {
         (void)own_positions(p, 0);
         p.positions_of_layer.pop_back();
       }},
      {"positions that there are not",
       [](StepPlan& p) {
         (void)own_positions(p, 0);
         p.positions_of_layer[1] = 2;
       }},
      {"a query without a position", [](StepPlan& p) { own_positions(p, 1).query.pop_back(); }},
      {"a key without a position", [](StepPlan& p) { own_positions(p, 1).key.pop_back(); }},
  };
  for (const auto& [what, rewrite] : rewrites) {
    const auto with = [rewrite](StepPlan& plan, PlannedFeeds) { rewrite(plan); };
    EXPECT_EQ(outcome({}, with), "EngineError") << what;
  }
}

// Every list is as long as the others, but the tokens are two.
TEST(Cached, a_plan_of_fewer_or_more_rows_than_tokens_breaks_the_engine) {
  const auto fewer = [](StepPlan& plan, PlannedFeeds) {
    plan.rows.pop_back();
    for (SlotView& view : plan.views) {
      view.first.pop_back();
      view.slots.resize(static_cast<std::size_t>(view.first.back()));
    }
  };
  const auto more = [](StepPlan& plan, PlannedFeeds) {
    plan.rows.push_back(plan.rows.back());
    for (SlotView& view : plan.views) {
      view.slots.push_back(0);
      view.first.push_back(static_cast<int>(view.slots.size()));
    }
  };
  EXPECT_EQ(outcome({}, fewer), "EngineError");
  EXPECT_EQ(outcome({}, more), "EngineError");
}

// What a cache holds is looked up later by these rows: each needs a slot.
TEST(Cached, a_length_past_the_slots_of_a_cache_breaks_the_engine) {
  for (const auto* name : {"growing", "paged:1", "paged:3", "padded-left", "padded-right"}) {
    const CacheKind kind = cache_kind(name, "test");
    const auto set = [](int length) {
      return [length](StepPlan& plan, PlannedFeeds) { plan.length_after[0] = length; };
    };
    EXPECT_EQ(outcome(kind, set(9)), "EngineError") << name;
    EXPECT_EQ(outcome(kind, set(8)), "") << name;  // a power of two: it has not grown further
    EXPECT_EQ(outcome(kind, set(7)), "") << name;
  }
}

TEST(Cached, an_observer_sees_rows_as_they_are_read_and_changes_no_stored_ones) {
  const Model<float> model = windowed_model();
  Cached<float> cached(model, row_ops<float>());
  KvCache<float> cache(model.config);
  std::vector<std::array<int, 4>> seen;
  const Observer<float> observer(
      [&](const SiteTensor<float>& t) {
        if (t.site != Site::cached_key && t.site != Site::cached_value) return;
        seen.push_back({t.layer, t.row, t.rows, t.columns});
        const float* stored =
            t.site == Site::cached_key ? cache.key(t.layer, 0) : cache.value(t.layer, 0);
        EXPECT_EQ(t.at(0, 1), stored[1]);
        t.at(0, 1) += 1;
      },
      SiteSet::all());
  const Tokens first{1, 2}, next{3, 4};
  (void)cached.feed(std::vector<CacheFeed<float>>{{&cache, first}}, Rows::last);
  const std::uint64_t before = fingerprint(cache);
  (void)cached.feed(std::vector<CacheFeed<float>>{{&cache, next}}, Rows::last, &observer);
  cache.forget(2);
  EXPECT_EQ(fingerprint(cache), before);
  EXPECT_EQ(seen, (std::vector<std::array<int, 4>>{{0, 0, 3, 4},
                                                   {0, 0, 3, 4},
                                                   {0, 1, 4, 4},
                                                   {0, 1, 4, 4},
                                                   {1, 0, 3, 4},
                                                   {1, 0, 3, 4},
                                                   {1, 1, 4, 4},
                                                   {1, 1, 4, 4}}));
}

TEST(Cached, rows_changed_as_they_are_read_change_the_logits) {
  const Model<float> model = windowed_model();
  for (const Site site : {Site::cached_key, Site::cached_value}) {
    Decoder<float> decoder(model, Arithmetic::row);
    KvCache<float>& cache = decoder.open();
    (void)decoder.feed(cache, {1, 2});
    KvCache<float>& other = decoder.open();
    (void)decoder.feed(other, {1, 2});
    const auto right = decoder.feed(cache, {3});
    const Observer<float> observer(
        [site](const SiteTensor<float>& t) {
          if (t.site == site) t.at(0, 0) += 1;
        },
        SiteSet::all());
    LogitRows<float> wrong;
    const Tokens next{3};
    copy_rows(
        decoder.cached.feed(std::vector<CacheFeed<float>>{{&other, next}}, Rows::last, &observer),
        wrong);
    EXPECT_GT(distance(wrong, right), 1e-4) << name(site);
  }
}

TEST(Cached, an_observer_sees_scores_of_each_row_over_the_rows_that_it_sees) {
  const Model<float> model = generate_model("gen:wide:1");
  Cached<float> cached(model, row_ops<float>());
  KvCache<float> cache(model.config);
  std::vector<std::array<int, 4>> seen;
  const Observer<float> observer = [&](const SiteTensor<float>& t) {
    if (t.site == Site::scores) seen.push_back({t.layer, t.row, t.rows, t.columns});
  };
  const Tokens first{1, 2}, next{3, 4};
  (void)cached.feed(std::vector<CacheFeed<float>>{{&cache, first}}, Rows::last);
  (void)cached.feed(std::vector<CacheFeed<float>>{{&cache, next}}, Rows::last, &observer);
  EXPECT_EQ(seen, (std::vector<std::array<int, 4>>{
                      {0, 0, 4, 3}, {0, 1, 4, 4}, {1, 0, 4, 3}, {1, 1, 4, 4}}));
}

// ---- Constants of a plan

// Feeding a model by rewritten plans must give what another configuration of the same weights
// gives: the constants come from the plan alone.
struct Obeyed {
  std::string_view what;
  std::string_view model;
  void (*rewrite)(StepPlan&);
  void (*change)(Config&);
};

const Obeyed kObeyed[] = {
    {"no score cap", "gen:softcap:1",
     [](StepPlan& p) {
       for (AttentionRule& rule : p.rules) rule.score_cap = 0;
     },
     [](Config& c) { c.attention_cap = 0; }},
    {"another score cap", "gen:softcap:2",
     [](StepPlan& p) {
       for (AttentionRule& rule : p.rules) rule.score_cap = 0.5;
     },
     [](Config& c) { c.attention_cap = 0.5; }},
    {"no logit cap", "gen:softcap:1", [](StepPlan& p) { p.logit_cap = 0; },
     [](Config& c) { c.logit_cap = 0; }},
    {"another logit cap", "gen:plain:1", [](StepPlan& p) { p.logit_cap = 1; },
     [](Config& c) { c.logit_cap = 1; }},
    {"another embedding scale", "gen:embedding-scale:1", [](StepPlan& p) { p.embedding_scale = 1; },
     [](Config& c) { c.embedding_scale = 1; }},
    {"no head norm", "gen:head-norm:1",
     [](StepPlan& p) {
       for (AttentionRule& rule : p.rules) rule.head_norm = false;
     },
     [](Config& c) { c.head_norm = false; }},
    {"one rotary base", "gen:two-bases:1",
     [](StepPlan& p) {
       for (AttentionRule& rule : p.rules) rule.rotary_base = 0;
     },
     [](Config& c) { c.rotary_base_windowed = 0; }},
    {"the other rotary base", "gen:two-bases:1",
     [](StepPlan& p) {
       for (AttentionRule& rule : p.rules) rule.rotary_base = 1;
     },
     [](Config& c) { c.rotary_base = c.rotary_base_windowed; }},
    {"no rotation", "gen:partial-rotary:1",
     [](StepPlan& p) {
       for (AttentionRule& rule : p.rules) rule.rotary_base = kNoRotation;
     },
     [](Config& c) { c.positions = Positions::none; }},
    {"no slopes", "gen:alibi:1",
     [](StepPlan& p) {
       for (AttentionRule& rule : p.rules) rule.slopes.clear();
     },
     [](Config& c) { c.positions = Positions::none; }},
};

TEST(Cached, constants_come_from_the_plan_alone) {
  for (const Obeyed& obeyed : kObeyed) {
    Model<float> model = generate_model(obeyed.model);
    const Tokens tokens = random_tokens(model.config.vocabulary, 6, 1, 1);
    const auto right = uncached(model, tokens, Arithmetic::row);
    Decoder<float> decoder(model, Arithmetic::row);
    decoder.cached.rewrite_plans([&](StepPlan& plan, PlannedFeeds) { obeyed.rewrite(plan); });
    const auto found = fed_with_cuts(decoder, tokens, 0x5U);
    Model<float> other = model;
    obeyed.change(other.config);
    const auto expected = uncached(other, tokens, Arithmetic::row);
    EXPECT_TRUE(same_bits<float>(found.values, expected.values)) << obeyed.what;
    EXPECT_GT(distance(found, right), 1e-4) << obeyed.what;
  }
}

// Each of them of one layer only, or of one step.
TEST(Cached, a_wrong_constant_of_one_layer_changes_the_logits) {
  const std::pair<std::string_view, void (*)(StepPlan&)> rewrites[] = {
      {"gen:softcap:1", [](StepPlan& p) { p.rules.back().score_cap *= 0.1; }},
      {"gen:head-norm:1", [](StepPlan& p) { p.rules.back().head_norm = false; }},
      {"gen:two-bases:1", [](StepPlan& p) { p.rules.front().rotary_base = 0; }},
      {"gen:two-bases:1", [](StepPlan& p) { p.rules[1].rotary_base = 1; }},
      {"gen:alibi:1", [](StepPlan& p) { p.rules.back().slopes.front() *= 8; }},
      {"gen:alibi:1", [](StepPlan& p) { p.rules.back().slopes.clear(); }},
      {"gen:alibi:1", [](StepPlan& p) { own_view(p, 0).positions.front() += 3; }},
      {"gen:embedding-scale:1", [](StepPlan& p) { p.embedding_scale *= 2; }},
  };
  for (const auto& [name, rewrite] : rewrites) {
    for (const Arithmetic arithmetic : kBoth) {
      const auto right = rewritten(name, arithmetic, kLeave);
      const auto wrong = rewritten(name, arithmetic,
                                   [rewrite = rewrite](StepPlan& p, PlannedFeeds) { rewrite(p); });
      EXPECT_GT(distance(wrong, right), 1e-4) << name << " " << &rewrite - &rewrites[0].second;
    }
  }
}

// Another position of the query moves all scores of a head alike, which a softmax does not see:
// only a cap tells.
TEST(Cached, alibi_counts_the_distance_of_planned_positions) {
  const auto moved = [](double cap, int keys, int query) {
    return rewritten("gen:alibi:1", Arithmetic::row, [=](StepPlan& plan, PlannedFeeds) {
      for (int l = 0; l < static_cast<int>(plan.rules.size()); ++l) {
        own_positions(plan, l).query[0] += query;
        plan.rules[static_cast<std::size_t>(l)].score_cap = cap;
      }
      for (SlotView& view : plan.views) {
        for (int& position : view.positions) position += keys;
      }
    });
  };
  for (const double cap : {0.0, 1.0}) {
    const auto right = moved(cap, 0, 0);
    EXPECT_EQ(moved(cap, 7, 7).values, right.values);
    EXPECT_EQ(moved(cap, -900, -900).values, right.values);
  }
  EXPECT_LT(distance(moved(0, 0, 7), moved(0, 0, 0)), 1e-5);
  EXPECT_GT(distance(moved(1, 0, 7), moved(1, 0, 0)), 1e-4);
  EXPECT_GT(distance(moved(1, 7, 0), moved(1, 0, 0)), 1e-4);
}

TEST(Cached, constants_that_a_model_lacks_break_the_engine) {
  const std::tuple<std::string_view, std::string_view, void (*)(StepPlan&)> rewrites[] = {
      {"a base too many", "gen:two-bases:1", [](StepPlan& p) { p.rules[0].rotary_base = 2; }},
      {"a base below none", "gen:two-bases:1", [](StepPlan& p) { p.rules[1].rotary_base = -2; }},
      {"a second base", "gen:wide:1", [](StepPlan& p) { p.rules[0].rotary_base = 1; }},
      {"a base where nothing rotates", "gen:one-head:1",
       [](StepPlan& p) { p.rules[0].rotary_base = 0; }},
      {"a norm of heads", "gen:wide:1", [](StepPlan& p) { p.rules[1].head_norm = true; }},
      {"a slope too few", "gen:alibi:1", [](StepPlan& p) { p.rules[0].slopes.pop_back(); }},
      {"a slope too many", "gen:alibi:1", [](StepPlan& p) { p.rules[0].slopes.push_back(1); }},
      {"a key without a position", "gen:alibi:1",
       [](StepPlan& p) { p.views[0].positions.pop_back(); }},
      {"slopes without positions", "gen:wide:1",
       [](StepPlan& p) { p.rules[0].slopes.assign(p.kv_head_of.size(), 1); }},
  };
  for (const auto& [what, name, rewrite] : rewrites) {
    const auto with = [rewrite = rewrite](StepPlan& plan, PlannedFeeds) { rewrite(plan); };
    EXPECT_THROW((void)rewritten(name, Arithmetic::row, with), EngineError) << what;
  }
}

}  // namespace
}  // namespace kvcheck
