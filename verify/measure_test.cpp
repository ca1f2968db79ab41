// SPDX-License-Identifier: MIT
// The worst row of a case decides, a wrong fact diverges, and nothing measured is no agreement.
#include "verify/measure.h"

#include <gtest/gtest.h>

#include <limits>

#include "verify/test_faults.h"

namespace kvcheck {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

MeasuredRow row(int position, double difference, std::optional<NoiseFloor> floor = {}) {
  MeasuredRow measured;
  measured.position = position;
  measured.comparison.max_abs_difference = difference;
  measured.comparison.same_bits = difference == 0;
  measured.floor = floor;
  return measured;
}

CaseResult judged(const Policy& policy, const std::vector<MeasuredRow>& rows, int facts = 0,
                  const std::string& note = "") {
  const std::vector<int> tokens{0, 1};
  const Schedule schedule{2};
  return judge_case(policy, {tokens, schedule, rows, facts, note}, ScalarKind::f32);
}

TEST(JudgeCase, nothing_measured_is_gave_up) {
  const CaseResult result = judged(Exact{}, {});
  EXPECT_EQ(result.verdict, Verdict::gave_up);
  EXPECT_EQ(result.rows_compared, 0);
  EXPECT_FALSE(result.row.has_value());
}

TEST(JudgeCase, the_worst_row_is_told_wherever_it_is) {
  for (int worst = 0; worst < 4; ++worst) {
    std::vector<MeasuredRow> rows;
    for (int i = 0; i < 4; ++i) rows.push_back(row(i + 10, i == worst ? 3 : 1));
    const CaseResult result = judged(AbsLimit{2}, rows);
    EXPECT_EQ(result.verdict, Verdict::diverge);
    EXPECT_EQ(result.position, worst + 10);
    ASSERT_TRUE(result.row.has_value());
    EXPECT_EQ(result.row->max_abs_difference, 3);
    EXPECT_EQ(result.rows_compared, 4);
  }
}

TEST(JudgeCase, agrees_only_if_every_row_does) {
  EXPECT_EQ(judged(AbsLimit{2}, {row(0, 1), row(1, 2)}).verdict, Verdict::agree);
  EXPECT_EQ(judged(AbsLimit{2}, {row(0, 1), row(1, 2.5)}).verdict, Verdict::diverge);
}

TEST(JudgeCase, a_worse_verdict_counts_more_than_a_larger_difference) {
  MeasuredRow nan = row(0, kInf);
  nan.comparison.uncached_finite = false;
  const CaseResult result = judged(AbsLimit{2}, {nan, row(1, 3)});
  EXPECT_EQ(result.verdict, Verdict::diverge);
  EXPECT_EQ(result.position, 1);
  EXPECT_EQ(judged(AbsLimit{2}, {row(0, 1), nan}).verdict, Verdict::broken);
}

TEST(JudgeCase, under_noise_the_worst_row_is_the_one_with_the_largest_ratio) {
  const CaseResult result =
      judged(NoiseLimit{}, {row(0, 5, NoiseFloor{1, 2}), row(1, 1, NoiseFloor{0.1, 2})});
  EXPECT_EQ(result.position, 1);
  EXPECT_EQ(result.ratio, 10.0);
  EXPECT_EQ(
      judged(AbsLimit{9}, {row(0, 5, NoiseFloor{1, 2}), row(1, 1, NoiseFloor{0.1, 2})}).position,
      0);
}

TEST(JudgeCase, under_noise_a_row_without_a_ratio_is_worse_than_any_of_its_verdict) {
  const MeasuredRow gated = row(0, 9, NoiseFloor{0.5, 2e3});
  const MeasuredRow unmeasured = row(1, 1, NoiseFloor{kInf, kInf});
  for (const auto& rows : {std::vector{gated, unmeasured}, std::vector{unmeasured, gated}}) {
    const CaseResult result = judged(NoiseLimit{}, rows);
    EXPECT_EQ(result.verdict, Verdict::gave_up);
    EXPECT_EQ(result.position, 1);
    EXPECT_EQ(result.ratio, std::nullopt);
  }
  EXPECT_EQ(judged(NoiseLimit{}, {unmeasured, row(2, 99, NoiseFloor{1, 1})}).position, 2)
      << "a worse verdict counts more";
}

TEST(JudgeCase, of_equally_bad_rows_the_first_is_told) {
  EXPECT_EQ(judged(AbsLimit{2}, {row(4, 1), row(5, 1)}).position, 4);
}

TEST(JudgeCase, carries_the_floor_and_the_mark_of_the_worst_row) {
  const CaseResult gated =
      judged(NoiseLimit{}, {row(0, 1, NoiseFloor{1, 1}), row(1, 1, NoiseFloor{0.5, 2e3})});
  EXPECT_EQ(gated.verdict, Verdict::gave_up);
  EXPECT_EQ(gated.mark, Mark::gated);
  ASSERT_TRUE(gated.noise.has_value());
  EXPECT_EQ(gated.noise->kappa, 2e3);
  const CaseResult diverging =
      judged(NoiseLimit{}, {row(0, 99, NoiseFloor{1, 1}), row(1, 1, NoiseFloor{0.5, 2e3})});
  EXPECT_EQ(diverging.verdict, Verdict::diverge) << "a gated row hides no other";
  EXPECT_EQ(diverging.mark, Mark::none);
}

TEST(JudgeCase, facts_agree_until_one_is_wrong) {
  EXPECT_EQ(judged(Exact{}, {}, 3).verdict, Verdict::agree);
  const CaseResult wrong = judged(Exact{}, {}, 3, "rows: expected 2, got 3");
  EXPECT_EQ(wrong.verdict, Verdict::diverge);
  EXPECT_EQ(wrong.note, "rows: expected 2, got 3");
  EXPECT_EQ(judged(Exact{}, {row(0, 0)}, 3, "wrong").verdict, Verdict::diverge);
  EXPECT_EQ(judged(Exact{}, {row(0, 1)}, 3).verdict, Verdict::diverge);
}

TEST(JudgeCase, a_wrong_fact_diverges_beside_a_gated_row) {
  const MeasuredRow gated = row(0, 1, NoiseFloor{0.5, 2e3});
  const CaseResult wrong = judged(NoiseLimit{}, {gated}, 3, "rows: expected 2, got 3");
  EXPECT_EQ(wrong.verdict, Verdict::diverge);
  EXPECT_EQ(wrong.mark, Mark::none);
  const CaseResult undecided = judged(NoiseLimit{}, {gated}, 3);
  EXPECT_EQ(undecided.verdict, Verdict::gave_up);
  EXPECT_EQ(undecided.mark, Mark::gated);
}

TEST(WorstRow, is_the_row_that_was_judged) {
  const std::vector<int> tokens{0};
  const Schedule schedule{1};
  const std::vector<MeasuredRow> rows{row(0, 1), row(1, 9), row(2, 3)};
  EXPECT_EQ(worst_row(AbsLimit{1}, {tokens, schedule, rows}, ScalarKind::f32), 1U);
  EXPECT_EQ(worst_row(AbsLimit{1}, {tokens, schedule, {}}, ScalarKind::f32), std::nullopt);
}

TEST(Badness, is_in_the_units_of_the_policy) {
  CaseResult result = judged(NoiseLimit{}, {row(0, 3, NoiseFloor{0.5, 1})});
  EXPECT_EQ(badness(NoiseLimit{}, result), 6);
  EXPECT_EQ(badness(AbsLimit{1}, result), 3);
  EXPECT_EQ(badness(Exact{}, result), 3);
  result.ratio.reset();
  EXPECT_EQ(badness(NoiseLimit{}, result), kInf);
  EXPECT_EQ(badness(AbsLimit{1}, result), 3);
  result.row.reset();
  EXPECT_EQ(badness(NoiseLimit{}, result), 0);
}

TEST(Verdict, the_worst_of_two_is_diverge_then_broken_then_gave_up) {
  EXPECT_EQ(worst(Verdict::diverge, Verdict::broken), Verdict::diverge);
  EXPECT_EQ(worst(Verdict::gave_up, Verdict::broken), Verdict::broken);
  EXPECT_EQ(worst(Verdict::gave_up, Verdict::agree), Verdict::gave_up);
  EXPECT_EQ(worst(Verdict::agree, Verdict::agree), Verdict::agree);
}

TEST(Verdict, has_the_names_that_reports_use) {
  EXPECT_EQ(name(Verdict::agree), "agree");
  EXPECT_EQ(name(Verdict::gave_up), "gave-up");
  EXPECT_EQ(name(Verdict::broken), "broken");
  EXPECT_EQ(name(Verdict::diverge), "diverge");
  EXPECT_EQ(name(Mark::none), "");
  EXPECT_EQ(name(Mark::flaky), "flaky");
  EXPECT_EQ(name(Mark::crash), "crash");
  EXPECT_EQ(name(Mark::refused), "refused");
  EXPECT_EQ(name(Mark::widened), "widened");
  EXPECT_EQ(name(Mark::gated), "gated");
}

}  // namespace
}  // namespace kvcheck
