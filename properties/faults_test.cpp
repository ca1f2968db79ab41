// SPDX-License-Identifier: MIT
// Every fault of the table on the smallest model that can show it: some check sees it, or the table
// says why none can.
#include "verify/faults.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "properties/operations_gen.h"
#include "verify/case_text.h"
#include "verify/fault_trial.h"
#include "verify/models.h"

namespace kvcheck {
namespace {

// Seed of the small models.
constexpr std::uint64_t kSeed = 1;

ModelRun run_of(const ModelData& model) {
  return {model, sources_of(model, {}, {kSeed, 0, kRandomSequences}), {}};
}

TrialOptions options() { return {.draw = random_operations}; }

std::string text_of(const std::vector<TrialCell>& cells) {
  std::string text;
  for (const TrialCell& cell : cells) {
    text += "  " + std::string(cell.check) + ": " + std::string(name(cell.outcome));
    if (cell.first) text += " " + repro_line(cell.first->subject) + " " + cell.first->result.note;
    text += "\n";
  }
  return text;
}

class EveryFault : public ::testing::TestWithParam<const Fault*> {};

TEST_P(EveryFault, is_seen_on_the_smallest_model_that_can_show_it) {
  const Fault& fault = *GetParam();
  const ModelData model = load_model(tiny_name(fault.needs, kSeed));
  const ModelRun run = run_of(model);
  for (const FaultVariant& variant : variants(fault, model.weights.config.layers)) {
    const std::vector<TrialCell> cells = try_fault(variant, run, options());
    const auto count = [&](Outcome outcome) {
      return std::ranges::count(cells, outcome, &TrialCell::outcome);
    };
    switch (fault.expected) {
      case Expected::caught:
        EXPECT_GT(count(Outcome::caught), 0) << to_text(variant) << "\n" << text_of(cells);
        break;
      case Expected::equivalent:
        EXPECT_EQ(count(Outcome::caught), 0) << to_text(variant) << "\n" << text_of(cells);
        EXPECT_GT(count(Outcome::equivalent), 0) << to_text(variant) << "\n" << text_of(cells);
        break;
      case Expected::missed:
        EXPECT_EQ(count(Outcome::caught), 0) << to_text(variant) << "\n" << text_of(cells);
        EXPECT_GT(count(Outcome::missed), 0) << to_text(variant) << "\n" << text_of(cells);
        break;
    }
  }
}

std::vector<const Fault*> rows() {
  std::vector<const Fault*> all;
  for (const Fault& fault : faults()) all.push_back(&fault);
  return all;
}

std::string test_name(const ::testing::TestParamInfo<const Fault*>& info) {
  std::string text(info.param->id);
  std::ranges::replace(text, '-', '_');
  return text;
}

INSTANTIATE_TEST_SUITE_P(Table, EveryFault, ::testing::ValuesIn(rows()), test_name);

TEST(Faults, have_ids_of_their_own_and_say_all_that_a_reader_needs) {
  std::set<std::string_view> ids;
  for (const Fault& fault : faults()) {
    EXPECT_TRUE(ids.insert(fault.id).second) << fault.id;
    for (const std::string_view text : {fault.question, fault.summary, fault.stands_for}) {
      EXPECT_FALSE(text.empty()) << fault.id;
    }
    EXPECT_EQ(fault.expected == Expected::caught, fault.reason.empty()) << fault.id;
    for (const FaultVariant& variant : variants(fault, 2)) {
      EXPECT_EQ(parse_fault(to_text(variant), "test"), variant);
    }
  }
}

}  // namespace
}  // namespace kvcheck
