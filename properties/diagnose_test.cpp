// SPDX-License-Identifier: MIT
// What is wrong with an engine is told from its answers: faults of the table are named, and what is
// not in the table is explained by nothing that is.
#include "verify/diagnose.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "properties/operations_gen.h"
#include "verify/fault_trial.h"
#include "verify/faults.h"
#include "verify/models.h"

namespace kvcheck {
namespace {

constexpr std::uint64_t kSeed = 1;

// The first case that shows the fault, in whatever arithmetic that is.
std::optional<Case> shown(const FaultVariant& variant, const ModelData& model) {
  const ModelRun run{model, sources_of(model, {}, {kSeed, 0, kRandomSequences}), {}};
  for (const TrialCell& cell : try_fault(variant, run, {.draw = random_operations})) {
    if (cell.first) return cell.first->subject;
  }
  return {};
}

Diagnosis diagnosis_of(const FaultVariant& variant, const Case& subject, const ModelData& model) {
  return diagnose(subject, model, faulty_engine(variant, std::make_shared<FaultTrace>()),
                  {.draw = random_operations});
}

// ---- Faults of the table

class Named : public ::testing::TestWithParam<const Fault*> {};

TEST_P(Named, is_the_fault_that_was_planted) {
  const Fault& fault = *GetParam();
  const ModelData model = load_model(tiny_name(fault.needs, kSeed));
  const auto all = variants(fault, model.weights.config.layers);
  const FaultVariant variant = all.front();
  {
    const auto subject = shown(variant, model);
    ASSERT_TRUE(subject) << to_text(variant);
    const Diagnosis diagnosis = diagnosis_of(variant, *subject, model);
    EXPECT_TRUE(std::ranges::any_of(diagnosis.explains,
                                    [&](const Explanation& by) { return by.fault == variant; }))
        << to_text(variant) << ": " << to_text(diagnosis);
    EXPECT_FALSE(diagnosis.right) << to_text(variant);
  }
}

// What these do is of the size of rounding, which falls otherwise in another scalar, or is met by
// few sequences: some of their variants are not named.
constexpr std::array<std::string_view, 5> kNotAlwaysNamed{"evict-from-the-start",
                                                          "dtype-narrow-f16", "dtype-fresh-row-f16",
                                                          "quant-cut", "hash-truncated"};

std::vector<const Fault*> caught() {
  std::vector<const Fault*> rows;
  for (const Fault& fault : faults()) {
    const bool asked = std::ranges::find(kNotAlwaysNamed, fault.id) == kNotAlwaysNamed.end();
    if (fault.expected == Expected::caught && asked) rows.push_back(&fault);
  }
  return rows;
}

std::string test_name(const ::testing::TestParamInfo<const Fault*>& info) {
  std::string text(info.param->id);
  std::ranges::replace(text, '-', '_');
  return text;
}

INSTANTIATE_TEST_SUITE_P(Table, Named, ::testing::ValuesIn(caught()), test_name);

// ---- Faults that are in no table

// Every entry of a site in steps that go on from a cache.
template <typename Tensor, typename Change>
void each_entry(const Tensor& tensor, const FaultStep& step, Change change) {
  for (int r = 0; r < tensor.rows; ++r) {
    const bool of_one_row = tensor.site == Site::scores || tensor.site == Site::probabilities;
    if (!step.warm(of_one_row ? tensor.row : r)) continue;
    for (int c = 0; c < tensor.columns; ++c) change(tensor.at(r, c), r, c);
  }
}

constexpr Fault unknown(std::string_view id, Site site, auto change) {
  return {id, "", "", "", {}, "flat", {}, at_sites(SiteSet().with(site), change)};
}
constexpr Fault unknown(std::string_view id, PlanFault change) {
  return {id, "", "", "", {}, "flat", {}, change};
}

void backwards_from_the_end(StepPlan& plan, const FaultStep& step) {
  for (std::size_t r = 0; r < plan.rows.size(); ++r) {
    if (!step.warm(static_cast<int>(r))) continue;
    plan.rows[r].position = step.config.context - 1 - plan.rows[r].position;
  }
}

// Every third row is hidden, but for the newest.
void every_third_hidden(StepPlan& plan, const FaultStep& step) {
  for (int layer = 0; layer < step.config.layers; ++layer) {
    const SlotView view = own_view(plan, layer);
    SlotView sparse{.first = {0}, .slots = {}, .write = view.write};
    for (int r = 0; r < static_cast<int>(plan.rows.size()); ++r) {
      const auto seen = view.of(r);
      for (std::size_t i = 0; i < seen.size(); ++i) {
        if (i % 3 != 1 || i + 1 == seen.size()) sparse.slots.push_back(seen[i]);
      }
      sparse.first.push_back(static_cast<int>(sparse.slots.size()));
    }
    own_view(plan, layer) = sparse;
  }
}

constexpr std::array kUnknown{
    unknown("values-a-hundredth-larger", Site::value,
            [](const auto& t, const FaultStep& s) {
              each_entry(t, s, [](auto& x, int, int) { x *= 1.01F; });
            }),
    unknown("keys-a-little-moved", Site::key,
            [](const auto& t, const FaultStep& s) {
              each_entry(t, s, [](auto& x, int, int c) { x += c == 0 ? 0.05F : 0; });
            }),
    unknown("first-half-of-the-heads-silent", Site::attention,
            [](const auto& t, const FaultStep& s) {
              each_entry(t, s, [&](auto& x, int, int c) { x *= 2 * c < t.columns ? 0 : 1; });
            }),
    unknown("residual-halved", Site::residual,
            [](const auto& t, const FaultStep& s) {
              each_entry(t, s, [](auto& x, int, int c) { x *= c % 2 == 0 ? 0.5F : 1; });
            }),
    unknown("mlp-without-output", Site::mlp_output,
            [](const auto& t, const FaultStep& s) {
              each_entry(t, s, [](auto& x, int, int) { x = 0; });
            }),
    unknown("final-norm-too-large", Site::final_norm,
            [](const auto& t, const FaultStep&) {
              for (int r = 0; r < t.rows; ++r) t.at(r, 0) *= 1.1F;
            }),
    unknown("probabilities-backwards", Site::probabilities,
            [](const auto& t, const FaultStep& s) {
              if (!s.warm(t.row)) return;
              for (int c = 0; 2 * c < t.columns - 1; ++c) {
                std::swap(t.at(0, c), t.at(0, t.columns - 1 - c));
              }
            }),
    unknown("newest-preferred", Site::scores,
            [](const auto& t, const FaultStep& s) {
              each_entry(t, s, [&](auto& x, int, int c) { x += c + 1 == t.columns ? 0.5F : 0; });
            }),
    unknown("half-a-position", Site::key,
            [](const auto& t, const FaultStep& s) {
              for (int r = 0; r < t.rows; ++r) {
                if (!s.warm(r)) continue;
                const auto a = t.at(r, 0);
                const auto b = t.at(r, t.columns / 2);
                t.at(r, 0) = a * 0.8F - b * 0.6F;
                t.at(r, t.columns / 2) = a * 0.6F + b * 0.8F;
              }
            }),
    unknown("logits-of-neighbours", Site::logits,
            [](const auto& t, const FaultStep&) {
              for (int r = 0; r < t.rows; ++r) std::swap(t.at(r, 0), t.at(r, 1));
            }),
    unknown("embedding-moved", Site::embedding,
            [](const auto& t, const FaultStep& s) {
              each_entry(t, s, [](auto& x, int, int c) { x += c == 1 ? 0.1F : 0; });
            }),
    unknown("hidden-clipped", Site::mlp_hidden,
            [](const auto& t, const FaultStep& s) {
              each_entry(t, s, [](auto& x, int, int) { x = x > 0 ? 0 : x; });
            }),
    unknown("query-negated", Site::query,
            [](const auto& t, const FaultStep& s) {
              each_entry(t, s, [](auto& x, int, int c) { x = c < 2 ? -x : x; });
            }),
    unknown("key-without-a-feature", Site::key,
            [](const auto& t, const FaultStep& s) {
              each_entry(t, s, [](auto& x, int, int c) { x = c == 1 ? 0 : x; });
            }),
    unknown("values-turned-round", Site::value,
            [](const auto& t, const FaultStep& s) {
              for (int r = 0; r < t.rows; ++r) {
                if (s.warm(r)) std::swap(t.at(r, 0), t.at(r, t.columns - 1));
              }
            }),
    unknown("probabilities-squared", Site::probabilities,
            [](const auto& t, const FaultStep& s) {
              each_entry(t, s, [](auto& x, int, int) { x *= x; });
            }),
    unknown("norm-too-small", Site::attention_norm,
            [](const auto& t, const FaultStep& s) {
              each_entry(t, s, [](auto& x, int, int c) { x *= c == 2 ? 0.7F : 1; });
            }),
    unknown("a-warmer-softmax", Site::scores,
            [](const auto& t, const FaultStep& s) {
              each_entry(t, s, [](auto& x, int, int) { x *= 0.93F; });
            }),
    unknown("positions-from-the-end", backwards_from_the_end),
    unknown("every-third-row-hidden", every_third_hidden),
};
static_assert(kUnknown.size() == 20);

class Unknown : public ::testing::TestWithParam<const Fault*> {};

TEST_P(Unknown, is_explained_by_no_known_fault) {
  const Fault& fault = *GetParam();
  const ModelData model = load_model(tiny_name({Feature::rotary}, kSeed));
  const FaultVariant variant{&fault, {}};
  const auto subject = shown(variant, model);
  ASSERT_TRUE(subject);
  const Diagnosis diagnosis = diagnosis_of(variant, *subject, model);
  EXPECT_TRUE(diagnosis.explains.empty()) << to_text(diagnosis);
  EXPECT_FALSE(diagnosis.right);
  EXPECT_GT(diagnosis.candidates, 0);
  EXPECT_EQ(to_text(diagnosis).substr(0, 30), "no known fault explains this (");
}

std::vector<const Fault*> unknown_faults() {
  std::vector<const Fault*> rows;
  for (const Fault& fault : kUnknown) rows.push_back(&fault);
  return rows;
}

INSTANTIATE_TEST_SUITE_P(Faults, Unknown, ::testing::ValuesIn(unknown_faults()), test_name);

// ---- No fault

TEST(Diagnose, says_that_an_engine_without_a_fault_is_right) {
  const ModelData model = load_model(tiny_name({Feature::rotary}, kSeed));
  for (const Arithmetic arithmetic : {Arithmetic::row, Arithmetic::matrix}) {
    const Case subject{.check = "schedules",
                       .model = model.name,
                       .model_hash = short_hash(model),
                       .arithmetic = arithmetic,
                       .tokens = {1, 2, 3},
                       .schedule = {2, 1}};
    const Diagnosis diagnosis =
        diagnose(subject, model, builtin_engine, {.draw = random_operations});
    EXPECT_TRUE(diagnosis.right);
    EXPECT_TRUE(diagnosis.explains.empty()) << to_text(diagnosis);
    EXPECT_GT(diagnosis.cases, 1);
  }
}

}  // namespace
}  // namespace kvcheck
