// SPDX-License-Identifier: MIT
// The files of a run: complete, or not there. Full disks, signals and failures kept for the next
// run.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <nlohmann/json.hpp>

#include "reports/operation_row.h"
#include "reports/prefix_row.h"
#include "reports/summary_json.h"
#include "verify/cli.h"
#include "verify/test_command.h"

namespace kvcheck {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::Contains;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

json json_of(const fs::path& file) { return json::parse(read_bytes(file)); }

std::vector<PrefixRow> rows_of(const fs::path& run) {
  std::vector<PrefixRow> rows;
  read_prefixes(run / "prefixes.csv", [&](PrefixRow row) { rows.push_back(std::move(row)); });
  return rows;
}

// ---- What a run leaves

TEST(CliFiles, have_a_folder_of_their_own_and_a_link_to_the_latest) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult first = kvcheck.run("verify gen:one-token:1 --seed 5");
  const CommandResult second = kvcheck.run("verify gen:one-token:1 --seed 5");
  const std::string said = commands_in(second.out, "files: ").front().substr(7);
  EXPECT_THAT(said, MatchesRegex("kvcheck-runs/[0-9]{8}T[0-9]{6}Z-5(-2)?"));
  EXPECT_NE(commands_in(first.out, "files: ").front().substr(7), said);
  const fs::path runs = kvcheck / "kvcheck-runs";
  EXPECT_EQ(runs / fs::read_symlink(runs / "latest"), kvcheck / said);
  EXPECT_THAT(files_in(kvcheck / said), ElementsAre("junit.xml", "manifest.json", "operations.csv",
                                                    "prefixes.csv", "summary.json"));
}

TEST(CliFiles, say_what_was_run) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  kvcheck.run("verify gen:one-token:1 --seed 18446744073709551615 --out run");
  const json manifest = json_of(kvcheck / "run/manifest.json");
  EXPECT_EQ(manifest.at("version"), KVCHECK_VERSION);
  EXPECT_EQ(manifest.at("command"), json({"kvcheck", "verify", "gen:one-token:1", "--seed",
                                          "18446744073709551615", "--out", "run"}));
  EXPECT_EQ(manifest.at("seed"), "18446744073709551615");
  EXPECT_EQ(manifest.at("models").at(0).at("name"), "gen:one-token:1");
}

TEST(CliFiles, of_a_run_can_be_read_back) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  save_diverging_model(kvcheck / "model");
  const CommandResult result = kvcheck.run("verify model --no-stored --out run");
  const RunSummary summary = read_summary(kvcheck / "run/summary.json");
  EXPECT_EQ(summary.verdict, Verdict::diverge);
  EXPECT_FALSE(summary.interrupted);
  EXPECT_THAT(last_line(result.out),
              StartsWith(fmt::format("verdict: diverge ({} checks, {} cases, {} logits compared",
                                     summary.checks.size(), summary.compared.cases,
                                     summary.compared.logits)));
  EXPECT_FALSE(rows_of(kvcheck / "run").empty());
  const std::string junit = read_bytes(kvcheck / "run/junit.xml");
  EXPECT_THAT(junit, StartsWith("<?xml"));
  EXPECT_THAT(junit, HasSubstr("<failure"));
  EXPECT_THAT(junit, HasSubstr("</testsuites>"));
}

// All failures are in prefixes.csv; each of the first ones also has a file.
TEST(CliFiles, hold_every_failure_in_the_order_of_the_rows) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  save_diverging_model(kvcheck / "model");
  kvcheck.run("verify model --no-stored --prefixes random:1 --out run");
  int failures = 0;
  for (const PrefixRow& row : rows_of(kvcheck / "run")) {
    if (row.verdict == Verdict::agree) continue;
    const json found = json_of(kvcheck / fmt::format("run/failures/{}.json", ++failures));
    EXPECT_EQ(found.at("check"), row.check);
    EXPECT_EQ(found.at("schedule"), row.schedule);
    EXPECT_EQ(found.at("outcomes").at(0).at("verdict"), "diverge");
  }
  EXPECT_GT(failures, 0);
  EXPECT_FALSE(fs::exists(kvcheck / fmt::format("run/failures/{}.json", failures + 1)));
}

