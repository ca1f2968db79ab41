// SPDX-License-Identifier: MIT
// A failure that was printed can be run again: from its line, its file and its number.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "engine/generated.h"
#include "engine/model_file.h"
#include "reports/prefix_row.h"
#include "verify/case_text.h"
#include "verify/cli.h"
#include "verify/models.h"
#include "verify/replay.h"
#include "verify/test_command.h"

namespace kvcheck {
namespace {

namespace fs = std::filesystem;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::vector<PrefixRow> failing_rows(const fs::path& run) {
  std::vector<PrefixRow> rows;
  read_prefixes(run / "prefixes.csv", [&](PrefixRow row) {
    if (row.verdict == Verdict::diverge) rows.push_back(std::move(row));
  });
  return rows;
}

// A failing run's first line to paste, without "kvcheck repro ".
std::string first_token(const CommandResult& result) {
  return repro_lines(result.out).at(0).substr(std::string_view("kvcheck repro ").size());
}

// A working folder with a model, and the token of a case that fails on it.
struct Failure {
  TestCommand kvcheck{KVCHECK_BINARY};
  std::string token;

  Failure() {
    save_diverging_model(kvcheck / "model");
    token = first_token(kvcheck.run("verify model --no-stored --prefixes random:2 --out run"));
  }
  // What repro says about the token with a part replaced.
  [[nodiscard]] std::string with(const std::pair<std::string, std::string>& by) const {
    return complaint(kvcheck.run_words({"repro", replaced(token, by)}));
  }
};

// ---- It fails again

// As many logits as the vocabulary has, each of both decoders.
void expect_both_rows(const CommandResult& result, int vocabulary) {
  EXPECT_EQ(result.exit_code, kExitDiverge) << everything(result);
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, ContainsRegex("token  +(uncached|golden)  +(cached|full forward)  +dif"));
  for (int token = 0; token < vocabulary; ++token) {
    EXPECT_THAT(result.out, ContainsRegex(fmt::format("\n +{}  +[-.e0-9]+  +[-.e0-9]+  +", token)));
  }
  EXPECT_THAT(result.out, HasSubstr("  <- largest\n"));
  EXPECT_EQ(last_line(result.out), "verdict: diverge");
}

// Every line that a run prints, on stdout and as it happens.
void expect_lines_fail_again(const TestCommand& kvcheck, const std::string& arguments,
                             int vocabulary) {
  const CommandResult run = kvcheck.run("verify " + arguments + " --no-stored --out run");
  ASSERT_EQ(run.exit_code, kExitDiverge) << everything(run);
  std::vector<std::string> lines = repro_lines(run.err);
  ASSERT_FALSE(lines.empty());
  ASSERT_FALSE(repro_lines(run.out).empty());
  for (const std::string& line : repro_lines(run.out)) lines.push_back(line);
  for (const std::string& line : lines) expect_both_rows(kvcheck.shell(line), vocabulary);
}

TEST(CliRepro, every_printed_line_fails_again) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  save_diverging_model(kvcheck / "model");
  expect_lines_fail_again(kvcheck, "model --prefixes random:2", 11);
}

TEST(CliRepro, lines_of_a_generated_model_fail_again) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  expect_lines_fail_again(kvcheck, "gen:wide:1 --seed 7 --prefixes random:2 --tolerance abs:0", 40);
}

// Prefixes computed side by side are rounded otherwise than alone.
TEST(CliRepro, lines_of_a_whole_vocabulary_fail_again) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  save_model(kvcheck / "model", wide_model(3));
  expect_lines_fail_again(kvcheck, "model --prefixes all --tolerance abs:0", 3);
}

TEST(CliRepro, lines_about_golden_logits_fail_again) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  save_model(kvcheck / "model", random_model(tiny_config(), WeightScales{}, 1));
  constexpr std::size_t kPrefixes = 2 + 4 + 8 + 16;
  write_bytes(kvcheck / "model" / "golden.f64", std::string(kPrefixes * 2 * sizeof(double), '\0'));
  expect_lines_fail_again(kvcheck, "model --prefixes all", 2);
}

