// SPDX-License-Identifier: MIT
// How policies judge, at their limits and beyond numbers; and that the one limit that is not given
// by a contract lies between what correct caches and the weakest fault come to.
#include "verify/tolerance.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "engine/test_support.h"
#include "verify/test_faults.h"

namespace kvcheck {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

RowComparison differing_by(double difference) {
  RowComparison row;
  row.max_abs_difference = difference;
  row.same_bits = difference == 0;
  row.largest = 2;
  return row;
}

Verdict verdict_of(const Policy& policy, const RowComparison& row,
                   const std::optional<NoiseFloor>& floor = NoiseFloor{1, 2},
                   ScalarKind scalar = ScalarKind::f32) {
  return judge(policy, row, floor, scalar).verdict;
}

double above(double x) { return std::nextafter(x, kInf); }
double below(double x) { return std::nextafter(x, 0.0); }

// ---- Judging

TEST(Judge, exact_wants_the_same_bits) {
  EXPECT_EQ(verdict_of(Exact{}, differing_by(0)), Verdict::agree);
  EXPECT_EQ(verdict_of(Exact{}, differing_by(std::numeric_limits<double>::denorm_min())),
            Verdict::diverge);
}

TEST(Judge, abs_agrees_up_to_its_limit) {
  EXPECT_EQ(verdict_of(AbsLimit{1e-5}, differing_by(below(1e-5))), Verdict::agree);
  EXPECT_EQ(verdict_of(AbsLimit{1e-5}, differing_by(1e-5)), Verdict::agree);
  EXPECT_EQ(verdict_of(AbsLimit{1e-5}, differing_by(above(1e-5))), Verdict::diverge);
  EXPECT_EQ(verdict_of(AbsLimit{0}, differing_by(0)), Verdict::agree);
  EXPECT_EQ(verdict_of(AbsLimit{0}, differing_by(1e-300)), Verdict::diverge);
}

TEST(Judge, noise_agrees_up_to_its_limit_times_the_floor) {
  const NoiseFloor floor{0.25, 2};  // a power of two: no rounding in the ratio
  const NoiseLimit limit{};
  EXPECT_EQ(verdict_of(limit, differing_by(below(7.5)), floor), Verdict::agree);
  EXPECT_EQ(verdict_of(limit, differing_by(7.5), floor), Verdict::agree);
  EXPECT_EQ(verdict_of(limit, differing_by(above(7.5)), floor), Verdict::diverge);
  EXPECT_EQ(judge(limit, differing_by(7.5), floor, ScalarKind::f32).ratio, 30.0);
}

TEST(Judge, relative_agrees_up_to_its_share_of_the_largest_logit) {
  const RelativeLimit limit{0x1p-40};  // times 2, the largest
  EXPECT_EQ(verdict_of(limit, differing_by(below(0x1p-39))), Verdict::agree);
  EXPECT_EQ(verdict_of(limit, differing_by(0x1p-39)), Verdict::agree);
  EXPECT_EQ(verdict_of(limit, differing_by(above(0x1p-39))), Verdict::diverge);
}

TEST(Judge, a_limit_that_is_not_a_number_never_agrees) {
  const RowComparison row = differing_by(1e-30);
  EXPECT_EQ(verdict_of(AbsLimit{kNan}, row), Verdict::diverge);
  EXPECT_EQ(verdict_of(NoiseLimit{kNan}, row), Verdict::diverge);
  EXPECT_EQ(verdict_of(RelativeLimit{kNan}, row), Verdict::diverge);
}

// Beside an infinite floor any difference would be nothing, and beside a NaN anything at all. In
// float32 such a row is too ill-conditioned, which leaves it to float64.
TEST(Judge, a_floor_that_is_not_finite_never_agrees) {
  for (const double floor : {kNan, kInf}) {
    const RowComparison row = differing_by(1e-30);
    const NoiseFloor measured{floor, floor};
    EXPECT_NE(verdict_of(NoiseLimit{1e300}, row, measured, ScalarKind::f64), Verdict::agree);
    const Judgement narrow = judge(NoiseLimit{1e300}, row, measured, ScalarKind::f32);
    EXPECT_EQ(narrow.verdict, Verdict::gave_up);
    EXPECT_TRUE(narrow.gated) << floor;
  }
}

TEST(Judge, a_difference_over_a_floor_of_nothing_is_infinitely_many) {
  EXPECT_EQ(judge(NoiseLimit{}, differing_by(1e-30), NoiseFloor{0, 1}, ScalarKind::f32).ratio,
            kInf);
  EXPECT_EQ(verdict_of(NoiseLimit{1e300}, differing_by(1e-30), NoiseFloor{0, 1}), Verdict::diverge);
}

TEST(Judge, no_difference_is_no_multiple_of_any_floor) {
  for (const NoiseFloor floor : {NoiseFloor{0, kNan}, NoiseFloor{kNan, kNan}, NoiseFloor{1, 2}}) {
    EXPECT_EQ(judge(NoiseLimit{}, differing_by(0), floor, ScalarKind::f32).ratio, 0.0);
    EXPECT_EQ(verdict_of(NoiseLimit{}, differing_by(0), floor), Verdict::agree);
  }
}

TEST(Judge, an_infinite_difference_of_finite_rows_diverges) {
  const RowComparison row = differing_by(kInf);
  for (const Policy& policy : {Policy{Exact{}}, Policy{AbsLimit{1e308}}, Policy{NoiseLimit{1e308}},
                               Policy{RelativeLimit{1e308}}}) {
    EXPECT_EQ(verdict_of(policy, row), Verdict::diverge) << to_text(policy);
  }
}

TEST(Judge, without_a_finite_reference_there_is_nothing_to_compare_with) {
  RowComparison row = differing_by(kInf);
  row.uncached_finite = false;
  for (const bool cached_finite : {false, true}) {
    row.cached_finite = cached_finite;
    EXPECT_EQ(verdict_of(NoiseLimit{}, row), Verdict::broken);
    EXPECT_EQ(verdict_of(Exact{}, row), Verdict::broken);
    EXPECT_EQ(judge(Exact{}, row, {}, ScalarKind::f32).note, kNotFinite);
  }
  row = differing_by(0);  // the same infinity on both sides
  row.uncached_finite = row.cached_finite = false;
  EXPECT_EQ(verdict_of(Exact{}, row), Verdict::broken);
}

TEST(Judge, a_cached_row_that_is_not_finite_diverges_however_ill_conditioned) {
  RowComparison row = differing_by(kInf);
  row.cached_finite = false;
  EXPECT_EQ(verdict_of(AbsLimit{1e308}, row), Verdict::diverge);
  EXPECT_EQ(verdict_of(NoiseLimit{}, row, NoiseFloor{1, 1e9}), Verdict::diverge);
  EXPECT_EQ(verdict_of(NoiseLimit{}, row, std::nullopt), Verdict::diverge);
}

TEST(Judge, noise_without_a_floor_gives_up_and_the_others_need_none) {
  EXPECT_EQ(verdict_of(NoiseLimit{}, differing_by(1e-9), std::nullopt), Verdict::gave_up);
  EXPECT_FALSE(judge(NoiseLimit{}, differing_by(1e-9), std::nullopt, ScalarKind::f32).gated);
  EXPECT_EQ(verdict_of(AbsLimit{1}, differing_by(1e-9), std::nullopt), Verdict::agree);
  EXPECT_EQ(verdict_of(AbsLimit{1}, differing_by(2), std::nullopt), Verdict::diverge);
}

// ---- The gate

Judgement gate(double kappa, ScalarKind scalar, const Policy& policy, double difference) {
  return judge(policy, differing_by(difference), NoiseFloor{1, kappa}, scalar);
}

TEST(Gate, closes_above_its_kappa) {
  EXPECT_FALSE(gate(kKappaGate, ScalarKind::f32, NoiseLimit{}, 1).gated);
  EXPECT_EQ(gate(kKappaGate, ScalarKind::f32, NoiseLimit{}, 1).verdict, Verdict::agree);
  EXPECT_TRUE(gate(above(kKappaGate), ScalarKind::f32, NoiseLimit{}, 1).gated);
  EXPECT_EQ(gate(above(kKappaGate), ScalarKind::f32, NoiseLimit{}, 1).verdict, Verdict::gave_up);
}

TEST(Gate, a_difference_that_would_diverge_is_gated_too) {
  EXPECT_EQ(gate(2e3, ScalarKind::f32, NoiseLimit{}, 1e6).verdict, Verdict::gave_up);
  EXPECT_EQ(gate(2e3, ScalarKind::f32, NoiseLimit{}, 1e6).ratio, 1e6);
}

TEST(Gate, a_kappa_that_is_not_a_number_is_gated) {
  EXPECT_TRUE(gate(kNan, ScalarKind::f32, NoiseLimit{}, 1).gated);
  EXPECT_TRUE(gate(kInf, ScalarKind::f32, NoiseLimit{}, 1).gated);
}

TEST(Gate, is_for_noise_and_float32_and_a_difference_only) {
  EXPECT_FALSE(gate(1e9, ScalarKind::f64, NoiseLimit{}, 1).gated);
  EXPECT_EQ(gate(1e9, ScalarKind::f64, NoiseLimit{}, 31).verdict, Verdict::diverge);
  EXPECT_FALSE(gate(1e9, ScalarKind::f32, NoiseLimit{}, 0).gated);
  for (const Policy& policy :
       {Policy{Exact{}}, Policy{AbsLimit{0.5}}, Policy{RelativeLimit{0.25}}}) {
    EXPECT_FALSE(gate(1e9, ScalarKind::f32, policy, 1).gated) << to_text(policy);
    EXPECT_EQ(gate(1e9, ScalarKind::f32, policy, 1).verdict, Verdict::diverge) << to_text(policy);
  }
}

// 1 between logits of at most 2^k, in a row that is as ill-conditioned as can be.
Judgement gate_of_large_logits(double largest, double limit) {
  RowComparison row = differing_by(1);
  row.largest = largest;
  return judge(NoiseLimit{limit}, row, NoiseFloor{1e9, 1e9}, ScalarKind::f32);
}

TEST(Gate, is_open_for_what_agrees_at_any_floor) {
  constexpr double kEpsilon = 0x1p-23;
  EXPECT_TRUE(gate_of_large_logits(1 / kEpsilon / 30, 30).gated) << "there may be some slack";
  const Judgement small = gate_of_large_logits(1.001 / kEpsilon / 30, 30);
  EXPECT_FALSE(small.gated);
  EXPECT_EQ(small.verdict, Verdict::agree);
  EXPECT_EQ(small.ratio, 1e-9) << "of the floor itself";
  EXPECT_TRUE(gate_of_large_logits(1.001 / kEpsilon / 30, 29).gated);
}

TEST(Gate, knows_no_floor_of_rows_that_are_not_finite) {
  RowComparison row = differing_by(0);
  row.largest = 1;
  EXPECT_TRUE(agrees_at_any_floor({}, row, ScalarKind::f32));
  row.cached_finite = false;
  EXPECT_FALSE(agrees_at_any_floor({}, row, ScalarKind::f32));
  row = differing_by(kInf);
  row.largest = kInf;
  row.uncached_finite = false;
  EXPECT_FALSE(agrees_at_any_floor({}, row, ScalarKind::f32));
}

RC_GTEST_PROP(Judge, a_larger_difference_is_never_judged_better, ()) {
  // Below 2, so that no product with them is infinite.
  const auto below_two = rc::gen::map(
      rc::gen::resize(100, rc::gen::arbitrary<std::uint64_t>()), [](std::uint64_t bits) {
        return std::abs(std::bit_cast<double>(bits & ~(std::uint64_t{1} << 62U)));
      });
  const double limit = *below_two.as("limit");
  const double floor = *below_two.as("floor");
  std::vector<double> differences{0.0,   1e-300,           limit * floor, limit / 2,
                                  limit, above(2 * limit), 1e300,         kInf};
  std::ranges::sort(differences);
  for (const Policy& policy :
       {Policy{AbsLimit{limit}}, Policy{NoiseLimit{limit}}, Policy{RelativeLimit{limit}}}) {
    Verdict last = Verdict::agree;
    for (const double difference : differences) {
      const Verdict now = verdict_of(policy, differing_by(difference), NoiseFloor{floor, 1});
      RC_ASSERT(now >= last);
      last = now;
    }
    RC_ASSERT(last == Verdict::diverge);
  }
}

// ---- Text

TEST(Policy, is_written_in_shortest_form) {
  EXPECT_EQ(to_text(Policy{Exact{}}), "exact");
  EXPECT_EQ(to_text(Policy{AbsLimit{1e-5}}), "abs:1e-05");
  EXPECT_EQ(to_text(Policy{NoiseLimit{}}), "noise:30");
  EXPECT_EQ(to_text(Policy{RelativeLimit{}}), "rel:1e-12");
}

TEST(Policy, noise_alone_has_the_usual_limit) {
  EXPECT_EQ(parse_policy("noise", "x"), Policy{NoiseLimit{30}});
  EXPECT_EQ(parse_policy("abs:0", "x"), Policy{AbsLimit{0}});
}

TEST(Policy, errors_say_what_is_wrong) {
  const auto error = [](std::string_view text) {
    return error_of([&] { (void)parse_policy(text, "--tolerance"); });
  };
  const std::string kind = "--tolerance: policy, expected exact, abs:X or noise[:LIMIT], got ";
  const std::string number =
      "--tolerance: limit, expected a finite number that is not negative, got ";
  const std::string positive = "--tolerance: limit, expected a number above 0, got ";
  for (const char* text : {"", "exac", "exact:1", "ulp:3", "abs", "rel", "Noise:3", ":"}) {
    EXPECT_EQ(error(text), kind + text);
  }
  for (const char* text : {"", "x", "1x", " 1", "-1", "nan", "inf", "1e999", "0x10", "+1"}) {
    EXPECT_EQ(error(std::string("abs:") + text), number + text);
    EXPECT_EQ(error(std::string("noise:") + text), number + text);
  }
  EXPECT_EQ(error("noise:0"), positive + "0");
  EXPECT_EQ(error("rel:0"), positive + "0");
}

RC_GTEST_PROP(Policy, is_read_as_it_was_written, ()) {
  const auto bits = *rc::gen::resize(100, rc::gen::arbitrary<std::uint64_t>()).as("bits of limit");
  const double drawn = std::abs(std::bit_cast<double>(bits));
  const double limit = std::isfinite(drawn) && drawn > 0 ? drawn : 0.1;
  const Policy policy =
      *rc::gen::element<Policy>(Exact{}, AbsLimit{limit}, NoiseLimit{limit}, RelativeLimit{limit});
  RC_ASSERT(parse_policy(to_text(policy), "x") == policy);
}

// ---- Calibration

// What the single steps and all cuts of random prefixes come to under the noise policy.
struct Calibration {
  double worst = 0;  // ratio
  int rows = 0;
  int gated = 0;
  std::string where;