// ---- Read again by kvcheck report

TEST(CliReport, lists_the_ten_worst_cases_of_each_check_with_their_commands) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  save_diverging_model(kvcheck / "model");
  kvcheck.run("verify model --no-stored --csv full --out run");
  const CommandResult result = kvcheck.run("report run");
  EXPECT_EQ(result.exit_code, 0) << everything(result);
  std::map<std::string, std::size_t> cases;
  for (const PrefixRow& row : rows_of(kvcheck / "run")) ++cases[row.check];
  read_operations(kvcheck / "run/operations.csv",
                  [&](const OperationRow& row) { ++cases[row.check]; });
  EXPECT_TRUE(cases.contains("operations"));
  std::size_t expected = 0;
  for (const auto& [check, count] : cases) {
    expected += std::min<std::size_t>(count, 10);
    EXPECT_THAT(result.out, HasSubstr(fmt::format("{}: worst {} of ", check,
                                                  std::min<std::size_t>(count, 10))));
  }
  EXPECT_THAT(repro_lines(result.out), SizeIs(expected));
  EXPECT_EQ(kvcheck.shell(repro_lines(result.out).front()).exit_code, kExitDiverge);
  EXPECT_THAT(last_line(result.out), StartsWith("verdict of the run: diverge ("));
}

TEST(CliReport, refuses_a_folder_that_is_no_run) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  fs::create_directory(kvcheck / "empty");
  EXPECT_EQ(complaint(kvcheck.run("report empty")),
            "empty/summary.json: file, expected a readable regular file, got none");
  fs::create_directory(kvcheck / "faulty");
  write_bytes(kvcheck / "faulty" / "faults.csv", "");
  EXPECT_EQ(complaint(kvcheck.run("report faulty")),
            "faulty: run, expected one of kvcheck verify, got one of kvcheck faults, whose "
            "faults.csv has a row for each fault and check");
  EXPECT_EQ(complaint(kvcheck.run("report missing")),
            "missing/summary.json: file, expected a readable regular file, got none");
}

TEST(CliReport, refuses_rows_that_were_tampered_with) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  kvcheck.run("verify gen:one-token:1 --out run");
  const fs::path file = kvcheck / "run/prefixes.csv";
  const std::string rows = read_bytes(file);
  write_bytes(file, replaced(rows, {"\n0,", "\nzero,"}));
  EXPECT_EQ(complaint(kvcheck.run("report run")),
            "run/prefixes.csv:2: column case, expected a whole number, got \"zero\"");
  write_bytes(file, replaced(rows, {",verdict,", ",opinion,"}));
  EXPECT_EQ(complaint(kvcheck.run("report run")),
            "run/prefixes.csv:1: header, expected a column verdict, got none");
  write_bytes(file, rows.substr(0, rows.size() - 10));
  EXPECT_EQ(complaint(kvcheck.run("report run")),
            fmt::format("run/prefixes.csv:{}: quoted cell, expected a closing quote on the same "
                        "line, got none",
                        std::ranges::count(rows, '\n')));
  fs::remove(file);
  EXPECT_EQ(complaint(kvcheck.run("report run")),
            "run/prefixes.csv: file, expected a readable regular file, got none");
}

// ---- Where they cannot be written

TEST(CliFiles, never_go_into_a_folder_that_holds_something) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  fs::create_directory(kvcheck / "taken");
  write_bytes(kvcheck / "taken/notes.txt", "mine");
  EXPECT_EQ(complaint(kvcheck.run("verify gen:one-token:1 --out taken")),
            "taken: folder is not empty, expected a new or empty folder, got 1 entry");
  EXPECT_THAT(files_in(kvcheck / "."), ElementsAre("taken", "taken/notes.txt"));
  EXPECT_EQ(read_bytes(kvcheck / "taken/notes.txt"), "mine");
}