// Rows whose embeddings differ from 1 by little, so that the first norm scales their rounding up.
Model<float> ill_conditioned(Config config) {
  config.norm = Norm::layer;
  config.norm_epsilon = 1e-12;
  config.output = Output::separate;
  Model<float> model = random_model(config, WeightScales{}, 1);
  model.embedding = (1.0F + 0x1p-14F * model.embedding.array()).matrix();
  return model;
}

// Rounded to float32, the rows would not show what decided.
TEST(CliRepro, of_a_case_decided_in_float64_shows_all_digits) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  save_model(kvcheck / "model", ill_conditioned(wide_model(3).config));
  const CommandResult run =
      kvcheck.run("verify model --prefixes random:2 --arithmetic matrix --csv full --out run");
  std::vector<std::string> lines;
  read_prefixes(kvcheck / "run" / "prefixes.csv", [&](PrefixRow row) {
    if (row.mark == Mark::widened) lines.push_back(std::move(row.reproduce));
  });
  ASSERT_FALSE(lines.empty()) << everything(run);
  const CommandResult result = kvcheck.shell(lines.front());
  EXPECT_THAT(result.out, ContainsRegex("\nlogits after position [0-3] in f64\n"));
  // More digits than a float has.
  EXPECT_THAT(result.out, ContainsRegex("\n +0  +-?[0-9.]{14,}[-e0-9]*  +-?[0-9.]{14,}"));
  EXPECT_THAT(result.out, HasSubstr("(widened)\n"));
}

TEST(CliRepro, lines_need_no_quotes) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  save_diverging_model(kvcheck / "a model, it's $HOME; `ls` %2c #1");
  const CommandResult run =
      kvcheck.run_words({"verify", "a model, it's $HOME; `ls` %2c #1", "--prefixes", "random:1"});
  ASSERT_FALSE(repro_lines(run.out).empty()) << everything(run);
  expect_both_rows(kvcheck.shell(repro_lines(run.out).front()), 11);
}

// A path is bytes; neither UTF-8 nor anything printable is asked of them.
TEST(CliRepro, lines_of_a_path_in_no_encoding_fail_again) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const std::string name = "m\xff %41'\x1b[31m";
  save_diverging_model(kvcheck / name);
  const CommandResult run =
      kvcheck.run_words({"verify", name, "--prefixes", "random:1", "--out", "run"});
  EXPECT_EQ(run.exit_code, kExitDiverge) << everything(run);
  ASSERT_FALSE(repro_lines(run.out).empty()) << everything(run);
  expect_both_rows(kvcheck.shell(repro_lines(run.out).front()), 11);
  expect_both_rows(kvcheck.run("repro run/failures/1.json"), 11);
  const CommandResult again = kvcheck.shell(commands_in(run.out, "kvcheck verify ").at(0));
  EXPECT_EQ(again.exit_code, kExitDiverge) << everything(again);
  const CommandResult stored =
      kvcheck.run_words({"verify", name, "--prefixes", "random:1", "--out", "second"});
  EXPECT_THAT(stored.out, HasSubstr("\nstored "));
  for (const std::string& text :
       {run.out, run.err, kvcheck.run_words({"inspect", name}).out,
        kvcheck.run("repro run/failures/1.json").out, read_bytes(kvcheck / "run/prefixes.csv")}) {
    EXPECT_EQ(text.find_first_of("\xff\x1b"), std::string::npos) << text;
  }
}

TEST(CliRepro, lines_of_the_csv_find_the_same_difference) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  save_model(kvcheck / "model", wide_model(3));
  kvcheck.run("verify model --prefixes all --tolerance abs:0 --out run");
  const std::vector<PrefixRow> rows = failing_rows(kvcheck / "run");
  for (std::size_t i = 0; i < rows.size(); i += 1 + rows.size() / 40) {
    const CommandResult again = kvcheck.shell(rows[i].reproduce);
    EXPECT_THAT(again.out, HasSubstr(fmt::format("\nlargest difference {:.6g}, ",
                                                 rows[i].max_abs_difference.value())))
        << rows[i].reproduce;
  }
}