  void measure(const std::string& model_name, const EngineFactory& factory, int sequences) {
    const ModelData model = load_model(model_name);
    Bench bench = make_bench(model, {ScalarKind::f32, Arithmetic::matrix}, 1, factory);
    const ModelRun run = random_run(model, sequences);
    const Probe probe{.tree = run.sources.front().tree, .scope = {}, .only_schedule = {}};
    const Sink sink = [&](const Measured& measured) {
      for (const MeasuredRow& row : measured.rows) add(row, model_name);
    };
    probe_prefixes(bench, probe, sink);
    probe_schedules(bench, probe, sink);
  }

  void add(const MeasuredRow& row, const std::string& model_name) {
    const Judgement judgement = judge(NoiseLimit{}, row.comparison, row.floor, ScalarKind::f32);
    ++rows;
    if (judgement.gated) {
      ++gated;
    } else if (!(judgement.ratio.value() <= worst)) {
      worst = *judgement.ratio;
      where = model_name;
    }
  }
};

std::string text_of(const Calibration& found) {
  return std::to_string(found.worst) + " in " + found.where + ", gated " +
         std::to_string(found.gated) + " of " + std::to_string(found.rows);
}

// A third of the limit: LAPACK's 30 with room for models that nobody has drawn yet.
TEST(Calibration, correct_caches_stay_below_a_third_of_the_limit) {
  Calibration found;
  for (const Family& family : families()) {
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      found.measure(generated_name(family, seed), builtin_engine, 2);
    }
  }
  RecordProperty("calibration", text_of(found));
  EXPECT_LE(found.worst, kNoiseLimit / 3) << text_of(found);
  EXPECT_GT(found.worst, 0.01) << "no rounding anywhere: is one path compared with itself?";
  EXPECT_GT(found.rows, 10'000);
  EXPECT_LT(found.gated, found.rows / 20) << text_of(found);
}

std::vector<std::string> trained_models() {
  std::vector<std::string> found;
  for (const char* name : {"chapter8", "chapter8-rotary"}) {
    if (has_bundled(name)) found.emplace_back(name);
  }
  if (found.empty()) found.emplace_back("gen:plain:1");
  return found;
}

// The weakest fault: a run must find it somewhere, a single prefix may be blind to it.
TEST(Calibration, half_precision_rows_lie_above_the_limit) {
  for (const std::string& model : trained_models()) {
    Calibration found;
    found.measure(model, half_precision_rows(), 8);
    std::string key = "half_precision_" + model;
    std::ranges::replace_if(
        key, [](char c) { return c == '-' || c == ':'; }, '_');
    RecordProperty(key, text_of(found));
    EXPECT_GT(found.worst, kNoiseLimit) << model << ": " << text_of(found);
  }
}

TEST(Calibration, wrong_positions_lie_far_above_the_limit) {
  std::vector<std::string> models = trained_models();
  models.emplace_back("gen:plain:2");
  models.emplace_back("gen:grouped-heads:1");
  models.emplace_back("gen:wide:1");
  for (const std::string& model : models) {
    if (load_model(model).weights.config.positions == Positions::none) continue;
    Calibration found;
    found.measure(model, positions_plus_one(), 4);
    EXPECT_GE(found.worst, 1000) << model << ": " << text_of(found);
  }
}

}  // namespace
}  // namespace kvcheck
