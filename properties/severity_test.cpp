// SPDX-License-Identifier: MIT
// The smaller the disturbance that a check still sees, the sharper it is: to the last bit sees what
// nobody else does, and double precision sees more than single.
#include "verify/severity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>

#include "properties/operations_gen.h"
#include "verify/models.h"

namespace kvcheck {
namespace {

class Floors : public ::testing::TestWithParam<std::string_view> {};

// 10 where nothing was seen.
int power_of(const std::vector<DetectionFloor>& floors, std::string_view disturbance,
             std::string_view check) {
  for (const DetectionFloor& floor : floors) {
    if (floor.disturbance->id == disturbance && floor.check == check)
      return floor.power.value_or(10);
  }
  return 20;
}

TEST_P(Floors, fall_from_the_noise_of_single_precision_to_the_last_bit) {
  const ModelData model = load_model(GetParam());
  const PrefixChoice some{.kind = PrefixChoice::Kind::random};
  const ModelRun run{model, sources_of(model, some, {1, 0, kRandomSequences}), {}};
  const std::atomic<bool> stop{false};
  const TrialOptions options{
      .draw = random_operations,
      .checks = std::vector<std::string_view>{"exact", "noise", "noise-f64"}};
  const auto floors = detection_floors(run, options, stop);
  EXPECT_EQ(floors.size(), disturbances().size() * trial_checks().size());
  for (const Fault& disturbance : disturbances()) {
    if (!disturbance.applies(model.weights.config, {})) continue;
    const auto power = [&](std::string_view check) {
      return power_of(floors, disturbance.id, check);
    };
    EXPECT_EQ(power("exact"), kSmallestDisturbance) << disturbance.id << "\n" << to_text(floors);
    EXPECT_EQ(power("noise-f64"), kSmallestDisturbance) << disturbance.id << "\n"
                                                        << to_text(floors);
    EXPECT_LE(power("noise"), -3) << disturbance.id << "\n" << to_text(floors);
    EXPECT_GE(power("noise"), -6) << disturbance.id << "\n" << to_text(floors);
  }
}

std::string test_name(const ::testing::TestParamInfo<std::string_view>& info) {
  std::string text(info.param);
  std::ranges::replace_if(
      text, [](char c) { return c == '-' || c == ':'; }, '_');
  return text;
}

INSTANTIATE_TEST_SUITE_P(Models, Floors, ::testing::Values("chapter8-rotary", "tiny:rotary:1"),
                         test_name);

}  // namespace
}  // namespace kvcheck