TEST(CliRepro, file_of_a_failure_fails_again) {
  const Failure failure;
  const CommandResult result = failure.kvcheck.run("repro run/failures/1.json");
  expect_both_rows(result, 11);
  EXPECT_EQ(result.out, failure.kvcheck.run_words({"repro", failure.token}).out);
}

TEST(CliRepro, case_that_agrees_exits_with_0) {
  const Failure failure;
  const CommandResult result = failure.kvcheck.run_words(
      {"repro", replaced(failure.token, {"policy=abs:0", "policy=abs:1"})});
  EXPECT_EQ(result.exit_code, kExitAgree);
  EXPECT_EQ(last_line(result.out), "verdict: agree");
}

// ---- Operations

std::string operations_token(const std::string& model, const std::string& settings,
                             const std::string& operations) {
  return fmt::format(
      "kv1:check=operations,model={},sha256={},engine=builtin,scalar=f32,{},seed=1,operations={}",
      model, model_sha256(load_model(model).weights).substr(0, 8), settings, operations);
}

const std::string kOnPages = "arithmetic=row,cache=paged:2,policy=exact";

TEST(CliRepro, of_operations_shows_every_step) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult result = kvcheck.run_words(
      {"repro", operations_token("gen:windowed:1", kOnPages,
                                 "open.feed:0x5.open.prompt:1@0x5+2.truncate:1x3.feed:1x2")});
  EXPECT_EQ(result.exit_code, kExitAgree) << everything(result);
  EXPECT_THAT(result.out,
              StartsWith("case       operations on gen:windowed:1 (f32, row arithmetic)\n"
                         "cache      paged:2\n"
                         "operations 6\n"
                         "policy     exact\n"
                         "\n"
                         "step  operation       sequence  rows  next\n"
                         "   1  open                   0     0     0\n"));
  EXPECT_THAT(result.out, HasSubstr("\n   4  prompt:1@0x5+2         1     7     7  blocks "));
  EXPECT_THAT(result.out, ContainsRegex("blocks [0-9,]+; 1 row compared, same bits\n"));
  EXPECT_THAT(result.out, ContainsRegex("\n   6  feed:1x2 .* 2 rows compared, same bits\n"));
  EXPECT_EQ(last_line(result.out), "verdict: agree");
}

TEST(CliRepro, lines_of_failing_operations_fail_again) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  expect_lines_fail_again(
      kvcheck, "gen:wide:1 --operations random:2 --arithmetic matrix --tolerance abs:1e-12", 40);
}

TEST(CliRepro, of_failing_operations_ends_with_the_row_that_differs) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult result = kvcheck.run_words(
      {"repro", operations_token("gen:wide:1", "arithmetic=matrix,cache=flat,policy=abs:0",
                                 "open.feed:0x16.reset:0.close:0")});
  EXPECT_EQ(result.exit_code, kExitDiverge) << everything(result);
  EXPECT_THAT(
      result.out,
      ContainsRegex("\n   2  feed:0x16 .*16 rows compared, largest difference [-.e0-9]+ at"));
  EXPECT_THAT(result.out, HasSubstr("\n      2 further operations not run\n"));
  EXPECT_THAT(result.out,
              ContainsRegex("\nlogits after position [0-9]+, operation 2, feed:0x16\n"));
  expect_both_rows(result, 40);
}

