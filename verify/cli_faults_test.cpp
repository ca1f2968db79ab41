// SPDX-License-Identifier: MIT
// kvcheck faults as a user runs it: what it says, what it writes, and how it ends.
#include "verify/cli_faults.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/files.h"
#include "reports/fault_row.h"
#include "verify/cli.h"
#include "verify/faults.h"
#include "verify/kill_matrix.h"
#include "verify/test_command.h"

namespace kvcheck {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::StartsWith;

TEST(CliFaults, shows_which_checks_see_a_fault) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult result =
      kvcheck.run("faults chapter8 --fault pos-decode-reset --jobs 2 --out run");
  EXPECT_EQ(result.exit_code, kExitAgree) << everything(result);
  EXPECT_THAT(result.out, HasSubstr("\nposition of a row\n  pos-decode-reset               3/3  "));
  EXPECT_THAT(result.out, ContainsRegex("\nkill rate of exact +100.0 %  \\([0-9]+ of"));
  EXPECT_THAT(result.out, ContainsRegex("\nkill rate of noise +100.0 %"));
  EXPECT_THAT(result.out, ContainsRegex("\nkill rate of noise-f64 +100.0 %"));
  EXPECT_THAT(result.out, ContainsRegex("\n. shapes +0 +[1-9]"));
  EXPECT_THAT(last_line(result.out),
              StartsWith(fmt::format("verdict: all as expected (1 faults in 3 variants, {} checks, "
                                     "2 models ",
                                     matrix_checks().size())));
  EXPECT_EQ(files_in(kvcheck / "run"),
            (std::vector<std::string>{"faults.csv", "manifest.json", "summary.json"}));
  for (const std::string& line : split(result.out, '\n')) EXPECT_LE(line.size(), 150U) << line;
}

TEST(CliFaults, files_are_the_same_whatever_the_number_of_threads) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  for (const std::string jobs : {"1", "3"}) {
    const CommandResult result = kvcheck.run("faults chapter8-rotary --fault pos-[bd]* --jobs " +
                                             jobs + " --out run" + jobs);
    ASSERT_EQ(result.exit_code, kExitAgree) << everything(result);
  }
  const std::string csv = read_text(kvcheck / "run1/faults.csv");
  EXPECT_GT(csv.size(), 10'000U);
  EXPECT_EQ(read_text(kvcheck / "run3/faults.csv"), csv);
  EXPECT_EQ(read_text(kvcheck / "run3/summary.json"), read_text(kvcheck / "run1/summary.json"));
}

TEST(CliFaults, first_failing_cases_fail_again) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult result =
      kvcheck.run("faults chapter8 --fault pos-multi-constant --checks own --out run");
  ASSERT_EQ(result.exit_code, kExitAgree) << everything(result);
  int again = 0;
  read_faults(kvcheck / "run/faults.csv", [&](const FaultRow& row) {
    EXPECT_EQ(row.reproduce.empty(), row.outcome != "caught");
    if (row.reproduce.empty()) return;
    EXPECT_THAT(row.reproduce, HasSubstr(",fault=pos-multi-constant"));
    EXPECT_EQ(kvcheck.shell(row.reproduce).exit_code, kExitDiverge) << row.reproduce;
    ++again;
  });
  EXPECT_GE(again, 4) << "schedules and operations, on two models";
}

TEST(CliFaults, that_nothing_sees_are_exit_1) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult inert =
      kvcheck.run("faults chapter8 --fault pos-batch-shared --checks noise,shapes --out run");
  EXPECT_EQ(inert.exit_code, kExitDiverge) << everything(inert);
  EXPECT_THAT(inert.out,
              HasSubstr("\nnot as expected\n  pos-batch-shared: inert on every model\n"));
  EXPECT_THAT(last_line(inert.out), StartsWith("verdict: 1 not as expected ("));
}

TEST(CliFaults, replicas_alone_decide_nothing) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult blind =
      kvcheck.run("faults chapter8 --fault pos-decode-reset --checks shapes --out run");
  EXPECT_EQ(blind.exit_code, kExitGaveUp) << everything(blind);
  EXPECT_THAT(blind.out, HasSubstr("verdict: not judged"));
}

TEST(CliFaults, a_check_that_could_not_be_run_decides_nothing) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult blind =
      kvcheck.run("faults gen:plain:1 --checks contract --fault rope-on-read-again --out run");
  EXPECT_EQ(blind.exit_code, kExitGaveUp) << everything(blind);
  EXPECT_THAT(blind.out, HasSubstr("verdict: not judged"));
}

TEST(CliFaults, take_no_option_that_they_would_ignore) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  EXPECT_EQ(complaint(kvcheck.run("faults --list --severity")),
            "--severity: with another one of its kind, expected one of them, got --list");
  EXPECT_EQ(complaint(kvcheck.run("faults chapter8 --alarms 2")),
            "--alarms: with an option of others, expected none, got MODEL");
  EXPECT_EQ(complaint(kvcheck.run("faults --alarms 2 --checks noise")),
            "--alarms: with an option of others, expected none, got --checks");
  EXPECT_EQ(complaint(kvcheck.run("faults --severity --fault pos-*")),
            "--severity: with an option of others, expected none, got --fault");
}

