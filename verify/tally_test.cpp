// SPDX-License-Identifier: MIT
// A tally forgets no failure, keeps the worst of the rest, and does not depend on how a check was
// cut into parts.
#include "verify/tally.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "verify/test_faults.h"

namespace kvcheck {
namespace {

CaseResult result_of(Verdict verdict, double difference, Mark mark = Mark::none) {
  CaseResult result;
  result.verdict = verdict;
  result.mark = mark;
  result.row.emplace().max_abs_difference = difference;
  result.ratio = 2 * difference;
  result.rows_compared = 1;
  return result;
}

struct Entry {
  std::vector<int> tokens;
  CaseResult result;
};

void add(Tally& tally, const Entry& entry) {
  tally.add(entry.tokens, decode_schedule(static_cast<int>(entry.tokens.size())), entry.result, 3);
}

Tally tally_of(const std::vector<Entry>& entries, std::size_t worst_kept = 1000,
               Keep keep = Keep::worst) {
  Tally tally(NoiseLimit{}, worst_kept, keep);
  for (const Entry& entry : entries) add(tally, entry);
  return tally;
}

std::string indices(const std::vector<TalliedCase>& cases) {
  std::string text;
  for (const TalliedCase& subject : cases) text += fmt::format("{} ", subject.index);
  return text;
}

std::string all_of(const std::vector<TalliedCase>& cases) {
  std::string text;
  for (const TalliedCase& subject : cases) {
    text += fmt::format("{} {} {} {}\n", subject.index, subject.tokens.front(),
                        to_text(subject.schedule), describe(subject.result));
  }
  return text;
}

TEST(Tally, keeps_every_case_that_does_not_agree_in_order) {
  Tally tally = tally_of({{{0}, result_of(Verdict::diverge, 3)},
                          {{1}, result_of(Verdict::agree, 9)},
                          {{2}, result_of(Verdict::broken, 0)},
                          {{3}, result_of(Verdict::gave_up, 0)},
                          {{4}, result_of(Verdict::diverge, 1)}},
                         1);
  EXPECT_EQ(indices(tally.take_listed()), "0 2 3 4 ");
  EXPECT_EQ(indices(tally.take_listed()), "") << "they are taken once";
  EXPECT_EQ(indices(tally.take_worst()), "1 ");
}

TEST(Tally, keeps_the_worst_of_those_that_agree) {
  const auto agree = [](double difference) { return result_of(Verdict::agree, difference); };
  Tally tally = tally_of({{{0}, agree(5)}, {{1}, agree(1)}, {{2}, agree(7)}, {{3}, agree(3)}}, 2);
  EXPECT_EQ(indices(tally.take_worst()), "0 2 ");
  EXPECT_EQ(indices(tally.take_listed()), "");
}

TEST(Tally, of_equally_bad_ones_the_earlier_are_kept) {
  const CaseResult same = result_of(Verdict::agree, 1);
  Tally tally = tally_of({{{0}, same}, {{1}, same}, {{2}, same}}, 2);
  EXPECT_EQ(indices(tally.take_worst()), "0 1 ");
}

TEST(Tally, keeps_none_when_none_are_asked_for) {
  EXPECT_EQ(indices(tally_of({{{0}, result_of(Verdict::agree, 1)}}, 0).take_worst()), "");
}

TEST(Tally, keeps_all_when_all_are_asked_for) {
  Tally tally = tally_of({{{0}, result_of(Verdict::agree, 1)}, {{1}, result_of(Verdict::agree, 0)}},
                         1, Keep::all);
  EXPECT_EQ(indices(tally.take_listed()), "0 1 ");
  EXPECT_EQ(indices(tally.take_worst()), "");
}

TEST(Tally, ranks_by_what_the_policy_measures) {
  CaseResult far = result_of(Verdict::agree, 5);
  far.ratio = 1;
  CaseResult noisy = result_of(Verdict::agree, 1);
  noisy.ratio = 9;
  Tally by_ratio(NoiseLimit{}, 1, Keep::worst);
  Tally by_difference(AbsLimit{1}, 1, Keep::worst);
  for (Tally* tally : {&by_ratio, &by_difference}) {
    add(*tally, {{0}, far});
    add(*tally, {{1}, noisy});
  }
  EXPECT_EQ(indices(by_ratio.take_worst()), "1 ");
  EXPECT_EQ(indices(by_difference.take_worst()), "0 ");
}

TEST(Tally, tells_the_largest_difference_and_the_worst_ratio_of_all) {
  CaseResult first = result_of(Verdict::agree, 5);
  first.ratio = 1;
  const Tally tally = tally_of({{{0}, result_of(Verdict::agree, 2)},
                                {{1}, first},
                                {{2}, result_of(Verdict::diverge, 5)},
                                {{3}, result_of(Verdict::agree, 3)}});
  ASSERT_TRUE(tally.worst_difference().has_value());
  EXPECT_EQ(tally.worst_difference()->index, 1) << "the first of the largest";
  EXPECT_EQ(tally.worst_ratio(), 10.0);
}

TEST(Tally, counts_marks_and_logits) {
  const Tally tally = tally_of({{{0}, result_of(Verdict::diverge, 3, Mark::flaky)},
                                {{1}, result_of(Verdict::agree, 1, Mark::widened)},
                                {{2}, result_of(Verdict::broken, 0, Mark::crash)},
                                {{3}, result_of(Verdict::gave_up, 0, Mark::gated)},
                                {{4}, result_of(Verdict::diverge, 1)},
                                {{5}, result_of(Verdict::gave_up, 1)}});
  const Counts& counts = tally.counts();
  EXPECT_EQ(counts.cases, 6);
  EXPECT_EQ(counts.logits, 18);
  EXPECT_EQ(counts.diverged, 2);
  EXPECT_EQ(counts.flaky, 1);
  EXPECT_EQ(counts.widened, 1);
  EXPECT_EQ(counts.crashed, 1);
  EXPECT_EQ(counts.gated, 1);
  EXPECT_EQ(counts.undecided, 2) << "gated or not";
}

TEST(Tally, counts_a_prefix_once_however_it_is_cut) {
  Tally tally(Exact{}, 10, Keep::worst);
  const CaseResult agree = result_of(Verdict::agree, 0);
  const std::vector<int> pair{0, 1};
  const std::vector<int> other{0, 2};
  tally.add(pair, {1, 1}, agree, 1);
  tally.add(pair, {2}, agree, 1);
  tally.add(other, {1, 1}, agree, 1);
  EXPECT_EQ(tally.counts().cases, 3);
  EXPECT_EQ(tally.counts().prefixes, 2);
}

// ---- Verdicts

Verdict verdict_of(const std::vector<std::pair<int, CaseResult>>& cases) {
  Tally tally(NoiseLimit{}, 10, Keep::worst);
  int token = 0;
  for (const auto& [times, result] : cases) {
    for (int i = 0; i < times; ++i) add(tally, {{token++}, result});
  }
  return tally.verdict();
}

TEST(TallyVerdict, nothing_compared_is_gave_up) {
  EXPECT_EQ(verdict_of({}), Verdict::gave_up);
  EXPECT_EQ(verdict_of({{3, result_of(Verdict::gave_up, 0)}}), Verdict::gave_up);
  EXPECT_EQ(verdict_of({{3, result_of(Verdict::gave_up, 0, Mark::gated)}}), Verdict::gave_up);
}

TEST(TallyVerdict, the_worst_case_decides) {
  const auto agree = std::pair{100, result_of(Verdict::agree, 0)};
  EXPECT_EQ(verdict_of({agree}), Verdict::agree);
  EXPECT_EQ(verdict_of({agree, {1, result_of(Verdict::broken, 0)}}), Verdict::broken);
  EXPECT_EQ(verdict_of({{1, result_of(Verdict::diverge, 0)}, agree}), Verdict::diverge);
  EXPECT_EQ(
      verdict_of(
          {{1, result_of(Verdict::broken, 0)}, agree, {1, result_of(Verdict::diverge, 0)}, agree}),
      Verdict::diverge);
}

TEST(TallyVerdict, more_than_a_twentieth_gated_is_too_little_decided) {
  const CaseResult gated = result_of(Verdict::gave_up, 1, Mark::gated);
  const CaseResult agree = result_of(Verdict::agree, 1);
  EXPECT_EQ(verdict_of({{19, agree}, {1, gated}}), Verdict::agree) << "just 5 %";
  EXPECT_EQ(verdict_of({{18, agree}, {1, gated}}), Verdict::gave_up);
  EXPECT_EQ(verdict_of({{1, gated}, {18, agree}}), Verdict::gave_up);
}

TEST(TallyVerdict, gated_cases_hide_no_failure) {
  const CaseResult gated = result_of(Verdict::gave_up, 1, Mark::gated);
  EXPECT_EQ(verdict_of({{50, gated}, {1, result_of(Verdict::diverge, 1)}}), Verdict::diverge);
  EXPECT_EQ(verdict_of({{50, gated}, {1, result_of(Verdict::broken, 1)}}), Verdict::broken);
}

// ---- Parts

std::vector<Entry> any_entries() {
  const auto verdict = rc::gen::weightedElement<Verdict>(
      {{6, Verdict::agree}, {1, Verdict::gave_up}, {1, Verdict::broken}, {1, Verdict::diverge}});
  const auto mark = rc::gen::element(Mark::none, Mark::none, Mark::gated, Mark::widened,
                                     Mark::flaky, Mark::crash);
  const int count = *rc::gen::inRange(0, 40).as("cases");
  std::vector<Entry> entries;
  for (int i = 0; i < count; ++i) {
    // Few differences, so that many are equally bad.
    entries.push_back({{i}, result_of(*verdict, *rc::gen::element(0, 1, 2, 3), *mark)});
    if (*rc::gen::element(0, 1, 2) == 0) entries.back().result.row.reset();
    if (*rc::gen::element(0, 1, 2) == 0) entries.back().result.ratio.reset();
  }
  return entries;
}

rc::Gen<Keep> any_keep() { return rc::gen::element(Keep::worst, Keep::all).as("keep"); }

std::string summary_of(Tally& tally) {
  const Counts& c = tally.counts();
  return fmt::format("{} {} {} {} {} {} {} {} {} {} {} worst {}\n{}", c.cases, c.prefixes, c.logits,
                     c.diverged, c.undecided, c.gated, c.widened, c.flaky, c.crashed,
                     name(tally.verdict()), tally.worst_ratio().value_or(-1),
                     tally.worst_difference() ? tally.worst_difference()->index : -1,
                     all_of(tally.take_worst()));
}

RC_GTEST_PROP(Tally, parts_put_together_are_the_whole, ()) {
  const std::vector<Entry> entries = any_entries();
  const std::size_t kept = *rc::gen::element<std::size_t>(0, 1, 3, 1000).as("worst kept");
  const Keep keep = *any_keep();
  Tally whole = tally_of(entries, kept, keep);
  Tally together(NoiseLimit{}, kept, keep);
  std::string listed;
  for (std::size_t first = 0; first < entries.size();) {
    const std::size_t left = entries.size() - first;
    const std::size_t size = *rc::gen::inRange<std::size_t>(1, left + 1).as("part");
    const auto begin = entries.begin() + static_cast<std::ptrdiff_t>(first);
    together.append(tally_of({begin, begin + static_cast<std::ptrdiff_t>(size)}, kept, keep));
    if (*rc::gen::arbitrary<bool>()) listed += all_of(together.take_listed());
    first += size;
  }
  listed += all_of(together.take_listed());
  RC_ASSERT(listed == all_of(whole.take_listed()));
  RC_ASSERT(summary_of(together) == summary_of(whole));
}

RC_GTEST_PROP(Tally, every_failure_is_listed_and_no_case_twice, ()) {
  const std::vector<Entry> entries = any_entries();
  Tally tally = tally_of(entries, 1000, *any_keep());
  std::vector<int> times(entries.size(), 0);
  for (const auto& taken : {tally.take_listed(), tally.take_worst()}) {
    for (const TalliedCase& subject : taken) ++times[static_cast<std::size_t>(subject.index)];
  }
  RC_ASSERT(std::ranges::count(times, 1) == static_cast<std::ptrdiff_t>(entries.size()));
}

}  // namespace
}  // namespace kvcheck