TEST(CliRepro, shows_the_signature_of_an_engine_instead_of_a_diagnosis) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const std::string faulty =
      operations_token("tiny:rotary:1", "arithmetic=row,cache=flat,policy=exact",
                       "open.feed:0x1.feed:0x1") +
      ",fault=pos-decode-reset:onset1";
  const CommandResult wrong = kvcheck.run_words({"repro", faulty, "--signature"});
  EXPECT_EQ(wrong.exit_code, kExitDiverge) << everything(wrong);
  EXPECT_THAT(wrong.out, HasSubstr("\n  first wrong length, token by token       2\n"));
  EXPECT_THAT(wrong.out,
              ContainsRegex("another +right\n1[2-6] of 16 answers as pos-decode-reset:onset1"));
  EXPECT_THAT(wrong.out, Not(HasSubstr("explained")));

  const std::string right = operations_token(
      "tiny:rotary:1", "arithmetic=row,cache=flat,policy=exact", "open.feed:0x1.feed:0x1");
  EXPECT_THAT(kvcheck.run_words({"repro", right, "--signature"}).out,
              HasSubstr("alone:\nnothing looks wrong\n"));
}

TEST(CliRepro, tells_of_a_refusal) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  // The ring of the layer with a window of one row has forgotten what the roll back would need.
  const CommandResult result = kvcheck.run_words(
      {"repro", operations_token("gen:windowed:1", "arithmetic=row,cache=ring,policy=exact",
                                 "open.feed:0x8.truncate:0x3.feed:0x1")});
  EXPECT_EQ(result.exit_code, kExitAgree) << everything(result);
  EXPECT_THAT(result.out, HasSubstr("\n   3  truncate:0x3\n      refused\n"));
}

TEST(CliRepro, refuses_operations_that_do_not_fit) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const auto said = [&](const std::string& operations) {
    return complaint(
        kvcheck.run_words({"repro", operations_token("gen:windowed:1", kOnPages, operations)}));
  };
  EXPECT_THAT(said("open.feed:0x10"), StartsWith("case: operation 2, feed:0x10, expected one that "
                                                 "is valid there, got "));
  EXPECT_EQ(said("open.feed:0x3.shift:0x0-1"),
            "case: operation 3, shift:0x0-1, expected one that is valid there, got shift is not "
            "offered");
  EXPECT_THAT(said("feed:0x1"), StartsWith("case: operation 1, feed:0x1, expected "));
  EXPECT_THAT(said("open.jump:0"), StartsWith("token: "));
  EXPECT_THAT(said("open.feed:0x2,tokens=1"),
              StartsWith("token: unknown field, expected a field of a case, got tokens"));
}

TEST(CliRepro, failing_operations_are_stored_and_run_first) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  save_diverging_model(kvcheck / "model");
  const CommandResult run =
      kvcheck.run("verify model --operations random:4 --cache-kind growing --out run");
  ASSERT_EQ(run.exit_code, kExitDiverge) << everything(run);
  ASSERT_FALSE(files_in(kvcheck / ".kvcheck").empty());
  const CommandResult again = kvcheck.run("verify model --prefixes random:1 --out again");
  EXPECT_THAT(again.out, HasSubstr("\nstored "));
  EXPECT_THAT(read_bytes(kvcheck / "again/operations.csv"),
              HasSubstr(",growing,f32,matrix,stored,"));
}

// ---- Promotion

TEST(CliPromote, needs_a_checkout) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const std::string token = operations_token("gen:windowed:1", kOnPages, "open.feed:0x1");
  EXPECT_EQ(complaint(kvcheck.run_words({"repro", token, "--promote"})),
            "fixtures/regressions: no such folder (run it in a checkout), expected a folder, got "
            "none");
}

