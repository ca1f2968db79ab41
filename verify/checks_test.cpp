// SPDX-License-Identifier: MIT
// The table of checks: what applies where, and by which policy.
#include "verify/checks.h"

#include <gtest/gtest.h>

#include <set>

#include "engine/test_support.h"
#include "verify/generation.h"
#include "verify/test_faults.h"

namespace kvcheck {
namespace {

std::string applying(const Subject& subject) {
  std::string ids;
  for (const Check& check : checks()) {
    if (check.applies(subject)) ids += std::string(check.id) + " ";
  }
  return ids;
}

TEST(Checks, each_has_a_name_of_its_own_and_a_claim) {
  std::set<std::string_view> ids;
  for (const Check& check : checks()) {
    EXPECT_TRUE(ids.insert(check.id).second) << check.id;
    EXPECT_FALSE(check.claim.empty()) << check.id;
    EXPECT_EQ(&find_check(check.id, "x"), &check);
  }
}

TEST(Checks, apply_where_the_table_says) {
  const ModelData model = small_model();
  EXPECT_EQ(applying({model, Source::all, true, Arithmetic::row}),
            "all-prefixes exact causality schedules accounting generation ");
  EXPECT_EQ(applying({model, Source::all, true, Arithmetic::matrix}),
            "all-prefixes noise causality schedules accounting generation ");
  EXPECT_EQ(applying({model, Source::corpus, false, Arithmetic::row}), "corpus-prefixes ");
  EXPECT_EQ(applying({model, Source::random, true, Arithmetic::row}),
            "random-prefixes exact causality schedules accounting generation ");
  EXPECT_EQ(applying({model, Source::file, false, Arithmetic::matrix}), "file-prefixes ");
}

TEST(Checks, contract_and_golden_need_what_a_model_declares) {
  ModelData model = small_model();
  model.contract_abs = 1e-5;
  model.golden = std::make_shared<const GoldenLogits>(3, 1, std::vector<double>(9));
  EXPECT_EQ(applying({model, Source::all, true, Arithmetic::matrix}),
            "all-prefixes contract noise causality golden schedules accounting generation ");
  EXPECT_EQ(applying({model, Source::random, true, Arithmetic::matrix}),
            "random-prefixes contract noise causality schedules accounting generation ")
      << "golden logits are of all prefixes";
}

TEST(Checks, contract_and_golden_are_not_about_rounded_rows) {
  ModelData model = small_model();
  model.contract_abs = 1e-5;
  model.golden = std::make_shared<const GoldenLogits>(3, 1, std::vector<double>(9));
  EXPECT_EQ(applying({model, Source::all, true, Arithmetic::matrix, true}),
            "all-prefixes noise causality schedules accounting generation ");
  EXPECT_EQ(default_policy(model, Arithmetic::matrix, true), Policy{NoiseLimit{}});
  EXPECT_EQ(default_policy(model, Arithmetic::row, true), Policy{Exact{}});
}

TEST(Checks, of_generation_feed_a_prompt_whole_and_are_judged_as_the_rest) {
  const Check& check = find_check("generation", "x");
  EXPECT_EQ(probe_of(check), &probe_generation);
  EXPECT_TRUE(feeds_by(check, single_schedule(3)));
  EXPECT_FALSE(feeds_by(check, decode_schedule(3)));
  EXPECT_EQ(check.own_policy(small_model()), std::nullopt);
  EXPECT_EQ(check.scalar, std::nullopt);
}

TEST(Checks, that_judge_again_have_the_policy_of_their_name) {
  ModelData model = small_model();
  model.contract_abs = 0.25;
  EXPECT_EQ(find_check("exact", "x").own_policy(model), Policy{Exact{}});
  EXPECT_EQ(find_check("contract", "x").own_policy(model), Policy{AbsLimit{0.25}});
  EXPECT_EQ(find_check("noise", "x").own_policy(model), Policy{NoiseLimit{}});
  EXPECT_EQ(find_check("golden", "x").own_policy(model), Policy{RelativeLimit{}});
  for (const char* id : {"corpus-prefixes", "all-prefixes", "random-prefixes", "file-prefixes",
                         "causality", "schedules", "accounting"}) {
    EXPECT_EQ(find_check(id, "x").own_policy(model), std::nullopt) << id;
  }
}

TEST(Checks, golden_logits_are_compared_in_float64) {
  for (const Check& check : checks()) {
    EXPECT_EQ(check.scalar.has_value(), check.id == "golden") << check.id;
  }
  EXPECT_EQ(find_check("golden", "x").scalar, ScalarKind::f64);
}

TEST(Checks, that_judge_again_are_replayed_by_the_prefix_probe) {
  for (const Check& check : checks()) {
    EXPECT_EQ(probe_of(check), check.probe == nullptr ? &probe_prefixes : check.probe);
  }
  EXPECT_EQ(probe_of(find_check("exact", "x")), &probe_prefixes);
  EXPECT_EQ(probe_of(find_check("schedules", "x")), &probe_schedules);
}

TEST(Checks, an_unknown_one_is_an_error_that_lists_them) {
  EXPECT_EQ(error_of([] { (void)find_check("speed", "case"); }),
            "case: unknown check, expected one of corpus-prefixes, all-prefixes, random-prefixes, "
            "file-prefixes, exact, contract, noise, causality, golden, schedules, accounting, "
            "generation, operations, got speed");
}

TEST(DefaultPolicy, is_exact_in_row_arithmetic_else_the_contract_else_noise) {
  ModelData model = small_model();
  EXPECT_EQ(default_policy(model, Arithmetic::row), Policy{Exact{}});
  EXPECT_EQ(default_policy(model, Arithmetic::matrix), Policy{NoiseLimit{30}});
  model.contract_abs = 1e-5;
  EXPECT_EQ(default_policy(model, Arithmetic::row), Policy{Exact{}});
  EXPECT_EQ(default_policy(model, Arithmetic::matrix), Policy{AbsLimit{1e-5}});
}

}  // namespace
}  // namespace kvcheck
