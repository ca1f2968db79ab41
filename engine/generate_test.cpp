// SPDX-License-Identifier: MIT
// Generation: what stops it, what is counted, with and without a cache, alone and in batches.
#include "engine/generate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "engine/builtin.h"
#include "engine/generated.h"
#include "engine/model_file.h"
#include "engine/test_support.h"

namespace kvcheck {
namespace {

constexpr int kEos = 1;

const ModelData& chapter8() {
  static const ModelData model = load_model_folder(bundled_folder("chapter8"));
  return model;
}

std::unique_ptr<Engine> engine_of(HeldModel model, std::string_view cache = "flat",
                                  Arithmetic arithmetic = Arithmetic::row) {
  return make_builtin(std::move(model), ScalarKind::f32, arithmetic, cache_kind(cache, "test"));
}

using Tokens = std::vector<int>;

GenerationRequest request_of(Tokens prompt, std::optional<int> eos = kEos) {
  return {.prompt = std::move(prompt), .eos = eos};
}

GenerationRequest sampled(Tokens prompt, std::uint64_t seed) {
  GenerationRequest request = request_of(std::move(prompt));
  request.policy = parse_decoding("temperature:1.5,top-p:0.98", 8, "test");
  request.seed = seed;
  return request;
}

Tokens returned(const Generation& generation) {
  return {generation.returned().begin(), generation.returned().end()};
}

// With every kind of cache and without one.
void for_each_run(const GenerationRequest& request,
                  const std::function<void(const Generation&, bool cached)>& look) {
  for (const CacheKind& kind : cache_kinds()) {
    if (kind.lossy()) continue;
    const auto engine = engine_of(chapter8().weights, name(kind));
    look(generate_cached(*engine, request), true);
  }
  look(generate_uncached(*engine_of(chapter8().weights), request), false);
}

// ---- What stops it

TEST(Generate, repeats_the_corpus_and_stops_at_eos) {
  for_each_run(request_of({0, 2}), [](const Generation& generation, bool) {
    EXPECT_EQ(generation.prompt, 2);
    EXPECT_EQ(generation.tokens.size(), 5U);
    EXPECT_EQ(generation.stop, Stop::eos);
    EXPECT_EQ(generation.tokens.back(), kEos);  // the fifth token, which is never fed
    EXPECT_EQ(generation.steps.back().consumed, 4);
    EXPECT_EQ(generation.steps.back().remaining, 0);
  });
}

TEST(Generate, predicts_one_token_beyond_the_context) {
  for_each_run(request_of({0, 2}, std::nullopt), [](const Generation& generation, bool) {
    EXPECT_EQ(generation.stop, Stop::context);
    EXPECT_EQ(generation.tokens.size(), 5U);
  });
}

TEST(Generate, of_a_prompt_that_fills_the_context_predicts_one_token) {
  for_each_run(request_of({0, 2, 4, 6}, std::nullopt), [](const Generation& generation, bool) {
    EXPECT_EQ(generation.stop, Stop::context);
    EXPECT_EQ(returned(generation), Tokens{kEos});
    EXPECT_EQ(generation.steps.front().position, 3);
  });
}

TEST(Generate, stops_after_as_many_tokens_as_are_allowed) {
  for (const int steps : {1, 2}) {
    GenerationRequest request = request_of({0});
    request.steps = steps;
    for_each_run(request, [&](const Generation& generation, bool) {
      EXPECT_EQ(generation.stop, Stop::steps);
      EXPECT_EQ(generation.steps.size(), static_cast<std::size_t>(steps));
    });
  }
}

TEST(Generate, names_eos_before_the_context_and_the_context_before_the_steps) {
  GenerationRequest request = request_of({0, 2, 4, 6});
  request.steps = 1;
  for_each_run(request, [](const Generation& g, bool) { EXPECT_EQ(g.stop, Stop::eos); });
  request.eos = std::nullopt;
  for_each_run(request, [](const Generation& g, bool) { EXPECT_EQ(g.stop, Stop::context); });
}

TEST(Generate, stops_at_once_where_eos_is_the_first_choice) {
  const int first = generate_uncached(*engine_of(chapter8().weights), request_of({0})).tokens[1];
  for_each_run(request_of({0}, first), [](const Generation& generation, bool) {
    EXPECT_EQ(generation.stop, Stop::eos);
    EXPECT_EQ(generation.steps.size(), 1U);
  });
}

TEST(Generate, is_not_stopped_by_eos_inside_the_prompt) {
  for (const Tokens& prompt : {Tokens{0, kEos}, Tokens{kEos}, Tokens{0, kEos, 2}}) {
    GenerationRequest request = request_of(prompt);
    request.steps = 1;
    for_each_run(request, [&](const Generation& generation, bool) {
      EXPECT_EQ(generation.steps.front().consumed, static_cast<int>(prompt.size()));
    });
  }
}

// ---- What is counted

TEST(Generate, counts_what_was_fed_held_and_returned) {
  for_each_run(request_of({0, 2}), [](const Generation& generation, bool cached) {
    ASSERT_EQ(generation.steps.size(), 3U);
    for (int i = 0; i < 3; ++i) {
      const GenerationStep& step = generation.steps[static_cast<std::size_t>(i)];
      EXPECT_EQ(step.step, i);
      EXPECT_EQ(step.fed, !cached ? 2 + i : i == 0 ? 2 : 1);
      EXPECT_EQ(step.consumed, 2 + i);
      EXPECT_EQ(step.returned, 1 + i);
      EXPECT_EQ(step.position, 1 + i);
      EXPECT_EQ(step.remaining, 2 - i);
      EXPECT_EQ(step.cache_length, cached ? std::optional<int>(2 + i) : std::nullopt);
      EXPECT_EQ(step.next_position, cached ? std::optional<int>(2 + i) : std::nullopt);
      EXPECT_EQ(step.token, generation.tokens[static_cast<std::size_t>(2 + i)]);
      EXPECT_EQ(step.drawn_with, 1);
    }
  });
}

TEST(Generate, keeps_the_logits_of_each_step_when_asked) {
  const auto engine = engine_of(chapter8().weights);
  const Generation generation = generate_cached(*engine, request_of({0, 2}), KeepLogits::yes);
  ASSERT_EQ(generation.logits.size(), 3U);
  Logits logits;
  engine->full({std::span<const int>(generation.tokens).first(3), 1}, Rows::last, logits);
  EXPECT_EQ(generation.logits[1], logits.values);
  const GenerationStep& step = generation.steps[1];
  EXPECT_EQ(step.logit, logits.values[static_cast<std::size_t>(step.token)]);
  EXPECT_EQ(step.probability, softmax_at(logits.values, step.token));
  EXPECT_TRUE(generate_cached(*engine, request_of({0, 2})).logits.empty());
}

TEST(Generate, draws_by_the_number_of_the_token_whatever_the_cache) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    std::optional<Tokens> first;
    for_each_run(sampled({0}, seed), [&](const Generation& generation, bool) {
      if (!first) first = generation.tokens;
      EXPECT_EQ(generation.tokens, *first) << "seed " << seed;
    });
    // The second draw alone gives the second token.
    if (first->size() < 3) continue;
    PolicyScratch scratch;
    Logits logits;
    engine_of(chapter8().weights)->full({std::span(*first).first(2), 1}, Rows::last, logits);
    const GenerationRequest request = sampled({0}, seed);
    EXPECT_EQ(
        choose(request.policy, logits.values, std::span(*first).first(2), {seed, 1}, scratch).token,
        first->at(2));
  }
}

