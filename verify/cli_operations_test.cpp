// SPDX-License-Identifier: MIT
// --operations and --cache-kind: what they run, what they refuse, and the same bytes every time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "engine/cache_kind.h"
#include "reports/operation_row.h"
#include "verify/cli.h"
#include "verify/test_command.h"

namespace kvcheck {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

std::vector<OperationRow> rows_of(const fs::path& run) {
  std::vector<OperationRow> rows;
  read_operations(run / "operations.csv",
                  [&](OperationRow row) { rows.push_back(std::move(row)); });
  return rows;
}

TEST(CliOperations, random_ones_are_run_on_every_kind_in_both_arithmetics) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult result = kvcheck.run("verify gen:plain:1 --operations random:3 --out run");
  EXPECT_EQ(result.exit_code, kExitAgree) << everything(result);
  std::set<std::tuple<std::string, Arithmetic, std::uint64_t>> found;
  for (const OperationRow& row : rows_of(kvcheck / "run")) {
    EXPECT_EQ(row.check, "operations");
    found.insert({row.cache_kind, row.arithmetic, row.index.value()});
  }
  EXPECT_THAT(found, SizeIs(cache_kinds().size() * 2 * 3));
  EXPECT_THAT(result.out, Not(HasSubstr("prefixes  gen")));
  EXPECT_THAT(result.out, HasSubstr("\noperations flat: "));
  EXPECT_THAT(result.out, HasSubstr("\nint8 rows: "));
}

TEST(CliOperations, exhaustive_ones_are_numbered_by_case_alone) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult result = kvcheck.run(
      "verify gen:plain:1 --operations exhaustive:3 --cache-kind flat --csv full --out run");
  EXPECT_EQ(result.exit_code, kExitAgree) << everything(result);
  std::set<std::string> sequences;
  const std::vector<OperationRow> rows = rows_of(kvcheck / "run");
  for (const OperationRow& row : rows) {
    EXPECT_FALSE(row.index.has_value());
    sequences.insert(row.operations);
  }
  EXPECT_EQ(2 * sequences.size(), rows.size()) << "each once in each arithmetic";
  EXPECT_GT(sequences.size(), 10U);
}

TEST(CliOperations, none_leaves_them_out) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult result = kvcheck.run("verify gen:plain:1 --operations none --out run");
  EXPECT_EQ(result.exit_code, kExitAgree) << everything(result);
  EXPECT_FALSE(fs::exists(kvcheck / "run/operations.csv"));
  EXPECT_THAT(result.out, Not(HasSubstr("operations")));
  EXPECT_THAT(kvcheck.run("report run").out, HasSubstr("random-prefixes: worst 10 of "));
}

TEST(CliOperations, refuses_bad_values) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const auto said = [&](const std::string& value) {
    return complaint(kvcheck.run("verify gen:plain:1 --operations " + value));
  };
  const std::string one = "--operations: number, expected 1 to 1000000, got ";
  EXPECT_EQ(said("random:0"), one + "\"0\"");
  EXPECT_EQ(said("random:x"), one + "\"x\"");
  EXPECT_EQ(said("random:"), one + "\"\"");
  EXPECT_EQ(said("random:1000001"), one + "\"1000001\"");
  EXPECT_EQ(said("exhaustive:0"), "--operations: number, expected 1 to 8, got \"0\"");
  EXPECT_EQ(said("exhaustive:99"), "--operations: number, expected 1 to 8, got \"99\"");
  EXPECT_EQ(said("some"),
            "--operations: bad value, expected random:N, exhaustive:D or none, got some");
  EXPECT_THAT(
      said("exhaustive:2 --index 1"),
      StartsWith("--index: operations that are not random, expected --operations random:N"));
}

TEST(CliOperations, refuses_too_many_sequences_before_anything_is_run) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  EXPECT_EQ(complaint(kvcheck.run("verify gen:plain:1 --operations exhaustive:8 --out run")),
            "--operations: too many sequences on gen:plain:1 (flat), expected at most 2000000, as "
            "exhaustive:6 has 196841, got more than 2000000 of exhaustive:8");
  EXPECT_FALSE(fs::exists(kvcheck / "run"));
}

