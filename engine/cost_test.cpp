// SPDX-License-Identifier: MIT
// Formulas of work and bytes against the running engine.
#include "engine/cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "engine/builtin.h"
#include "engine/cached.h"
#include "engine/cost_count.h"
#include "engine/features.h"
#include "engine/generated.h"
#include "engine/test_support.h"
#include "engine/uncached.h"

namespace kvcheck {
namespace {

constexpr std::int64_t kTenTo18 = 1'000'000'000'000'000'000;

// Two layers of width 4, two heads of 2, MLP of 8, vocabulary of 8: the shape of chapter8.
Config chapter8_shape() {
  Config c;
  c.vocabulary = 8;
  c.width = 4;
  c.layers = 2;
  c.query_heads = c.kv_heads = c.head_size = 2;
  c.mlp_width = 8;
  c.context = 4;
  c.windows = {0, 0};
  return c;
}

void expect_same(const Work& formula, const Work& counted, const std::string& where) {
  EXPECT_EQ(formula.projections.value(), counted.projections.value()) << where << " projections";
  EXPECT_EQ(formula.attention.value(), counted.attention.value()) << where << " attention";
  EXPECT_EQ(formula.mlp.value(), counted.mlp.value()) << where << " mlp";
  EXPECT_EQ(formula.output.value(), counted.output.value()) << where << " output";
  EXPECT_EQ(formula.rest.value(), counted.rest.value()) << where << " rest";
}

void expect_counts(const Config& config, WorkCounter& counter, const Phase& phase,
                   const std::string& where) {
  const CountedPhase counted = counter.count(phase);
  const PhaseWork formula = work_of(config, phase);
  ASSERT_EQ(formula.layers.size(), counted.work.layers.size());
  for (std::size_t l = 0; l < formula.layers.size(); ++l) {
    expect_same(formula.layers[l], counted.work.layers[l], where + " layer " + std::to_string(l));
  }
  expect_same(formula.outside, counted.work.outside, where + " outside");
  EXPECT_EQ(row_traffic(config, phase), counted.rows) << where;
}

std::vector<Phase> phases_of(const Config& config, std::uint64_t seed) {
  Draw draw{.seed = seed, .stream = stream_of("phases")};
  const int length = draw.next_in({1, config.context});
  const int held = draw.next_in({0, length - 1});
  const int sequences = draw.next_in({1, 3});
  std::vector<Phase> phases;
  for (const Rows rows : {Rows::last, Rows::all}) {
    phases.push_back({true, 0, length, sequences, rows});            // prefill
    phases.push_back({true, held, length - held, sequences, rows});  // chunk
    phases.push_back({false, 0, length, sequences, rows});           // uncached
  }
  phases.push_back({true, length - 1, 1, sequences, Rows::last});  // decode
  return phases;
}

TEST(Cost, counts_of_the_running_engine_are_the_formulas_of_200_configurations) {
  std::map<std::string, int> seen;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Config config = random_config(seed);
    for (int f = 0; f < static_cast<int>(Feature::count); ++f) {
      const auto feature = static_cast<Feature>(f);
      seen[std::string(name(feature))] += features_of(config).has(feature) ? 1 : 0;
    }
    seen["swiglu"] += config.mlp == Mlp::swiglu ? 1 : 0;
    seen["geglu"] += config.mlp == Mlp::geglu ? 1 : 0;
    seen["gelu"] += config.mlp == Mlp::gelu_tanh ? 1 : 0;
    seen["layer norm"] += config.norm == Norm::layer ? 1 : 0;
    seen["rms norm"] += config.norm == Norm::rms ? 1 : 0;
    seen["q/k/v bias"] += config.qkv_bias ? 1 : 0;
    seen["output bias"] += config.attention_output_bias ? 1 : 0;
    seen["mlp bias"] += config.mlp_bias ? 1 : 0;
    WorkCounter counter(random_model(config, WeightScales{}, seed));
    for (const Phase& phase : phases_of(config, seed)) {
      expect_counts(config, counter, phase, "seed " + std::to_string(seed));
    }
    if (HasFailure()) return;
  }
  for (const auto& [feature, models] : seen) EXPECT_GE(models, 5) << feature;
}

// What is counted is the engine: a counting number changes no bit of what it computes.
TEST(Cost, the_counting_engine_gives_the_bits_of_float64) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Config config = random_config(seed);
    const Model<float> model = random_model(config, WeightScales{}, seed);
    const Model<double> wide = cast<double>(model);
    WorkCounter counter(model);
    std::vector<int> tokens;
    for (int t = 0; t < config.context; ++t) tokens.push_back(counter.token(0, t));
    LogitRows<double> expected;
    Uncached<double> uncached(wide, row_ops<double>());
    copy_rows(uncached.logits({tokens, 1}, Rows::all), expected);
    EXPECT_EQ(counter.count({false, 0, config.context, 1, Rows::all}).logits, expected.values);
    KvCache<double> cache(config);
    Cached<double> cached(wide, row_ops<double>());
    const CacheFeed<double> feed{&cache, tokens};
    copy_rows(cached.feed(std::span(&feed, 1), Rows::all), expected);
    EXPECT_EQ(counter.count({true, 0, config.context, 1, Rows::all}).logits, expected.values);
  }
}