TEST(Generate, penalises_what_was_consumed_and_returned) {
  const Model<float> model = generate_model("gen:plain:3");
  GenerationRequest request = request_of({1, 2}, std::nullopt);
  request.policy = parse_decoding("greedy,penalty:3", model.config.vocabulary, "test");
  const auto engine = engine_of(model);
  const Generation generation = generate_cached(*engine, request, KeepLogits::yes);
  int returned_ones_count = 0;
  PolicyScratch scratch;
  for (std::size_t i = 0; i < generation.steps.size(); ++i) {
    const auto seen = std::span(generation.tokens).first(2 + i);
    const auto by = [&](std::span<const int> tokens) {
      return choose(request.policy, generation.logits[i], tokens, {}, scratch).token;
    };
    EXPECT_EQ(generation.steps[i].token, by(seen));
    returned_ones_count += by(seen) != by(request.prompt) ? 1 : 0;
  }
  EXPECT_GT(returned_ones_count, 0);
}

// ---- Batches

// Random requests of every length, some of which join later.
std::vector<GenerationRequest> random_requests(const Config& config, int count, Draw& draw) {
  std::vector<GenerationRequest> requests;
  for (int i = 0; i < count; ++i) {
    GenerationRequest request;
    const int length = draw.next_in({1, config.context});
    for (int t = 0; t < length; ++t) request.prompt.push_back(draw.next_below(config.vocabulary));
    request.steps = draw.next_one_in(2) ? kStepsMax : draw.next_in({1, 4});
    if (draw.next_one_in(2)) request.eos = draw.next_below(config.vocabulary);
    request.policy = parse_decoding(draw.next_one_in(2) ? "greedy" : "temperature:1,penalty:1.2",
                                    config.vocabulary, "test");
    request.seed = draw.next_bits();
    request.join = draw.next_one_in(3) ? draw.next_in({0, 2 * config.context}) : 0;
    requests.push_back(request);
  }
  return requests;
}

