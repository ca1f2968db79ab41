// SPDX-License-Identifier: MIT
// summary.json as a whole, and back.
#include "reports/summary_json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "engine/test_support.h"
#include "reports/test_records.h"
#include "verify/suite.h"

namespace kvcheck {
namespace {

using Limits = std::numeric_limits<double>;

RunSummary two_checks() {
  RunResult result;
  result.verdict = Verdict::diverge;
  result.checks = {diverging_check(), agreeing_check()};
  RunSummary run = run_summary(result);
  run.invariants = {{"length-is-consumed", 70, 0}, {"slots-distinct", 30, 1}};
  return run;
}

constexpr const char* kTwoChecks = R"({
  "verdict": "diverge",
  "interrupted": false,
  "compared": {
    "cases": 51,
    "prefixes": 22,
    "logits": 1474
  },
  "checks": [
    {
      "id": "all-prefixes",
      "model": "chapter8",
      "arithmetic": "matrix",
      "scalar": "f32",
      "policy": "noise:30",
      "cache_kind": "flat",
      "cases": 40,
      "prefixes": 11,
      "logits": 1234,
      "worst_abs": 0.03125,
      "worst_ratio": 12500.0,
      "worst_kappa": 3.5,
      "float64_abs": 0.03125,
      "float64_verdict": "diverge",
      "gave_up": 2,
      "marks": {
        "gated": 2,
        "widened": 3
      },
      "verdict": "diverge",
      "seconds": 0.25
    },
    {
      "id": "corpus-prefixes",
      "model": "chapter8",
      "arithmetic": "row",
      "scalar": "f32",
      "policy": "exact",
      "cache_kind": "flat",
      "cases": 11,
      "prefixes": 11,
      "logits": 240,
      "worst_abs": null,
      "worst_ratio": null,
      "worst_kappa": null,
      "float64_abs": null,
      "float64_verdict": null,
      "gave_up": 0,
      "marks": {},
      "verdict": "agree",
      "seconds": 0.016
    }
  ],
  "invariants": [
    {
      "id": "length-is-consumed",
      "checked": 70,
      "failed": 0
    },
    {
      "id": "slots-distinct",
      "checked": 30,
      "failed": 1
    }
  ]
}
)";

RunSummary read_text_as_summary(const std::string& text) {
  const TemporaryFolder folder;
  write_bytes(folder / "summary.json", text);
  return read_summary(folder / "summary.json");
}

std::string error_on(const std::string& text) {
  const TemporaryFolder folder;
  write_bytes(folder / "s.json", text);
  return error_in(folder, [&] { (void)read_summary(folder / "s.json"); });
}

std::string error_after(const std::pair<std::string, std::string>& by) {
  return error_on(replaced(kTwoChecks, by));
}

TEST(SummaryJson, holds_what_the_run_came_to) { EXPECT_EQ(summary_json(two_checks()), kTwoChecks); }

TEST(SummaryJson, is_read_back_as_it_was) {
  const RunSummary back = read_text_as_summary(kTwoChecks);
  EXPECT_EQ(summary_json(back), kTwoChecks);
  ASSERT_EQ(back.checks.size(), 2U);
  EXPECT_EQ(back.checks[0].worst_ratio, 12500.0);
  EXPECT_EQ(back.checks[0].marks.at("widened"), 3);
  EXPECT_EQ(back.checks[0].float64_verdict, Verdict::diverge);
  EXPECT_EQ(back.checks[1].float64_verdict, std::nullopt);
  EXPECT_EQ(back.checks[1].worst_abs, std::nullopt);
  EXPECT_EQ(back.checks[1].arithmetic, Arithmetic::row);
}

TEST(SummaryJson, a_run_without_checks_is_read_back_too) {
  const std::string text = summary_json(RunSummary{});
  EXPECT_EQ(text,
            "{\n  \"verdict\": \"gave-up\",\n  \"interrupted\": false,\n  \"compared\": {\n"
            "    \"cases\": 0,\n    \"prefixes\": 0,\n    \"logits\": 0\n  },\n"
            "  \"checks\": [],\n  \"invariants\": []\n}\n");
  EXPECT_EQ(summary_json(read_text_as_summary(text)), text);
}

TEST(SummaryJson, adds_up_the_invariants_of_all_checks) {
  RunResult result;
  result.checks = {diverging_check(), agreeing_check()};
  const std::size_t length = index_of(Invariant::length);
  result.checks[0].counts.invariants.add(length, true, 3);
  result.checks[1].counts.invariants.add(length, false, 4);
  const RunSummary run = run_summary(result);
  ASSERT_EQ(run.invariants.size(), invariants().size());
  EXPECT_EQ(run.invariants[length].id, "length-is-consumed");
  EXPECT_EQ(run.invariants[length].checked, 7);
  EXPECT_EQ(run.invariants[length].failed, 1);
  EXPECT_EQ(run.invariants[length + 1].checked, 0);
}

TEST(SummaryJson, names_the_kind_of_cache) {
  EXPECT_EQ(summary_check(operations_check()).cache_kind, "paged:2");
  EXPECT_EQ(summary_check(diverging_check()).cache_kind, "flat");
}