TEST(CliPromote, keeps_the_case_once) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  fs::create_directories(kvcheck / "fixtures/regressions");
  const std::string token = operations_token("gen:windowed:1", kOnPages, "open.feed:0x1");
  for (int i = 0; i < 2; ++i) {
    const CommandResult result = kvcheck.run_words({"repro", token, "--promote"});
    EXPECT_EQ(result.exit_code, kExitAgree) << everything(result);
    EXPECT_THAT(result.out, ContainsRegex("\npromoted to fixtures/regressions/[0-9a-f]+.json\n"));
    ASSERT_THAT(files_in(kvcheck / "fixtures/regressions"), testing::SizeIs(1));
  }
  const std::string name = "fixtures/regressions/" + files_in(kvcheck / "fixtures/regressions")[0];
  EXPECT_EQ(kvcheck.run_words({"repro", name}).out, kvcheck.run_words({"repro", token}).out);
  // Another case under that name is not written over.
  const std::string text =
      replaced(read_bytes(kvcheck / name), {"open.feed:0x1", std::string("open.feed:0x2")});
  write_bytes(kvcheck / name, text);
  EXPECT_THAT(complaint(kvcheck.run_words({"repro", token, "--promote"})),
              HasSubstr(": another case of that name, expected the same case, got another one"));
  EXPECT_EQ(read_bytes(kvcheck / name), text);
}

TEST(CliPromote, takes_the_case_from_the_stored_failures) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  fs::create_directories(kvcheck / "fixtures/regressions");
  const std::string token = operations_token("gen:windowed:1", kOnPages, "open.feed:0x1");
  kvcheck.run_words({"repro", token, "--promote"});
  const std::string name = files_in(kvcheck / "fixtures/regressions").at(0);
  const fs::path stored =
      kvcheck / (".kvcheck/failures/" +
                 model_sha256(load_model("gen:windowed:1").weights).substr(0, 8) + "-builtin");
  fs::create_directories(stored);
  fs::copy_file(kvcheck / ("fixtures/regressions/" + name), stored / name);
  const CommandResult result = kvcheck.run_words({"repro", token, "--promote"});
  EXPECT_THAT(result.out, HasSubstr(", no longer a stored failure\n"));
  EXPECT_FALSE(fs::exists(stored / name));
}

TEST(CliPromote, refuses_a_model_that_only_this_machine_has) {
  const Failure failure;
  fs::create_directories(failure.kvcheck / "fixtures/regressions");
  EXPECT_EQ(complaint(failure.kvcheck.run_words({"repro", failure.token, "--promote"})),
            "--promote: a model that only this machine has, expected a bundled or generated one, "
            "got model");
  EXPECT_TRUE(files_in(failure.kvcheck / "fixtures/regressions").empty());
}

// ---- The number of a random sequence

TEST(CliIndex, runs_the_failing_sequence_alone) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult run =
      kvcheck.run("verify gen:wide:1 --seed 3 --prefixes random:5 --tolerance abs:0");
  const std::size_t at = run.out.find(" (seed 3, index ");
  ASSERT_NE(at, std::string::npos) << everything(run);
  const auto index = std::stoull(run.out.substr(at + 16));
  EXPECT_LT(index, 5U);
  EXPECT_THAT(run.err, HasSubstr(fmt::format(" (seed 3, index {})", index)));

  const CommandResult alone = kvcheck.run(
      fmt::format("verify gen:wide:1 --seed 3 --index {} --tolerance abs:0 --out alone", index));
  EXPECT_EQ(alone.exit_code, kExitDiverge) << everything(alone);
  EXPECT_EQ(repro_lines(alone.out).front(), repro_lines(run.out).front());
  const Config config = generate_model("gen:wide:1").config;
  const std::string sequence = fmt::format(
      "{} ", fmt::join(random_tokens(config.vocabulary, config.context, 3, index), " "));
  read_prefixes(kvcheck / "alone/prefixes.csv",
                [&](const PrefixRow& row) { EXPECT_THAT(sequence, StartsWith(row.tokens + " ")); });
}

// ---- A planted fault

// The token of a case on chapter8, with or without a fault.
std::string faulty_token(const std::string& fault) {
  const ModelData model = load_model("chapter8");
  const Case subject{.check = "schedules",
                     .model = "chapter8",
                     .model_hash = short_hash(model),
                     .arithmetic = Arithmetic::row,
                     .policy = Exact{},
                     .tokens = {0, 2, 4},
                     .schedule = {2, 1},
                     .fault = fault};
  return to_token(subject);
}