TEST(CliFaults, count_alarms_and_score_the_diagnosis) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult alarms = kvcheck.run("faults --alarms 8");
  EXPECT_EQ(alarms.exit_code, kExitAgree) << everything(alarms);
  EXPECT_THAT(alarms.out, HasSubstr("0 of 8 random models and sequences raise an alarm"));
  const CommandResult score = kvcheck.run("faults --diagnosis --fault pos-multi-constant");
  EXPECT_EQ(score.exit_code, kExitAgree) << everything(score);
  EXPECT_THAT(score.out, HasSubstr("named: 1 of 1 (100.0 %), 1 of them as the only explanation"));
}

TEST(CliFaults, mean_nothing_on_a_model_that_fails_without) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  save_diverging_model(kvcheck / "model");
  const CommandResult result = kvcheck.run("faults model --fault pos-decode-reset --out run");
  EXPECT_EQ(result.exit_code, kExitBroken) << everything(result);
  EXPECT_THAT(result.err, HasSubstr("kvcheck: baseline: "));
  EXPECT_EQ(files_in(kvcheck / "run"), std::vector<std::string>{"manifest.json"});
}

TEST(CliFaults, can_run_out_of_time) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult result = kvcheck.run("faults chapter8 --time 0 --out run");
  EXPECT_EQ(result.exit_code, kExitGaveUp) << everything(result);
  EXPECT_THAT(last_line(result.out), HasSubstr(", interrupted ("));
}

TEST(CliFaults, are_listed_and_explained) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult list = kvcheck.run("faults --list");
  EXPECT_EQ(list.exit_code, kExitAgree);
  for (const Fault& fault : faults()) {
    EXPECT_THAT(list.out, HasSubstr(fmt::format("\n  {} ", fault.id)));
    const CommandResult one = kvcheck.run(fmt::format("faults --explain {}", fault.id));
    EXPECT_EQ(one.exit_code, kExitAgree);
    EXPECT_THAT(one.out, StartsWith(fmt::format("{}\n", fault.id)));
    for (const std::string_view said : {fault.summary, fault.stands_for, fault.reason}) {
      EXPECT_THAT(one.out, HasSubstr(std::string(said)));
    }
  }
  EXPECT_EQ(kvcheck.run("faults --list --fault rope-*").out.find("pos-"), std::string::npos);
  EXPECT_EQ(files_in(kvcheck / "kvcheck-runs"), std::vector<std::string>{});
}

TEST(CliFaults, unknown_values_are_bad_input) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const auto said = [&](const std::string& arguments) {
    return complaint(kvcheck.run("faults " + arguments));
  };
  EXPECT_EQ(said("--fault nowhere*"),
            "--fault: no such fault, expected an id that kvcheck faults --list shows, or a pattern "
            "such as pos-*, got nowhere*");
  EXPECT_EQ(said("--explain nowhere"),
            "--explain: unknown fault, expected an id that kvcheck faults --list shows, got "
            "nowhere");
  EXPECT_EQ(said("--explain pos-decode-reset:onset9"),
            "--explain: fault, expected as pos-decode-reset:onset1, got pos-decode-reset:onset9");
  EXPECT_THAT(said("--checks noise,nope"),
              StartsWith("--checks: unknown check, expected own, replicas, corpus-prefixes, "));
  EXPECT_THAT(said("--checks noise,"), StartsWith("--checks: unknown check, expected own, "));
  EXPECT_EQ(said("--jobs 0"), "--jobs: bad value, expected a whole number from 1 to 1024, got 0");
  EXPECT_THAT(said("nowhere --out run"), StartsWith("nowhere: "));
}

TEST(NamesFault, by_id_by_pattern_or_in_full) {
  const FaultVariant variant = parse_fault("pos-decode-offset:onset2:amount-1", "test");
  for (const char* pattern : {"pos-decode-offset", "pos-*", "*offset", "*amount-1",
                              "pos-decode-offset:onset2:amount-1"}) {
    EXPECT_TRUE(names_fault(pattern, variant)) << pattern;
  }
  for (const char* pattern : {"pos", "pos-decode", "*amount1", "rope-*", ""}) {
    EXPECT_FALSE(names_fault(pattern, variant)) << pattern;
  }
}

TEST(ChecksOfList, know_groups) {
  EXPECT_TRUE(checks_of_list("").empty());
  EXPECT_EQ(checks_of_list("noise,shapes"), (std::vector<std::string_view>{"noise", "shapes"}));
  EXPECT_EQ(checks_of_list("own").size() + checks_of_list("replicas").size(),
            matrix_checks().size());
}

}  // namespace
}  // namespace kvcheck