TEST(Cost, numbers_of_chapter8_by_hand) {
  const Config config = chapter8_shape();
  const PhaseWork prefill = work_of(config, {.tokens = 4});
  ASSERT_EQ(prefill.layers.size(), 2U);
  EXPECT_EQ(prefill.layers[0].projections.value(), 4 * 4 * 4 * 4);  // rows x 4 matrices of 4 x 4
  EXPECT_EQ(prefill.layers[0].attention.value(), 2 * 10 * 4);       // 10 of 16 pairs
  EXPECT_EQ(prefill.layers[0].mlp.value(), 4 * 2 * 4 * 8);
  EXPECT_EQ(prefill.outside.output.value(), 4 * 8);
  const PhaseWork decode = work_of(config, {.held = 3});
  EXPECT_EQ(decode.layers[1].attention.value(), 2 * 4 * 4);
  EXPECT_EQ(decode.total().multiply_adds().value(), 2 * (64 + 32 + 64) + 32);
  const PhaseWork anew = work_of(config, {.cached = false, .tokens = 4});
  EXPECT_EQ(anew.layers[0], prefill.layers[0]);
  EXPECT_EQ(anew.layers[1].projections.value(), 2 * 16 + 4 * 2 * 16);  // the last row's query
}

TEST(Cost, pairs_are_those_of_a_loop) {
  for (const std::int64_t window : {0, 1, 2, 3, 5, 9}) {
    for (std::int64_t first = 0; first < 8; ++first) {
      std::int64_t pairs = 0;
      for (std::int64_t queries = 0; queries < 8; ++queries) {
        EXPECT_EQ(visible_pairs(first, queries, window).value(), pairs) << first << ' ' << queries;
        const std::int64_t all = first + queries + 1;
        pairs += window == 0 ? all : std::min(all, window);
      }
    }
  }
}

TEST(Cost, a_run_is_the_sum_of_its_steps) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Config config = random_config(seed);
    Count cached;
    Count uncached;
    for (std::int64_t n = 1; n <= 12; ++n) {
      cached += work_of(config, {.held = n - 1, .sequences = 2}).total().multiply_adds();
      uncached +=
          work_of(config, {.cached = false, .tokens = n, .sequences = 2}).total().multiply_adds();
      EXPECT_EQ(run_work(config, n, 2).cached.value(), cached.value()) << seed << ' ' << n;
      EXPECT_EQ(run_work(config, n, 2).uncached.value(), uncached.value()) << seed << ' ' << n;
    }
  }
}

// Of what the engine itself holds and has set aside.
TEST(Cost, bytes_of_every_kind_are_those_of_the_engine) {
  for (const std::uint64_t seed : {1, 2, 3, 4, 5, 6}) {
    const Model<float> model = generate_model("gen:windowed:" + std::to_string(seed));
    const Config& config = model.config;
    for (CacheKind kind : cache_kinds()) {
      if (kind.layout == CacheLayout::paged) kind.block = 3;
      Builtin<float> engine(model, Arithmetic::row, kind);
      const SequenceId id = engine.open();
      Logits logits;
      for (int rows = 1; rows <= config.context; ++rows) {
        engine.feed(id, std::vector{0}, Rows::last, logits);
        const CacheBytes bytes = cache_kind_bytes(config, kind, rows, sizeof(float));
        ASSERT_EQ(bytes.held, Count(engine.held(id).bytes)) << name(kind) << ' ' << rows;
        const KvStore<float>& store = engine.cache(id).store();
        Count slots;
        for (int l = 0; l < config.layers; ++l) {
          slots += kind.layout == CacheLayout::paged
                       ? Count(engine.places(id).blocks.size()) * std::min(3, config.context)
                       : Count(store.slots(l));
        }
        if (kind.layout == CacheLayout::padded_left || kind.layout == CacheLayout::padded_right) {
          continue;  // columns come and go with the batch
        }
        ASSERT_EQ(bytes.taken, slots * store.row_bytes()) << name(kind) << ' ' << rows;
      }
    }
  }
}

TEST(Cost, weights_read_are_all_but_the_rows_of_other_tokens) {
  const Config config = chapter8_shape();
  // 368 parameters, of which 8 x 4 are embeddings, read as the output too, and 4 x 4 positions.
  const std::int64_t all = parameter_count(config);
  EXPECT_EQ(weights_read(config, {.tokens = 1}), Count(all - 4 * 4 + 4 + 4));
  EXPECT_EQ(weights_read(config, {.tokens = 3, .sequences = 2}), Count(all - 4 * 4 + 6 * (4 + 4)));
}

TEST(Cost, counts_never_wrap_round) {
  const std::string message =
      "cost: a count, expected at most 10^36, got more: a smaller context or batch fits";
  const Count most = Count(kTenTo18) * kTenTo18;
  EXPECT_EQ(most.digits(), "1" + std::string(36, '0'));
  EXPECT_EQ((most - 1).digits(), std::string(36, '9'));
  EXPECT_EQ((Count(kTenTo18) + 7).digits(), "1000000000000000007");
  EXPECT_EQ(error_of([&] { (void)(most + 1); }), message);
  EXPECT_EQ(error_of([&] { (void)(most * 2); }), message);
  EXPECT_EQ(error_of([&] { (void)(most * 341); }), message);  // 7 x 10^35 in 128 bits
  EXPECT_EQ(error_of([&] { (void)(Count(kTenTo18) * (Count(kTenTo18) + 1)); }), message);
  EXPECT_EQ(error_of([&] { (void)(Count(kTenTo18) * 10).value(); }), message);
  EXPECT_EQ((Count(kTenTo18) * 9).value(), 9 * kTenTo18);
  EXPECT_EQ(error_of([] { (void)work_of(chapter8_shape(), {.tokens = kTenTo18}); }), message);
  EXPECT_EQ(error_of([] { (void)run_work(chapter8_shape(), kTenTo18, 1); }), message);
  const CacheKind growing = cache_kind("growing", "test");
  EXPECT_EQ(error_of([&] { (void)cache_kind_bytes(chapter8_shape(), growing, kTenTo18 * 4, 4); }),
            message);
}

}  // namespace
}  // namespace kvcheck
