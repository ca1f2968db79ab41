// SPDX-License-Identifier: MIT
// Faults that the table calls equivalent: wherever they change something, the logits stay within
// the noise floor of double precision, whatever operations came before.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/features.h"
#include "properties/operations_gen.h"
#include "verify/case_text.h"
#include "verify/faults.h"
#include "verify/models.h"
#include "verify/operation_run.h"

namespace kvcheck {
namespace {

constexpr int kCases = 1000;
// Some faults change something in few sequences; none needs more than this to change kCases.
constexpr int kSequencesMax = 40'000;

struct Shown {
  std::int64_t changed = 0;            // sequences in which the fault changed an answer or a cache
  std::vector<std::string> differing;  // of them, those that did not agree
};

// Random sequences on the smallest model that can show the fault, in double precision, until it has
// changed something in as many as are asked for.
Shown show(const FaultVariant& variant, std::int64_t cases) {
  const ModelData model = load_model(tiny_name(variant.fault->needs, 1));
  const auto trace = std::make_shared<FaultTrace>();
  const EngineSetup setup{ScalarKind::f64, Arithmetic::matrix,
                          cache_kind(variant.fault->cache, "test")};
  OperationRunner runner(model, setup, NoiseLimit{}, 1, faulty_engine(variant, trace));
  Shown shown;
  for (std::uint64_t i = 0; i < kSequencesMax && shown.changed < cases; ++i) {
    const std::int64_t before = trace->changes();
    const Operations operations = random_operations(runner.space(), 1, i);
    const CaseResult result = runner.run(operations);
    if (trace->changes() == before) continue;
    ++shown.changed;
    if (result.verdict != Verdict::agree) shown.differing.push_back(to_text(operations));
  }
  return shown;
}

std::vector<FaultVariant> equivalent_variants() {
  std::vector<FaultVariant> all;
  for (const Fault& fault : faults()) {
    if (fault.expected != Expected::equivalent) continue;
    for (const FaultVariant& variant : variants(fault, tiny_decoder(fault.needs).layers)) {
      all.push_back(variant);
    }
  }
  return all;
}

class Equivalent : public ::testing::TestWithParam<FaultVariant> {};

TEST_P(Equivalent, faults_change_a_thousand_sequences_and_no_logits) {
  const Shown shown = show(GetParam(), kCases);
  EXPECT_EQ(shown.changed, kCases);
  ASSERT_TRUE(shown.differing.empty())
      << shown.differing.size() << " differ, first " << shown.differing.front();
}

std::string test_name(const ::testing::TestParamInfo<FaultVariant>& info) {
  std::string text = to_text(info.param);
  std::ranges::replace_if(
      text, [](char c) { return c == '-' || c == ':'; }, '_');
  return text;
}

INSTANTIATE_TEST_SUITE_P(Table, Equivalent, ::testing::ValuesIn(equivalent_variants()), test_name);

TEST(NotEquivalent, faults_of_the_same_questions_differ) {
  constexpr std::array kFaults{
      "mask-oldest-lost:onset1:amount1", "shift-turned-off-by:amount1",
      "reset-pos-kept-learned",          "pos-decode-offset:onset1:amount1",
      "ring-write-off-by:amount1",       "kv-head-neighbour:onset1:amount1"};
  for (const char* text : kFaults) {
    const Shown shown = show(parse_fault(text, "test"), 50);
    EXPECT_EQ(shown.changed, 50) << text;
    EXPECT_FALSE(shown.differing.empty()) << text;
  }
}

}  // namespace
}  // namespace kvcheck