TEST(CliFiles, need_a_place) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  write_bytes(kvcheck / "file", "");
  EXPECT_EQ(complaint(kvcheck.run("verify gen:one-token:1 --out file")),
            "file: output, expected a new or empty folder, got a file");
  EXPECT_EQ(complaint(kvcheck.run("verify gen:one-token:1 --out file/run")),
            "file/run: output, expected a place to write to, got not a directory");
  EXPECT_EQ(complaint(kvcheck.run("verify gen:one-token:1 --out /proc/run")),
            "/proc/run: output, expected a place to write to, got no such file or directory");
  write_bytes(kvcheck / "kvcheck-runs", "");
  EXPECT_EQ(complaint(kvcheck.run("verify gen:one-token:1")),
            "kvcheck-runs: output, expected a place to write to, got not a directory");
  EXPECT_THAT(files_in(kvcheck / "."), ElementsAre("file", "kvcheck-runs"));
}

void expect_full_stdout_is_an_error(const TestCommand& kvcheck, const std::string& command) {
  const CommandResult result = kvcheck.run(command, {.out = "/dev/full"});
  EXPECT_EQ(result.exit_code, kExitUsage) << command;
  EXPECT_EQ(last_line(result.err),
            "kvcheck: stdout: cannot be written, expected a writable output, got No space left on "
            "device")
      << command;
  EXPECT_THAT(commands_in(result.err, "kvcheck: "), SizeIs(1)) << command;
}

TEST(CliFiles, a_full_stdout_is_an_error) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  expect_full_stdout_is_an_error(kvcheck, "verify gen:one-token:1 --out run");
  expect_full_stdout_is_an_error(kvcheck, "report run");
  expect_full_stdout_is_an_error(kvcheck, "inspect gen:one-token:1");
}

TEST(CliFiles, a_full_stdout_is_an_error_for_help_too) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  expect_full_stdout_is_an_error(kvcheck, "--help");
  expect_full_stdout_is_an_error(kvcheck, "verify --help");
  expect_full_stdout_is_an_error(kvcheck, "--version");
}

// The file would otherwise get the number of the stream, and what is said there would land in it.
TEST(CliFiles, a_closed_stderr_writes_nothing_into_the_files_of_a_run) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult result =
      kvcheck.shell("kvcheck verify gen:one-token:1 --no-stored --out run 2>&-");
  EXPECT_EQ(result.exit_code, kExitAgree) << everything(result);
  EXPECT_THAT(read_bytes(kvcheck / "run/prefixes.csv"), StartsWith("case,model,engine,"));
}

TEST(CliFiles, a_stderr_that_takes_nothing_changes_no_exit_code) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  for (const std::string stream : {"2>&-", "2>/dev/full"}) {
    EXPECT_EQ(kvcheck.shell("kvcheck verify nope " + stream).exit_code, kExitUsage) << stream;
  }
}

TEST(CliFiles, on_a_full_disk_none_is_half_written) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult result = kvcheck.run(
      "verify gen:plain:1 --operations none --csv full --out run", {.file_bytes_max = 20'000});
  EXPECT_EQ(result.exit_code, kExitUsage) << everything(result);
  EXPECT_THAT(last_line(result.out), StartsWith("verdict: agree ("));
  EXPECT_EQ(last_line(result.err),
            "kvcheck: run/prefixes.csv: output, expected a place to write to, got file too large");
  EXPECT_THAT(files_in(kvcheck / "run"), ElementsAre("manifest.json"));
}

TEST(CliFiles, on_a_disk_without_room_for_the_manifest_there_are_none) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult result = kvcheck.run("verify gen:plain:1 --out run", {.file_bytes_max = 100});
  EXPECT_EQ(complaint(result),
            "run/manifest.json: output, expected a place to write to, got file too large");
  EXPECT_THAT(files_in(kvcheck / "run"), SizeIs(0));
}