TEST(CliReproFault, is_planted_and_said) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  EXPECT_EQ(kvcheck.run_words({"repro", faulty_token("")}).exit_code, kExitAgree);
  const CommandResult faulty =
      kvcheck.run_words({"repro", faulty_token("pos-decode-offset:onset1:amount-1")});
  EXPECT_EQ(faulty.exit_code, kExitDiverge) << everything(faulty);
  EXPECT_THAT(faulty.out, HasSubstr("\nfault      pos-decode-offset:onset1:amount-1 (feeds to a "
                                    "cache stand some positions too far)\n"));
  EXPECT_THAT(faulty.out, Not(HasSubstr("changed nothing")));
  const CommandResult inert =
      kvcheck.run_words({"repro", faulty_token("pos-decode-offset:onset3:amount-1")});
  EXPECT_EQ(inert.exit_code, kExitAgree) << everything(inert);
  EXPECT_THAT(inert.out, HasSubstr("\nthe fault changed nothing in this case\n"));
}

TEST(CliReproFault, that_cannot_be_planted_is_bad_input) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const auto said = [&](const std::string& fault) {
    return complaint(kvcheck.run_words({"repro", faulty_token(fault)}));
  };
  EXPECT_EQ(said("pos-nowhere"),
            "token: unknown fault, expected an id that kvcheck faults --list shows, got "
            "pos-nowhere");
  EXPECT_THAT(said("rope-backwards"),
              StartsWith("case: rope-backwards on chapter8, expected a model with: "
                         "rotary; cache flat, got learned+positions+"));
}

TEST(CliReproFault, is_not_promoted) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  EXPECT_EQ(complaint(kvcheck.run_words(
                {"repro", "--promote", faulty_token("pos-decode-offset:onset1:amount-1")})),
            "--promote: case with a planted fault, expected one without, got "
            "pos-decode-offset:onset1:amount-1");
}

// Every model of the default set has a million numbers of its own, however many are run.
TEST(CliIndex, counts_on_through_the_default_set) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const std::vector<std::string> names = default_models(4);
  for (const auto& [options, model] :
       {std::pair{"--index 0", 0}, std::pair{"--index 999999", 0}, std::pair{"--index 1000000", 1},
        std::pair{"--index 3000003 --prefixes random:2", 3},
        std::pair{"--index 21999999 --jobs 2", 21}}) {
    const CommandResult result = kvcheck.run(fmt::format("verify --seed 4 {}", options));
    EXPECT_EQ(result.exit_code, kExitAgree) << everything(result);
    EXPECT_THAT(result.out, HasSubstr(names[static_cast<std::size_t>(model)])) << options;
  }
  EXPECT_EQ(complaint(kvcheck.run("verify --seed 4 --index 22000000")),
            "--index: number of a random sequence, expected 0 to 21999999, got 22000000");
}

// Token sequences of a run by model.
std::map<std::string, std::set<std::string>> sequences_of(const fs::path& run) {
  std::map<std::string, std::set<std::string>> found;
  read_prefixes(run / "prefixes.csv", [&](const PrefixRow& row) {
    if (row.check == "causality") found[row.model].insert(row.tokens);
  });
  return found;
}

