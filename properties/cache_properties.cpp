// SPDX-License-Identifier: MIT
// What is true of all models, prefixes and schedules: the promise of a cache.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "engine/builtin.h"
#include "engine/generated.h"
#include "properties/claims.h"
#include "properties/gen.h"
#include "verify/case_text.h"
#include "verify/models.h"
#include "verify/noise.h"

namespace kvcheck {
namespace {

// A model of any shape, which has no name.
ModelData unnamed_model(const Config& config, std::uint64_t seed) {
  ModelData model;
  model.weights = random_model(config, WeightScales{}, seed);
  model.sha256 = model_sha256(model.weights);
  return model;
}

struct Drawn {
  ModelData model;
  Case subject;
};

// A case of `check` on one of the named models, or on a model of any shape.
Drawn draw_case(const std::string& check, Arithmetic arithmetic, const Policy& policy) {
  Drawn drawn;
  if (*rc::gen::arbitrary<bool>()) {
    drawn.model = load_model((*any_model().as("model")).name());
  } else {
    const Config config = *any_config().as("config");
    drawn.model = unnamed_model(config, *any_seed().as("weights"));
  }
  drawn.subject.check = check;
  drawn.subject.model = drawn.model.name;
  drawn.subject.arithmetic = arithmetic;
  drawn.subject.policy = policy;
  drawn.subject.tokens = *any_tokens(drawn.model.weights.config).as("tokens");
  const int length = static_cast<int>(drawn.subject.tokens.size());
  drawn.subject.schedule = *any_schedule(length).as("schedule");
  const int fills = length == drawn.model.weights.config.context ? 1 : 0;
  RC_CLASSIFY(fills == 1, "fills the context");
  RC_CLASSIFY(drawn.subject.schedule.size() > 1, "several feeds");
  return drawn;
}

void must_agree(const Drawn& drawn) {
  const auto complaint = complaint_about(drawn.subject, drawn.model, builtin_engine);
  if (complaint) RC_FAIL(*complaint);
}

RC_GTEST_PROP(Cache, agrees_to_the_last_bit_in_row_arithmetic_however_a_prefix_is_fed, ()) {
  must_agree(draw_case("schedules", Arithmetic::row, Exact{}));
}

RC_GTEST_PROP(Cache, agrees_within_the_noise_floor_in_matrix_arithmetic_however_a_prefix_is_fed,
              ()) {
  must_agree(draw_case("schedules", Arithmetic::matrix, NoiseLimit{}));
}

RC_GTEST_PROP(Cache, agrees_in_float64, ()) {
  Drawn drawn = draw_case("schedules", Arithmetic::matrix, NoiseLimit{});
  drawn.subject.scalar = ScalarKind::f64;
  must_agree(drawn);
}

RC_GTEST_PROP(Oracle, gives_each_row_as_the_forward_of_its_own_prefix, ()) {
  Drawn drawn = draw_case("causality", Arithmetic::row, Exact{});
  drawn.subject.schedule.clear();
  must_agree(drawn);
}

RC_GTEST_PROP(Cache, accounts_for_every_row_position_and_byte, ()) {
  must_agree(draw_case("accounting", Arithmetic::row, Exact{}));
}

// Two sequences that know nothing of each other, fed together and each alone.
RC_GTEST_PROP(Cache, rows_of_a_batch_are_those_of_each_sequence_alone, ()) {
  const ModelData model = load_model((*any_model().as("model")).name());
  const Config& config = model.weights.config;
  const auto a = *any_tokens(config).as("a");
  const auto b = *any_tokens(config).as("b");
  Builtin<float> engine(model.weights, Arithmetic::row);
  Logits alone_a;
  Logits alone_b;
  Logits together;
  engine.feed(engine.open(), a, Rows::all, alone_a);
  engine.feed(engine.open(), b, Rows::all, alone_b);
  const std::vector<Feed> feeds{{engine.open(), a}, {engine.open(), b}};
  engine.batch(feeds, Rows::all, together);
  std::vector<double> expected = alone_a.values;
  expected.insert(expected.end(), alone_b.values.begin(), alone_b.values.end());
  RC_ASSERT(together.values == expected);
}

// What was rolled back leaves no trace, and a fork goes its own way.
RC_GTEST_PROP(Cache, a_fork_and_a_roll_back_give_what_feeding_alone_gives, ()) {
  const ModelData model = load_model((*any_model().as("model")).name());
  const Config& config = model.weights.config;
  const auto tokens = *any_tokens(config).as("tokens");
  const auto detour = *any_tokens(config).as("detour");
  const auto kept = static_cast<std::size_t>(
      *rc::gen::resize(100, rc::gen::inRange<int>(0, static_cast<int>(tokens.size()))).as("kept"));
  Builtin<float> engine(model.weights, Arithmetic::row);
  Logits expected;
  Logits rolled_back;
  Logits ignored;
  const std::span<const int> all(tokens);
  engine.full({all, 1}, Rows::last, expected);
  const SequenceId parent = engine.open();
  if (kept > 0) engine.feed(parent, all.first(kept), Rows::last, ignored);
  const SequenceId child = engine.fork(parent);
  const auto room = std::min(detour.size(), static_cast<std::size_t>(config.context) - kept);
  engine.feed(child, std::span(detour).first(room), Rows::last, ignored);
  engine.truncate(child, static_cast<int>(kept));
  for (const SequenceId sequence : {child, parent}) {
    engine.feed(sequence, all.subspan(kept), Rows::last, rolled_back);
    RC_ASSERT(rolled_back.values == expected.values);
  }
}

// A wrong engine, to see that a failing property says how to run its case again.
class OffByOne final : public Engine {
 public:
  explicit OffByOne(const ModelData& model) : inner_(model.weights, Arithmetic::row) {}
  const Hello& hello() const override { return inner_.hello(); }
  void full(const TokenBlock& block, Rows rows, Logits& out) override {
    inner_.full(block, rows, out);
  }
  SequenceId open() override { return inner_.open(); }
  void close(SequenceId sequence) override { inner_.close(sequence); }
  void feed(SequenceId sequence, std::span<const int> tokens, Rows rows, Logits& out) override {
    inner_.feed(sequence, tokens, rows, out);
    out.values.back() += 1;
  }
  void batch(std::span<const Feed> feeds, Rows rows, Logits& out) override {
    inner_.batch(feeds, rows, out);
  }
  void truncate(SequenceId sequence, int length) override { inner_.truncate(sequence, length); }
  SequenceId fork(SequenceId sequence) override { return inner_.fork(sequence); }
  Held held(SequenceId sequence) const override { return inner_.held(sequence); }