TEST(CliFiles, that_cannot_be_written_at_the_end_do_not_hide_what_was_found) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  for (const std::string command :
       {"verify gen:one-token:1 --no-stored", "faults gen:one-token:1 --fault pos-decode-reset"}) {
    const CommandResult result = kvcheck.run(command + " --out run", {.file_bytes_max = 1'500});
    EXPECT_EQ(result.exit_code, kExitUsage) << everything(result);
    EXPECT_THAT(last_line(result.out), StartsWith("verdict: ")) << everything(result);
    EXPECT_THAT(last_line(result.err), EndsWith("got file too large"));
    EXPECT_THAT(result.out, Not(HasSubstr("files: ")));
    fs::remove_all(kvcheck / "run");
  }
  for (const std::string command :
       {"audit gen:plain:1 --tokens 0,1 --trace file", "generate gen:plain:1 --tokens 0 --csv file",
        "cost gen:plain:1 --csv file"}) {
    const CommandResult result = kvcheck.run(command, {.file_bytes_max = 100});
    EXPECT_EQ(result.exit_code, kExitUsage) << everything(result);
    EXPECT_GT(result.out.size(), 100U) << everything(result);
    EXPECT_THAT(last_line(result.err), EndsWith("got file too large"));
    EXPECT_FALSE(fs::exists(kvcheck / "file"));
  }
}

// ---- Signals

TEST(CliFiles, are_complete_after_an_interruption) {
  const auto first_check_done = [](const CommandResult& so_far) {
    return so_far.err.find(": check 1 of ") != std::string::npos;
  };
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const TestCommand kvcheck(KVCHECK_BINARY);
    const CommandResult result =
        kvcheck.run("verify gen:plain:1 --prefixes random:5000 --schedules all --out run",
                    {.signal = signal, .ready = first_check_done});
    EXPECT_EQ(result.exit_code, kExitGaveUp) << everything(result);
    EXPECT_THAT(last_line(result.out), StartsWith("verdict: agree, interrupted ("));
    const RunSummary summary = read_summary(kvcheck / "run/summary.json");
    EXPECT_TRUE(summary.interrupted);
    EXPECT_GT(summary.compared.cases, 0);
    EXPECT_THAT(files_in(kvcheck / "run"),
                ElementsAre("junit.xml", "manifest.json", "prefixes.csv", "summary.json"));
  }
}

// nohup has the signal ignored, so that a run outlives its terminal.
TEST(CliFiles, of_a_run_under_nohup_do_not_end_with_the_terminal) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult result = kvcheck.shell(
      "trap '' HUP; kvcheck verify gen:plain:1 --prefixes random:200 --out run & run=$!; "
      "while ! test -e run/manifest.json; do sleep 0.01; done; kill -HUP $run; wait $run");
  EXPECT_EQ(result.exit_code, kExitAgree) << everything(result);
  EXPECT_FALSE(read_summary(kvcheck / "run/summary.json").interrupted);
}

TEST(CliFiles, that_a_killed_run_leaves_are_the_manifest_and_no_summary) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const fs::path manifest = kvcheck / "run/manifest.json";
  const CommandResult result = kvcheck.run(
      "verify gen:plain:1 --prefixes random:100000 --out run",
      {.signal = SIGKILL, .ready = [&](const CommandResult&) { return fs::exists(manifest); }});
  EXPECT_EQ(result.signal, SIGKILL);
  EXPECT_EQ(json_of(manifest).at("command").at(1), "verify");
  EXPECT_FALSE(fs::exists(kvcheck / "run/summary.json"));
  EXPECT_FALSE(fs::exists(kvcheck / "run/prefixes.csv"));
  EXPECT_EQ(kvcheck.run("report run").exit_code, kExitUsage);
}

// ---- Stored failures

// Check ids of the last run in `run`.
std::vector<std::string> checks_of(const fs::path& run) {
  std::vector<std::string> ids;
  for (const SummaryCheck& check : read_summary(run / "summary.json").checks) {
    ids.push_back(check.id);
  }
  return ids;
}