// All but the steps' numbers, which count those of the batch.
void expect_same(const Generation& batch, const Generation& alone, int join,
                 const std::string& where) {
  EXPECT_EQ(batch.tokens, alone.tokens) << where;
  EXPECT_EQ(batch.stop, alone.stop) << where;
  EXPECT_TRUE(batch.undisturbed) << where;
  ASSERT_EQ(batch.steps.size(), alone.steps.size()) << where;
  for (std::size_t i = 0; i < batch.steps.size(); ++i) {
    GenerationStep step = batch.steps[i];
    EXPECT_EQ(step.step, join + static_cast<int>(i)) << where;
    step.step = static_cast<int>(i);
    EXPECT_EQ(step, alone.steps[i]) << where;
  }
}

TEST(GenerateBatch, gives_each_request_what_it_gets_alone) {
  Draw draw{1, stream_of("batch test")};
  int unequal = 0;
  for (const char* model_name :
       {"gen:one-token:1", "gen:plain:2", "gen:windowed:3", "gen:grouped-heads:4"}) {
    const Model<float> model = generate_model(model_name);
    for (const CacheKind& kind : cache_kinds()) {
      if (kind.lossy()) continue;
      for (int round = 0; round < 4; ++round) {
        const auto requests = random_requests(model.config, draw.next_in({1, 6}), draw);
        const auto together = generate_batch(*engine_of(model, name(kind)), requests);
        ASSERT_EQ(together.size(), requests.size());
        for (std::size_t i = 0; i < requests.size(); ++i) {
          const auto alone = generate_cached(*engine_of(model, name(kind)), requests[i]);
          expect_same(together[i], alone, requests[i].join,
                      std::string(model_name) + " " + name(kind) + " request " + std::to_string(i));
          if (together[i].steps.size() != together[0].steps.size()) ++unequal;
        }
      }
    }
  }
  EXPECT_GT(unequal, 20) << "requests that stop at different steps";
}

TEST(GenerateBatch, of_nothing_is_nothing_and_of_one_is_that_one) {
  const auto engine = engine_of(chapter8().weights, "padded-left");
  EXPECT_TRUE(generate_batch(*engine, {}).empty());
  const GenerationRequest request = request_of({0, 2});
  const auto one = generate_batch(*engine, std::span(&request, 1));
  expect_same(one.at(0), generate_cached(*engine, request), 0, "one");
}

TEST(GenerateBatch, stops_each_request_by_its_own_rules) {
  const auto engine = engine_of(chapter8().weights, "padded-right");
  std::vector<GenerationRequest> requests{request_of({0, 2}), request_of({0, 2}, std::nullopt),
                                          request_of({0, 3}), request_of({0, 2, 4, 6}),
                                          request_of({0})};
  requests[2].steps = 1;
  requests[4].join = 7;
  const auto generations = generate_batch(*engine, requests);
  EXPECT_EQ(generations[0].stop, Stop::eos);
  EXPECT_EQ(generations[1].stop, Stop::context);
  EXPECT_EQ(generations[2].stop, Stop::steps);
  EXPECT_EQ(generations[3].stop, Stop::eos);
  EXPECT_EQ(generations[3].steps.size(), 1U);
  EXPECT_EQ(generations[4].steps.front().step, 7);  // nobody was left at steps 3 to 6
}

