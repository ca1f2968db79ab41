// SPDX-License-Identifier: MIT
// Engines without a fault raise no alarm; one with the smallest of faults does.
#include "verify/alarms.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>

#include "engine/generated.h"
#include "properties/operations_gen.h"
#include "verify/case_text.h"
#include "verify/faults.h"
#include "verify/severity.h"

namespace kvcheck {
namespace {

AlarmCount count_of(const EngineFactory& factory, int trials, int jobs = 2) {
  const std::atomic<bool> stop{false};
  return count_alarms({.trials = trials, .seed = 1, .jobs = jobs, .draw = random_operations},
                      factory, stop);
}

TEST(Alarms, are_raised_by_no_engine_without_a_fault) {
  const AlarmCount count = count_of(builtin_engine, 200);
  EXPECT_EQ(count.trials, 200);
  EXPECT_EQ(count.alarms, 0) << to_text(count);
  EXPECT_GT(count.cases, 200 * 20);
  EXPECT_LE(count.gated, (count.by_noise - count.saturated) / 50);
  EXPECT_GT(count.worst_ratio, 0.5);
}

TEST(Alarms, are_raised_by_an_engine_with_a_fault_on_the_models_that_show_it) {
  const EngineFactory faulty = faulty_engine(
      parse_fault("pos-decode-offset:onset1:amount1", "test"), std::make_shared<FaultTrace>());
  const AlarmCount count = count_of(faulty, 64);
  EXPECT_GT(count.alarms, 16) << to_text(count);
  EXPECT_LT(count.alarms, 64) << "some models have no positions, or a context of one";
  ASSERT_TRUE(count.first);
}

TEST(Alarms, are_the_same_whatever_the_number_of_threads) {
  EXPECT_EQ(to_text(count_of(builtin_engine, 40, 1)), to_text(count_of(builtin_engine, 40, 2)));
  const EngineFactory faulty =
      faulty_engine({&disturbances()[0], {.amount = -3}}, std::make_shared<FaultTrace>());
  EXPECT_EQ(to_text(count_of(faulty, 40, 1)), to_text(count_of(faulty, 40, 2)));
}

TEST(Alarms, say_the_rate_that_is_left_open) {
  AlarmCount count{.trials = 10'000, .cases = 100, .saturated = 10, .saturated_gated = 5};
  EXPECT_EQ(
      to_text(count).substr(0, 93),
      "0 of 10000 random models and sequences raise an alarm: a rate below 0.0003 (95 %)\n100 "
      "cases, ");
  count.alarms = 1;
  EXPECT_EQ(to_text(count).find("rate"), std::string::npos);
}

}  // namespace
}  // namespace kvcheck