TEST(CliStored, failures_are_run_first_the_next_time) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  save_diverging_model(kvcheck / "model");
  kvcheck.run("verify model --prefixes random:2 --out first");
  const std::size_t stored = files_in(kvcheck / ".kvcheck/failures").size() - 1;
  EXPECT_GT(stored, 0U);
  EXPECT_THAT(checks_of(kvcheck / "first"), Not(Contains("stored")));

  fs::rename(kvcheck / "model", kvcheck / "moved");  // the hash names the model, not the folder
  const CommandResult second = kvcheck.run("verify moved --prefixes random:1 --out second");
  EXPECT_EQ(second.exit_code, kExitDiverge);
  const SummaryCheck first = read_summary(kvcheck / "second/summary.json").checks.front();
  EXPECT_EQ(first.id, "stored");
  EXPECT_EQ(first.model, "moved");
  EXPECT_EQ(first.cases, static_cast<std::int64_t>(stored));
  EXPECT_EQ(first.verdict, Verdict::diverge);
  const std::vector<PrefixRow> rows = rows_of(kvcheck / "second");
  for (std::size_t i = 0; i < stored; ++i) EXPECT_EQ(rows.at(i).check, "stored");
  EXPECT_EQ(kvcheck.shell(rows.front().reproduce).exit_code, kExitDiverge);
  EXPECT_THAT(split(second.out, '\n').at(1), StartsWith("stored "));
}

TEST(CliStored, failures_are_skipped_when_asked) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  save_diverging_model(kvcheck / "model");
  kvcheck.run("verify model --prefixes random:1 --out first");
  kvcheck.run("verify model --prefixes random:1 --no-stored --out second");
  kvcheck.run("verify gen:one-token:1 --out other");
  EXPECT_THAT(checks_of(kvcheck / "second"), Not(Contains("stored")));
  EXPECT_THAT(checks_of(kvcheck / "other"), Not(Contains("stored")));
}

TEST(CliStored, nothing_that_only_an_own_tolerance_calls_a_failure) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult result =
      kvcheck.run("verify gen:wide:1 --prefixes random:1 --tolerance abs:0 --out run");
  EXPECT_EQ(result.exit_code, kExitDiverge);
  EXPECT_FALSE(fs::exists(kvcheck / ".kvcheck"));
}

TEST(CliStored, failures_that_cannot_be_read_are_named) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  save_diverging_model(kvcheck / "model");
  kvcheck.run("verify model --prefixes random:1 --out first");
  const std::string name = ".kvcheck/failures/" + files_in(kvcheck / ".kvcheck/failures").back();
  const std::string text = read_bytes(kvcheck / name);
  write_bytes(kvcheck / name, "{");
  EXPECT_EQ(complaint(kvcheck.run("verify model --out second")),
            name +
                ": malformed JSON at byte 2 (line 1, column 2), expected JSON, got the end of "
                "the text");
  write_bytes(kvcheck / name, replaced(text, {"\"sha256\": \"", "\"sha256\": \"0"}));
  EXPECT_THAT(complaint(kvcheck.run("verify model --out second")),
              StartsWith(name + ": another model named model, expected SHA-256 0"));
  EXPECT_FALSE(fs::exists(kvcheck / "second"));
}

// A disk that is full or a place that is taken must not hide what a run finds.
TEST(CliStored, failures_that_cannot_be_kept_are_told_of_once) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  save_diverging_model(kvcheck / "model");
  write_bytes(kvcheck / ".kvcheck", "");
  const CommandResult result = kvcheck.run("verify model --prefixes random:1 --out run");
  EXPECT_EQ(result.exit_code, kExitDiverge) << everything(result);
  const std::vector<std::string> told = commands_in(result.err, "kvcheck: ");
  ASSERT_THAT(told, SizeIs(1)) << result.err;
  EXPECT_THAT(told.front(),
              MatchesRegex("kvcheck: failures are not kept: \\.kvcheck/failures/.*: output, "
                           "expected a place to write to, got not a directory"));
  EXPECT_GT(repro_lines(result.err).size(), 1U) << "the run goes on";
  EXPECT_EQ(read_summary(kvcheck / "run/summary.json").verdict, Verdict::diverge);
}

TEST(CliStored, failures_that_cannot_be_looked_for_are_bad_input) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  save_diverging_model(kvcheck / "model");
  fs::create_symlink(".kvcheck", kvcheck / ".kvcheck");
  const CommandResult loop = kvcheck.run("verify model --prefixes random:1 --out second");
  EXPECT_EQ(loop.exit_code, kExitUsage) << everything(loop);
  EXPECT_FALSE(fs::exists(kvcheck / "second"));
}

}  // namespace
}  // namespace kvcheck