TEST(SummaryJson, counts_every_mark) {
  CheckSummary summary;
  summary.counts.flaky = 1;
  summary.counts.crashed = 2;
  const auto marks = summary_check(summary).marks;
  EXPECT_EQ(marks, (std::map<std::string, std::int64_t>{{"flaky", 1}, {"crash", 2}}));
}

TEST(SummaryJson, gave_up_counts_every_case_that_is_undecided) {
  CheckSummary summary;
  summary.counts.undecided = 5;
  summary.counts.gated = 2;
  const SummaryCheck check = summary_check(summary);
  EXPECT_EQ(check.gave_up, 5);
  EXPECT_EQ(check.marks, (std::map<std::string, std::int64_t>{{"gated", 2}}));
}

TEST(SummaryJson, an_interrupted_run_says_so) {
  RunResult result;
  result.interrupted = true;
  const std::string text = summary_json(run_summary(result));
  EXPECT_NE(text.find("\"interrupted\": true"), text.npos);
  EXPECT_TRUE(read_text_as_summary(text).interrupted);
}

TEST(SummaryJson, loses_neither_nan_nor_infinity) {
  for (const double number : {Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity(), -0.0,
                              Limits::denorm_min(), Limits::max(), 0.1}) {
    RunSummary summary = two_checks();
    summary.checks[0].worst_abs = number;
    const std::optional<double> back =
        read_text_as_summary(summary_json(summary)).checks[0].worst_abs;
    ASSERT_TRUE(back.has_value());
    EXPECT_TRUE(std::isnan(number) ? std::isnan(*back)
                                   : *back == number && std::signbit(*back) == std::signbit(number))
        << number;
  }
}

TEST(SummaryJson, spells_out_what_json_has_no_number_for) {
  RunSummary summary = two_checks();
  summary.checks[0].worst_abs = Limits::infinity();
  summary.checks[0].worst_ratio = Limits::quiet_NaN();
  const std::string text = summary_json(summary);
  EXPECT_NE(text.find("\"worst_abs\": \"inf\""), text.npos);
  EXPECT_NE(text.find("\"worst_ratio\": \"nan\""), text.npos);
}

TEST(SummaryJson, a_model_that_is_not_utf8_is_written) {
  RunSummary summary = two_checks();
  summary.checks[0].model = "a\xff";
  EXPECT_EQ(read_text_as_summary(summary_json(summary)).checks[0].model, "a\xEF\xBF\xBD");
}

TEST(SummaryJson, keys_of_later_versions_are_passed_over) {
  const std::string text =
      replaced(kTwoChecks, {"\"interrupted\"", "\"new\": [], \"interrupted\""});
  EXPECT_EQ(summary_json(read_text_as_summary(text)), kTwoChecks);
}

TEST(SummaryJson, missing_keys_are_errors) {
  EXPECT_EQ(error_on("{}"), "s.json: summary, expected a key verdict, got none");
  EXPECT_EQ(error_after({"\"logits\": 1474", "\"x\": 1"}),
            "s.json: compared, expected a key logits, got none");
  EXPECT_EQ(error_after({"\"worst_abs\": null", "\"x\": 1"}),
            "s.json: checks[1], expected a key worst_abs, got none");
}

TEST(SummaryJson, wrong_values_are_errors) {
  EXPECT_EQ(error_on("[]"), "s.json: summary, expected an object, got []");
  EXPECT_EQ(error_after({"\"diverge\"", "\"fine\""}),
            "s.json: summary.verdict, expected one of agree, gave-up, broken, diverge, got "
            "\"fine\"");
  EXPECT_EQ(error_after({"false", "0"}),
            "s.json: summary.interrupted, expected true or false, got 0");
  EXPECT_EQ(error_after({"51", "-51"}), "s.json: compared.cases, expected a count, got -51");
  EXPECT_EQ(error_after({"51", "9223372036854775808"}),
            "s.json: compared.cases, expected a count, got 9223372036854775808");
  EXPECT_EQ(error_after({"0.03125", "\"big\""}),
            "s.json: checks[0].worst_abs, expected a number, \"nan\", \"inf\" or \"-inf\", got "
            "\"big\"");
  EXPECT_EQ(error_after({"\"seconds\": 0.25", "\"seconds\": null"}),
            "s.json: checks[0].seconds, expected a number, \"nan\", \"inf\" or \"-inf\", got null");
  EXPECT_EQ(error_after({"\"marks\": {}", "\"marks\": 1"}),
            "s.json: checks[1].marks, expected an object, got 1");
  EXPECT_EQ(error_after({"\"gated\": 2", "\"gated\": \"2\""}),
            "s.json: checks[0].marks.gated, expected a count, got \"2\"");
  EXPECT_EQ(error_after({"\"policy\": \"exact\"", "\"policy\": 3"}),
            "s.json: checks[1].policy, expected a string, got 3");
}

TEST(SummaryJson, a_missing_file_is_an_error) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_in(folder, [&] { (void)read_summary(folder / "none"); }),
            "none: file, expected a readable regular file, got none");
}

}  // namespace
}  // namespace kvcheck
