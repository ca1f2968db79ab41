// SPDX-License-Identifier: MIT
// A failing sequence becomes the smallest that fails in the same way, within its budget.
#include "verify/smaller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "engine/builtin.h"
#include "verify/test_canaries.h"
#include "verify/test_faults.h"

namespace kvcheck {
namespace {

using ::testing::ElementsAre;

const CaseResult kByLogits{.verdict = Verdict::diverge, .row = RowComparison{}, .step = 2};
const CaseResult kByFact{.verdict = Verdict::diverge, .step = 2, .note = "rows"};
const CaseResult kBroken{.verdict = Verdict::broken, .step = 2, .note = "lost"};

TEST(SameClass, is_verdict_verb_and_what_is_wrong) {
  const ModelData model = two_window_model();
  const Case fed = operations_case(model, {}, "open.feed:0x1.feed:0x1");
  const Case batch = operations_case(model, {}, "open.feed:0x3.batch:0x1");
  const Case fork = operations_case(model, {}, "open.feed:0x3.fork:0");
  EXPECT_TRUE(same_class(fed, kByLogits, fed, kByLogits));
  EXPECT_TRUE(same_class(fed, kByLogits, batch, kByLogits)) << "a batch of one is a feed";
  EXPECT_FALSE(same_class(fed, kByLogits, fork, kByLogits));
  EXPECT_FALSE(same_class(fed, kByLogits, fed, kByFact));
  EXPECT_FALSE(same_class(fed, kByFact, fed, kBroken));
  EXPECT_TRUE(same_class(fork, kByFact, fork, kByFact));
  // Logits may be wrong beside a fact: the fact is what the case is known by.
  CaseResult both = kByLogits;
  both.note = "rows";
  EXPECT_TRUE(same_class(fed, kByFact, fed, both));
  EXPECT_FALSE(same_class(fed, kByLogits, fed, both));
  CaseResult elsewhere = kByLogits;
  elsewhere.step = 0;
  EXPECT_FALSE(same_class(fed, kByLogits, fed, elsewhere)) << "the open";
}

SmallerCase smaller_of(const Case& subject, const ModelData& model, const EngineFactory& factory) {
  const CaseResult result = run_case(subject, model, factory).result;
  EXPECT_NE(result.verdict, Verdict::agree);
  return make_smaller(subject, result, model, factory);
}

TEST(Smaller, keeps_all_but_the_operations_and_fails_alike) {
  const ModelData model = two_window_model();
  const Case subject =
      operations_case(model, {}, "open.feed:0x5.fork:0.save:0.feed:1x2.load:0.feed:2x3.close:0");
  const EngineFactory factory = canary("load-one-row-short", Tells::all).factory;
  const SmallerCase smaller = smaller_of(subject, model, factory);
  Case expected = subject;
  expected.operations = parse_operations("open.feed:0x1.save:0.load:0", "test");
  EXPECT_EQ(smaller.subject, expected);
  EXPECT_EQ(smaller.result.note, "invariant copies-equal violated after load: changed");
  EXPECT_EQ(smaller.result.step, 3);
  EXPECT_TRUE(smaller.complete);
  EXPECT_GT(smaller.tries, 3);
  EXPECT_LE(smaller.tries, kSmallerTries);
}

// The fault at hand is in every engine that the factory makes, or in those of one setting only.
TEST(Smaller, says_which_fields_do_not_matter) {
  const ModelData model = two_window_model();
  const EngineFactory wrong = canary("load-one-row-short", Tells::all).factory;
  const CacheKind growing{.layout = CacheLayout::growing};
  const Case subject = operations_case(model, growing, "open.feed:0x1.save:0.load:0");
  EXPECT_THAT(smaller_of(subject, model, wrong).indifferent,
              ElementsAre("the other arithmetic", "the other scalar", "a flat cache"));
  const auto only = [&](bool (*where)(const EngineSetup&)) -> EngineFactory {
    return [=](const ModelData& of, const EngineSetup& setup) {
      return where(setup) ? wrong(of, setup) : builtin_engine(of, setup);
    };
  };
  EXPECT_THAT(smaller_of(subject, model, only([](const EngineSetup& s) {
                           return s.cache.layout == CacheLayout::growing;
                         }))
                  .indifferent,
              ElementsAre("the other arithmetic", "the other scalar"));
  EXPECT_THAT(smaller_of(subject, model,
                         only([](const EngineSetup& s) { return s.scalar == ScalarKind::f32; }))
                  .indifferent,
              ElementsAre("the other arithmetic", "a flat cache"));
  EXPECT_THAT(smaller_of(subject, model,
                         only([](const EngineSetup& s) { return s.arithmetic == Arithmetic::row; }))
                  .indifferent,
              ElementsAre("the other scalar", "a flat cache"));
  // A flat cache has no plainer kind to be compared with.
  const Case flat = operations_case(model, {}, "open.feed:0x1.save:0.load:0");
  EXPECT_THAT(smaller_of(flat, model, wrong).indifferent,
              ElementsAre("the other arithmetic", "the other scalar"));
}

// Wrong in two ways: a truncation spoils a key, and the third row of a feed has other scores.
EngineFactory wrong_in_two_ways() {
  return [](const ModelData& model, const EngineSetup& setup) {
    auto builtin = std::make_unique<Builtin<float>>(model.weights, setup.arithmetic, setup.cache);
    Builtin<float>& engine = *builtin;
    engine.observe_cached([](const SiteTensor<float>& tensor) {
      if (tensor.site == Site::scores && tensor.row == 2) tensor.at(0, 0) += 1;
    });
    Hooks hooks;
    hooks.truncate = [&engine](Engine& inner, SequenceId sequence, int length) {
      inner.truncate(sequence, length);
      if (length > 0) *engine.cache(sequence).key(1, 0) += 1;
    };
    return std::make_unique<HookedEngine>(std::move(builtin), std::move(hooks));
  };
}

TEST(Smaller, keeps_the_point_at_which_the_run_first_parts) {
  const ModelData model = two_window_model();
  Case subject = operations_case(model, {}, "open.feed:0x2.truncate:0x1.feed:0x3");
  EXPECT_EQ(to_text(smaller_of(subject, model, wrong_in_two_ways()).subject.operations),
            "open.feed:0x1.truncate:0x1.feed:0x1");
  subject.operations = parse_operations("open.feed:0x2.feed:0x3", "test");
  EXPECT_EQ(to_text(smaller_of(subject, model, wrong_in_two_ways()).subject.operations),
            "open.feed:0x3");
}

// An engine that takes a tenth of a second to open a sequence: few candidates fit the time.
TEST(Smaller, ends_with_what_it_has_when_the_time_is_up) {
  const ModelData model = two_window_model();
  const EngineFactory wrong = canary("load-one-row-short", Tells::all).factory;
  const EngineFactory slow = [&](const ModelData& of, const EngineSetup& setup) {
    std::this_thread::sleep_for(std::chrono::milliseconds{100});
    return wrong(of, setup);
  };
  const Case subject = operations_case(
      model, {},
      "open.feed:0x7.fork:0.fork:1.fork:2.batch:1x5-2x6-3x7.truncate:1x9.truncate:2x8.truncate:3x7."
      "reorder:0-1-2-3@3-2-1-0.save:0.feed:0x3.save:0.save:1.close:1.close:2.save:3.load:3");
  const SmallerCase smaller = smaller_of(subject, model, slow);
  EXPECT_FALSE(smaller.complete);
  EXPECT_LT(smaller.tries, 25);
  EXPECT_EQ(smaller.result.verdict, Verdict::diverge);
  EXPECT_EQ(run_case(smaller.subject, model, wrong).result.note, smaller.result.note);
}

}  // namespace
}  // namespace kvcheck