// Feeds of finished rows and steps without anybody would show here.
class CountingEngine final : public Engine {
 public:
  explicit CountingEngine(Engine& inner) : inner_(inner) {}
  [[nodiscard]] const Hello& hello() const override { return inner_.hello(); }
  void full(const TokenBlock& block, Rows rows, Logits& out) override {
    inner_.full(block, rows, out);
  }
  [[nodiscard]] SequenceId open() override { return inner_.open(); }
  void close(SequenceId sequence) override { inner_.close(sequence); }
  void feed(SequenceId sequence, std::span<const int> tokens, Rows rows, Logits& out) override {
    inner_.feed(sequence, tokens, rows, out);
  }
  void batch(std::span<const Feed> feeds, Rows rows, Logits& out) override {
    std::string lengths;
    for (const Feed& feed : feeds) lengths += std::to_string(feed.tokens.size()) + " ";
    log += lengths + "| ";
    if (disturb && feeds.size() == 1) inner_.truncate(0, 1);
    inner_.batch(feeds, rows, out);
  }
  [[nodiscard]] Held held(SequenceId sequence) const override { return inner_.held(sequence); }
  [[nodiscard]] std::uint64_t fingerprint(SequenceId sequence) const override {
    return inner_.fingerprint(sequence);
  }

  std::string log;
  bool disturb = false;  // rows of sequence 0 are rolled back when one request is left

 private:
  Engine& inner_;
};

TEST(GenerateBatch, feeds_prompts_then_single_tokens_and_nothing_of_who_has_stopped) {
  const auto inner = engine_of(chapter8().weights);
  CountingEngine engine(*inner);
  std::vector<GenerationRequest> requests{request_of({0, 2}), request_of({0, 2, 4}),
                                          request_of({0})};
  requests[2].join = 1;
  (void)generate_batch(engine, requests);
  EXPECT_EQ(engine.log, "2 3 | 1 1 1 | 1 1 | 1 | 1 | ");
}

TEST(GenerateBatch, notices_when_what_has_stopped_is_changed) {
  const std::vector<GenerationRequest> requests{request_of({0, 2, 4, 6}), request_of({0})};
  const auto inner = engine_of(chapter8().weights);
  CountingEngine engine(*inner);
  engine.disturb = true;
  const auto generations = generate_batch(engine, requests);
  EXPECT_FALSE(generations[0].undisturbed);
  EXPECT_TRUE(generations[1].undisturbed);
}

// ---- What is refused

TEST(Generate, refuses_requests_that_no_engine_can_take) {
  const auto error = [](const GenerationRequest& request) {
    return error_of([&] { validate(request, chapter8().weights.config, "request"); });
  };
  EXPECT_EQ(error(request_of({0, 2})), "no error");
  EXPECT_EQ(error(request_of({0, 2, 4, 6})), "no error");
  EXPECT_EQ(error(request_of({})), "request: no tokens, expected at least 1, got 0");
  EXPECT_EQ(error(request_of({0, 2, 4, 6, 1})),
            "request: past the context, expected at most 4 rows, got 5");
  EXPECT_EQ(error(request_of({8})),
            "request: token outside the vocabulary, expected an id from 0 to 7, got 8");
  EXPECT_EQ(error(request_of({0}, 8)),
            "request: EOS outside the vocabulary, expected an id from 0 to 7, got 8");
  EXPECT_EQ(error({.prompt = {0}, .steps = 0}), "request: steps, expected 1 to 1000000, got 0");
  EXPECT_EQ(error({.prompt = {0}, .join = -1}),
            "request: step to join at, expected 0 to 1000000, got -1");
}

TEST(Generate, takes_a_refusal_of_what_is_valid_for_a_broken_engine) {
  const auto inner = engine_of(generate_model("gen:one-token:1"));
  const GenerationRequest request = request_of({7});  // another model's token
  EXPECT_THROW((void)generate_cached(*inner, request), EngineError);
  EXPECT_THROW((void)generate_uncached(*inner, request), EngineError);
  EXPECT_THROW((void)generate_batch(*inner, std::span(&request, 1)), EngineError);
}

TEST(Generate, takes_logits_that_are_not_finite_for_a_broken_engine) {
  Model<float> model = chapter8().weights;
  model.embedding(5, 0) = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW((void)generate_cached(*engine_of(model), request_of({5})), BadLogits);
}

}  // namespace
}  // namespace kvcheck