TEST(CliIndex, commands_of_failures_run_their_sequence_alone) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult run = kvcheck.run(
      "verify --seed 3 --prefixes random:3 --arithmetic matrix --tolerance abs:0 --out run");
  const auto all = sequences_of(kvcheck / "run");
  std::set<std::string> lines;
  for (const std::string& line : commands_in(run.out, "kvcheck verify ")) lines.insert(line);
  std::set<std::string> models;
  int number = 0;
  for (const std::string& line : lines) {
    const std::string out = fmt::format("alone{}", ++number);
    EXPECT_EQ(kvcheck.shell(line + " --out " + out).exit_code, kExitDiverge) << line;
    const auto alone = sequences_of(kvcheck / out);
    ASSERT_EQ(alone.size(), 1U) << line;
    const auto& [model, sequences] = *alone.begin();
    ASSERT_EQ(sequences.size(), 1U) << line;
    EXPECT_TRUE(all.at(model).contains(*sequences.begin())) << line;
    models.insert(model);
    // The number alone says which model.
    const std::string by_number =
        replaced(line, {fmt::format("verify {} ", model), std::string("verify ")});
    EXPECT_EQ(kvcheck.shell(by_number + " --out " + out + "b").exit_code, kExitDiverge);
    EXPECT_EQ(sequences_of(kvcheck / (out + "b")), alone) << by_number;
  }
  EXPECT_TRUE(models.contains("chapter8"));
  EXPECT_GT(models.size(), 2U);
}

// ---- Another model

TEST(CliRepro, finds_a_model_that_moved) {
  const Failure failure;
  fs::rename(failure.kvcheck / "model", failure.kvcheck / "moved");
  EXPECT_EQ(complaint(failure.kvcheck.run_words({"repro", failure.token})),
            "model: model, expected a folder or a .gguf file, got none");
  expect_both_rows(failure.kvcheck.run_words({"repro", failure.token, "--model", "moved"}), 11);
  expect_both_rows(failure.kvcheck.run_words({"repro", "run/failures/1.json", "--model=moved"}),
                   11);
}

TEST(CliRepro, refuses_another_model) {
  const Failure failure;
  const std::string here = model_sha256(wide_model(11)).substr(0, 8);
  const std::string other = model_sha256(wide_model(3)).substr(0, 8);
  save_model(failure.kvcheck / "other", wide_model(3));
  EXPECT_EQ(complaint(failure.kvcheck.run_words({"repro", failure.token, "--model", "other"})),
            fmt::format("case: another model named other, expected SHA-256 {}..., got {}...", here,
                        other));
  EXPECT_EQ(failure.with({"sha256=" + here, "sha256=00000000"}),
            fmt::format("case: another model named model, expected SHA-256 00000000..., got {}...",
                        here));
  save_model(failure.kvcheck / "model", wide_model(3));
  EXPECT_THAT(complaint(failure.kvcheck.run("repro run/failures/1.json")),
              StartsWith("case: another model named model, "));
}

// ---- Bad tokens and files

TEST(CliRepro, refuses_a_token_with_a_bad_field) {
  const Failure failure;
  EXPECT_EQ(failure.with({"kv1:", "kv2:"}), "token: token version, expected kv1:, got kv2:");
  EXPECT_EQ(failure.with({"check=random-prefixes", "check=nope"}),
            "token: unknown check, expected one of corpus-prefixes, all-prefixes, random-prefixes, "
            "file-prefixes, exact, contract, noise, causality, golden, schedules, accounting, "
            "generation, operations, got nope");
  EXPECT_EQ(failure.with({"engine=builtin", "engine=exec:sh"}),
            "token: engine, expected builtin, got exec:sh");
  EXPECT_EQ(failure.with({"policy=abs:0", "policy=abs:nan"}),
            "token: limit, expected a finite number that is not negative, got nan");
  EXPECT_EQ(failure.with({"scalar=f32", "scalar=f16"}),
            "token: scalar, expected f32 or f64, got f16");
  EXPECT_EQ(failure.with({"seed=1", "seed=-1"}), "token: seed, expected a whole number, got -1");
  EXPECT_EQ(failure.with({"seed=1", "salt=1"}), "token: missing field, expected seed, got nothing");
  EXPECT_EQ(failure.with({"seed=1", "seed=1,salt=1"}),
            "token: unknown field, expected a field of a case, got salt");
  EXPECT_EQ(failure.with({"seed=1", "seed=1,seed=2"}),
            "token: repeated field, expected each once, got seed=2");
  EXPECT_EQ(failure.with({"model=model", "model=%6"}),
            "token: percent-encoding, expected two hex digits, got 6");
}