TEST(CliOperations, an_index_runs_one_sequence_on_each_kind_in_each_arithmetic) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  kvcheck.run("verify gen:plain:1 --operations random:8 --seed 5 --csv full --out all");
  const CommandResult one =
      kvcheck.run("verify gen:plain:1 --operations random:8 --seed 5 --index 6 --out one");
  EXPECT_EQ(one.exit_code, kExitAgree) << everything(one);
  std::vector<OperationRow> expected;
  for (OperationRow& row : rows_of(kvcheck / "all")) {
    if (row.index != 6) continue;
    row.number = 0;
    expected.push_back(std::move(row));
  }
  EXPECT_THAT(expected, SizeIs(cache_kinds().size() * 2));
  EXPECT_EQ(rows_of(kvcheck / "one"), expected);
}

TEST(CliOperations, give_the_same_bytes_again_whatever_the_jobs) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const auto bytes = [&](const std::string& options, const std::string& out) {
    kvcheck.run("verify gen:windowed:1 --operations random:40 --csv full " + options + " --out " +
                out);
    return read_bytes(kvcheck / (out + "/operations.csv"));
  };
  const std::string first = bytes("--seed 9 --jobs 1", "a");
  EXPECT_EQ(bytes("--seed 9 --jobs 1", "b"), first);
  EXPECT_EQ(bytes("--seed 9 --jobs 3", "c"), first);
  EXPECT_NE(bytes("--seed 10 --jobs 3", "d"), first);
}

TEST(CliCacheKind, every_kind_agrees_on_prefixes_schedules_and_accounts) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  for (const char* kind :
       {"growing", "ring", "paged:2", "padded-left", "padded-right", "bf16", "f16", "int8"}) {
    const CommandResult result = kvcheck.run(
        std::string("verify gen:windowed:1 --prefixes random:4 --schedules decode --cache-kind ") +
        kind + " --csv full --out " + kind);
    EXPECT_EQ(result.exit_code, kExitAgree) << kind << everything(result);
    EXPECT_THAT(read_bytes(kvcheck / (std::string(kind) + "/prefixes.csv")),
                HasSubstr(std::string("cache=") + kind + ","))
        << kind;
    EXPECT_THAT(result.out, HasSubstr("\naccounting ")) << kind;
  }
}

// What a model promises, and what another program computed, is about rows that nothing rounds.
TEST(CliCacheKind, rounded_rows_are_judged_by_the_noise_floor_only) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult rounded =
      kvcheck.run("verify chapter8 --prefixes all --cache-kind bf16 --out rounded");
  EXPECT_EQ(rounded.exit_code, kExitAgree) << everything(rounded);
  EXPECT_THAT(rounded.out, Not(HasSubstr("\ncontract ")));
  EXPECT_THAT(rounded.out, Not(HasSubstr("\ngolden ")));
  const CommandResult paged =
      kvcheck.run("verify chapter8 --prefixes all --cache-kind paged:2 --out paged");
  EXPECT_EQ(paged.exit_code, kExitAgree) << everything(paged);
  EXPECT_THAT(paged.out, HasSubstr("\ncontract "));
  EXPECT_THAT(paged.out, HasSubstr("\ngolden "));
  const auto summary = nlohmann::json::parse(read_bytes(kvcheck / "paged/summary.json"));
  for (const auto& check : summary.at("checks")) EXPECT_EQ(check.at("cache_kind"), "paged:2");
}

TEST(CliCacheKind, refuses_what_is_none) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  for (const char* kind : {"heap", "paged:0", "paged:", "flat:2", "FLAT"}) {
    EXPECT_THAT(complaint(kvcheck.run(std::string("verify gen:plain:1 --cache-kind ") + kind)),
                StartsWith("--cache-kind: "))
        << kind;
  }
}

TEST(CliReport, lists_the_worst_operations_with_their_lines) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult run = kvcheck.run(
      "verify gen:wide:1 --operations random:4 --cache-kind ring --tolerance abs:1e-12 --out run");
  ASSERT_EQ(run.exit_code, kExitDiverge) << everything(run);
  const CommandResult report = kvcheck.run("report run");
  EXPECT_EQ(report.exit_code, kExitAgree) << everything(report);
  EXPECT_THAT(report.out, StartsWith("operations: worst 8 of 8 cases\n  diverge  case "));
  const std::vector<std::string> lines = repro_lines(report.out);
  ASSERT_THAT(lines, SizeIs(8));
  EXPECT_EQ(kvcheck.shell(lines.front()).exit_code, kExitDiverge);
}

}  // namespace
}  // namespace kvcheck