 private:
  Builtin<float> inner_;
};

TEST(Claims, a_failing_one_ends_in_the_line_that_runs_its_case_again) {
  const EngineFactory wrong = [](const ModelData& model, const EngineSetup&) {
    return std::make_unique<OffByOne>(model);
  };
  const ModelData model = load_model("gen:plain:1");
  const Case subject{.check = "schedules",
                     .model = model.name,
                     .model_hash = {},
                     .arithmetic = Arithmetic::row,
                     .policy = Exact{},
                     .tokens = {1, 2, 3},
                     .schedule = {2, 1}};
  const auto complaint = complaint_about(subject, model, wrong);
  ASSERT_TRUE(complaint.has_value());
  const std::string line = complaint->substr(complaint->rfind('\n') + 1);
  ASSERT_EQ(line.rfind("kvcheck repro kv1:", 0), 0U) << *complaint;
  const Case again = parse_token(line.substr(std::string("kvcheck repro ").size()), "token");
  EXPECT_EQ(again.tokens, subject.tokens);
  EXPECT_EQ(again.schedule, subject.schedule);
  require_same_model(again, model, "token");
  EXPECT_EQ(run_case(again, model, wrong).result.verdict, Verdict::diverge);
  EXPECT_EQ(run_case(again, model, builtin_engine).result.verdict, Verdict::agree);
}

TEST(Claims, a_model_without_a_name_is_saved_so_that_the_line_can_name_it) {
  const EngineFactory wrong = [](const ModelData& model, const EngineSetup&) {
    return std::make_unique<OffByOne>(model);
  };
  const ModelData named = load_model("gen:plain:2");
  const ModelData model = unnamed_model(named.weights.config, 7);
  const Case subject{.check = "schedules",
                     .model = {},
                     .model_hash = {},
                     .arithmetic = Arithmetic::row,
                     .policy = Exact{},
                     .tokens = {1},
                     .schedule = {1}};
  const auto complaint = complaint_about(subject, model, wrong);
  ASSERT_TRUE(complaint.has_value());
  const Case again = parse_token(complaint->substr(complaint->find("kv1:")), "token");
  const ModelData found = load_model(again.model);
  require_same_model(again, found, "token");
  std::filesystem::remove_all(again.model);
}

}  // namespace
}  // namespace kvcheck