TEST(CliRepro, refuses_tokens_and_schedules_that_do_not_fit) {
  const Failure failure;
  EXPECT_EQ(failure.with({"tokens=", "tokens=11."}),
            "case: token outside the vocabulary, expected an id from 0 to 10, got 11");
  EXPECT_EQ(failure.with({"tokens=", "tokens=-1."}),
            "case: token outside the vocabulary, expected an id from 0 to 10, got -1");
  EXPECT_EQ(failure.with({"tokens=", "tokens=x."}),
            "token: tokens, expected a whole number, got x");
  EXPECT_EQ(failure.with({"tokens=", "tokens=1.1.1."}),
            "case: past the context, expected at most 4 rows, got 5");
  const std::string single =
      "token: schedule of random-prefixes, expected feeds of one token, as 1+1, got ";
  EXPECT_EQ(failure.with({"schedule=1+1", "schedule=1+2"}), single + "1+2");
  EXPECT_EQ(failure.with({"schedule=1+1", "schedule=1+1+1"}),
            "case: schedule, expected 2 tokens in all, got 3");
  EXPECT_EQ(failure.with({"schedule=1+1", "schedule=1+0"}),
            "token: schedule, expected feed lengths joined by +, as 2+1, got 1+0");
  const std::string any =
      replaced(failure.token, {"check=random-prefixes", std::string("check=schedules")});
  EXPECT_EQ(complaint(failure.kvcheck.run_words(
                {"repro", replaced(any, {"schedule=1+1", "schedule=2147483647+2147483647+4"})})),
            "case: schedule, expected 2 tokens in all, got 4294967298");  // 2 in 32 bits
  EXPECT_EQ(failure.with({"check=random-prefixes", "check=causality"}),
            "token: schedule of causality, expected none, got 1+1");
}

TEST(CliRepro, refuses_a_truncated_token) {
  const Failure failure;
  const std::size_t schedule = failure.token.find(",schedule=");
  const auto cut_at = [&](std::size_t length) {
    return complaint(failure.kvcheck.run_words({"repro", failure.token.substr(0, length)}));
  };
  EXPECT_EQ(cut_at(schedule), "token: missing field, expected schedule, got nothing");
  EXPECT_EQ(cut_at(schedule + 6), "token: token, expected KEY=VALUE, got sched");
  EXPECT_EQ(cut_at(2), "token: token version, expected kv1:, got kv");
  for (std::size_t length = 2; length < schedule; ++length) {
    EXPECT_THAT(cut_at(length), Not(StartsWith("exit code"))) << length;
  }
}

TEST(CliRepro, refuses_files_that_hold_no_case) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const auto said = [&](std::string_view text) {
    write_bytes(kvcheck / "case.json", text);
    return complaint(kvcheck.run("repro case.json"));
  };
  EXPECT_EQ(complaint(kvcheck.run("repro missing.json")),
            "missing.json: file, expected a readable regular file, got none");
  EXPECT_EQ(complaint(kvcheck.run("repro .")),
            ".: file, expected a readable regular file, got a folder");
  EXPECT_EQ(said(""),
            "case.json: malformed JSON at byte 1 (line 1, column 1), expected JSON, got "
            "the end of the text");
  EXPECT_EQ(said("[]"), "case.json: case, expected an object, got []");
  EXPECT_EQ(said("{}"), "case.json: case version, expected 1, got nothing");
  EXPECT_EQ(said(R"({"version": 2})"), "case.json: case version, expected 1, got 2");
  EXPECT_EQ(said(R"({"version": 1, "seed": 1})"), "case.json: seed, expected a string, got 1");
  EXPECT_EQ(said(R"({"version": 1})"), "case.json: missing field, expected check, got nothing");
}

}  // namespace
}  // namespace kvcheck
