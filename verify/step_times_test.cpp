// SPDX-License-Identifier: MIT
// Fits of times whose power is known, and that every length is measured.
#include "verify/step_times.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <span>
#include <thread>

#include "engine/builtin.h"
#include "engine/generated.h"
#include "verify/hooked_engine.h"
#include "verify/models.h"

namespace kvcheck {
namespace {

TEST(StepTimes, a_power_is_found_again) {
  std::vector<StepTime> steps;
  for (int length = 1; length <= 512; length *= 2) {
    // Short steps cost what they cost whatever their length, and say nothing of the power.
    const double from = length < 64 ? 1.0 : 3e-6 * std::pow(length, 1.5);
    steps.push_back({length, from, 7e-6 * length * length});
  }
  const auto cached = fit_power(steps, &StepTime::cached);
  ASSERT_TRUE(cached.has_value());
  EXPECT_EQ(cached->from, 64);
  EXPECT_EQ(cached->to, 512);
  EXPECT_NEAR(cached->exponent, 1.5, 1e-9);
  EXPECT_NEAR(fit_power(steps, &StepTime::uncached)->exponent, 2.0, 1e-9);
}

TEST(StepTimes, few_lengths_have_no_power) {
  EXPECT_FALSE(fit_power({}, &StepTime::cached).has_value());
  EXPECT_FALSE(fit_power({{1, 1, 1}, {2, 2, 2}}, &StepTime::cached).has_value());
  // No time at all has no logarithm.
  EXPECT_FALSE(fit_power({{2, 1, 1}, {3, 0, 2}, {4, 2, 2}}, &StepTime::cached).has_value());
}

TEST(StepTimes, every_length_is_measured_both_ways) {
  const auto engine =
      make_builtin(generate_model("gen:plain:1:context16"), ScalarKind::f32, Arithmetic::row);
  const StepTimes times = measure_steps(*engine, {1, 2, 8, 16}, 30);
  ASSERT_EQ(times.steps.size(), 4U);
  EXPECT_TRUE(times.complete);
  for (const StepTime& step : times.steps) {
    EXPECT_GT(step.cached, 0) << step.length;
    EXPECT_GT(step.uncached, 0) << step.length;
  }
  EXPECT_EQ(times.steps.back().length, 16);
  EXPECT_FALSE(measure_steps(*engine, {1, 2}, 0).complete);
}

TEST(StepTimes, whoever_ends_them_gets_the_lengths_that_are_done) {
  const auto engine =
      make_builtin(generate_model("gen:plain:1:context16"), ScalarKind::f32, Arithmetic::row);
  const StepTimes times =
      measure_steps(*engine, {1, 2, 4}, 30, [](std::size_t done) { return done < 2; });
  EXPECT_TRUE(times.interrupted);
  ASSERT_EQ(times.steps.size(), 2U);
  EXPECT_EQ(times.steps[1].length, 2);
}

TEST(StepTimes, runs_are_measured_where_a_power_is_fitted) {
  const auto engine =
      make_builtin(generate_model("gen:plain:1:context16"), ScalarKind::f32, Arithmetic::row);
  const RunTimes times = measure_runs(*engine, {1, 2, 4, 8, 16}, 30);
  ASSERT_EQ(times.runs.size(), 4U);
  EXPECT_TRUE(times.complete);
  EXPECT_EQ(times.runs.front().length, 2);
  EXPECT_EQ(times.runs.back().length, 16);
  for (const RunTime& run : times.runs) {
    EXPECT_GT(run.cached, 0) << run.length;
    EXPECT_GT(run.forward, 0) << run.length;
    EXPECT_GT(run.every_prefix, 0) << run.length;
  }
  EXPECT_TRUE(fit_power(times.runs, &RunTime::forward).has_value());
  EXPECT_FALSE(measure_runs(*engine, {1, 2}, 0).complete);
  const RunTimes ended =
      measure_runs(*engine, {4, 8, 16}, 30, [](std::size_t done) { return done < 2; });
  EXPECT_TRUE(ended.interrupted);
  EXPECT_EQ(ended.runs.size(), 2U);
}

// A step takes 20 ms at least: three of them are more than there is time for.
TEST(StepTimes, the_time_ends_a_run_after_the_step_at_hand) {
  const ModelData model = load_model("gen:plain:1:context64");
  int fed = 0;
  Hooks slow;
  slow.feed = [&](Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
    ++fed;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    inner.batch(feeds, rows, out);
  };
  const auto engine = hooked(slow)(model, {ScalarKind::f32, Arithmetic::row});
  const RunTimes times = measure_runs(*engine, {64}, 0.05);
  EXPECT_FALSE(times.complete);
  EXPECT_FALSE(times.interrupted);
  EXPECT_TRUE(times.runs.empty());
  EXPECT_GE(fed, 1);
  EXPECT_LE(fed, 3);
}

}  // namespace
}  // namespace kvcheck
