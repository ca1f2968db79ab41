// SPDX-License-Identifier: MIT
// Every invariant holds of what the engine generates, and each is violated by an account that it is
// there to find.
#include "verify/generation_invariants.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>

#include "engine/builtin.h"
#include "engine/model_file.h"

namespace kvcheck {
namespace {

const Model<float>& chapter8() {
  static const ModelData model = load_model_folder(bundled_folder("chapter8"));
  return model.weights;
}

std::string violated(const GenerationRequest& request, const Generation& generation, bool cached) {
  return violated_invariant({request, generation, 4, 8, cached});
}

GenerationRequest request() { return {.prompt = {0, 2}, .eos = 1}; }

Generation generated(bool cached) {
  const auto engine = make_builtin(chapter8(), ScalarKind::f32, Arithmetic::row);
  return cached ? generate_cached(*engine, request()) : generate_uncached(*engine, request());
}

TEST(GenerationInvariants, hold_with_and_without_a_cache) {
  EXPECT_EQ(violated(request(), generated(true), true), "");
  EXPECT_EQ(violated(request(), generated(false), false), "");
}

using Falsify = std::function<void(Generation&)>;

struct WrongAccount {
  Falsify falsify;
  std::string_view mismatch;  // what is said of it
};

// The first wrong number decides the name, so each account is wrong in one thing only.
const std::map<std::string, WrongAccount>& wrong_accounts() {
  static const std::map<std::string, WrongAccount> wrong{
      {"prompt-kept", {[](Generation& g) { g.tokens[1] = 3; }, "expected 2 at position 1, got 3"}},
      {"steps-numbered", {[](Generation& g) { g.steps[2].step = 3; }, "expected 2, got 3"}},
      {"fed-once", {[](Generation& g) { g.steps[1].fed = 2; }, "expected 1, got 2"}},
      {"consumed-adds-up", {[](Generation& g) { g.steps[1].consumed = 4; }, "expected 3, got 4"}},
      {"length-is-consumed",
       {[](Generation& g) { g.steps[1].cache_length = 2; }, "expected 3, got 2"}},
      {"next-position-is-length",
       {[](Generation& g) { g.steps[2].next_position = 3; }, "expected 4, got 3"}},
      {"position-is-last", {[](Generation& g) { g.steps[0].position = 2; }, "expected 1, got 2"}},
      {"returned-adds-up", {[](Generation& g) { g.steps[2].returned = 2; }, "expected 3, got 2"}},
      {"remaining-is-rest", {[](Generation& g) { g.steps[0].remaining = 1; }, "expected 2, got 1"}},
      {"token-in-vocabulary",
       {[](Generation& g) { g.steps[0].token = 8; }, "expected 0 to 7, got 8"}},
      {"token-listed", {[](Generation& g) { g.steps[0].token = 7; }, "expected 4, got 7"}},
      {"choice-possible",
       {[](Generation& g) { g.steps[1].drawn_with = 0; },
        "expected a probability under the policy above 0 and at most 1, got 0"}},
      {"stops-when-due",
       {[](Generation& g) {
          g.steps.pop_back();
          g.tokens.pop_back();
        },
        "expected another step, got the end of the generation"}},
      {"stop-reason", {[](Generation& g) { g.stop = Stop::context; }, "expected eos, got context"}},
      {"one-unfed", {[](Generation& g) { g.tokens.push_back(1); }, "expected 5, got 4"}},
      {"undisturbed", {[](Generation& g) { g.undisturbed = false; }, "expected yes, got no"}},
  };
  return wrong;
}

TEST(GenerationInvariants, are_each_violated_by_a_wrong_account) {
  for (const GenerationInvariant& invariant : generation_invariants()) {
    const auto wrong = wrong_accounts().find(std::string(invariant.name));
    ASSERT_NE(wrong, wrong_accounts().end()) << invariant.name << " was never seen to fail";
    Generation generation = generated(true);
    wrong->second.falsify(generation);
    const std::string message = violated(request(), generation, true);
    EXPECT_EQ(message.find("invariant " + std::string(invariant.name) + " violated"), 0U)
        << message;
    EXPECT_TRUE(message.ends_with(std::string(invariant.claim) + ", " +
                                  std::string(wrong->second.mismatch)))
        << message;
  }
  EXPECT_EQ(wrong_accounts().size(), generation_invariants().size());
}

TEST(GenerationInvariants, name_the_step) {
  Generation generation = generated(true);
  generation.steps[1].cache_length = 2;
  EXPECT_EQ(violated(request(), generation, true),
            "invariant length-is-consumed violated at step 2: rows in the cache = tokens consumed, "
            "expected 3, got 2");
}

TEST(GenerationInvariants, see_other_wrong_accounts_too) {
  const std::map<std::string, Falsify> wrong{
      {"a cache where there is none", [](Generation& g) { g.steps[0].cache_length = {}; }},
      {"a logit that is no number",
       [](Generation& g) { g.steps[0].logit = std::numeric_limits<double>::quiet_NaN(); }},
      {"a probability that is none",
       [](Generation& g) { g.steps[0].probability = std::numeric_limits<double>::quiet_NaN(); }},
      {"no steps at all",
       [](Generation& g) {
         g.steps.clear();
         g.tokens.resize(2);
       }},
  };
  for (const auto& [what, falsify] : wrong) {
    Generation generation = generated(true);
    falsify(generation);
    EXPECT_NE(violated(request(), generation, true), "") << what;
  }
  // A step behind EOS, or more steps than allowed.
  GenerationRequest other = request();
  other.eos = generated(true).tokens[2];
  EXPECT_NE(violated(other, generated(true), true), "");
  other = request();
  other.steps = 2;
  EXPECT_NE(violated(other, generated(true), true), "");
  EXPECT_NE(violated(request(), generated(false), true), "") << "recomputed, not cached";
}

}  // namespace
}  // namespace kvcheck
