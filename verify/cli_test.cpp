// SPDX-License-Identifier: MIT
// What the commands answer: exit codes, last lines, reports, and the same bytes every time.
#include "verify/cli.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/generated.h"
#include "engine/model_file.h"
#include "reports/prefix_row.h"
#include "verify/test_command.h"

namespace kvcheck {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;
using testing::UnorderedElementsAre;

std::vector<PrefixRow> rows_of(const fs::path& run) {
  std::vector<PrefixRow> rows;
  read_prefixes(run / "prefixes.csv", [&](PrefixRow row) { rows.push_back(std::move(row)); });
  return rows;
}

json summary_of(const fs::path& run) { return json::parse(read_bytes(run / "summary.json")); }

// All of the summary but what the clock says.
json timeless_summary(const fs::path& run) {
  json summary = summary_of(run);
  for (json& check : summary.at("checks")) check.erase("seconds");
  return summary;
}

// ---- Exit codes

TEST(CliExit, agreement_is_0) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  for (const char* model : {"gen:plain:1", "gen:windowed:1", "gen:one-token:1"}) {
    const CommandResult result = kvcheck.run_words({"verify", model});
    EXPECT_EQ(result.exit_code, kExitAgree) << everything(result);
    EXPECT_THAT(last_line(result.out), StartsWith("verdict: agree (30 checks, "));
    EXPECT_THAT(repro_lines(result.out + result.err), SizeIs(0));
  }
}

TEST(CliExit, a_difference_beyond_the_tolerance_is_1) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult result =
      kvcheck.run("verify gen:wide:1 --prefixes random:2 --tolerance abs:0");
  EXPECT_EQ(result.exit_code, kExitDiverge) << everything(result);
  EXPECT_THAT(last_line(result.out), StartsWith("verdict: diverge ("));
}

TEST(CliExit, a_broken_promise_of_the_model_is_1) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  save_diverging_model(kvcheck / "model");
  const CommandResult result = kvcheck.run("verify model --no-stored");
  EXPECT_EQ(result.exit_code, kExitDiverge) << everything(result);
  EXPECT_THAT(result.out, ContainsRegex("\ncontract +model +matrix .* diverge\n"));
}

// Whatever a processor's rounding, these are not the model's logits.
TEST(CliExit, other_logits_than_the_golden_ones_are_1) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  save_model(kvcheck / "model", random_model(tiny_config(), WeightScales{}, 1));
  constexpr std::size_t kPrefixes = 2 + 4 + 8 + 16;
  write_bytes(kvcheck / "model" / "golden.f64", std::string(kPrefixes * 2 * sizeof(double), '\0'));
  const CommandResult result = kvcheck.run("verify model --prefixes all");
  EXPECT_EQ(result.exit_code, kExitDiverge) << everything(result);
  EXPECT_THAT(result.out, ContainsRegex("\ngolden +model .* diverge\n"));
}

TEST(CliExit, running_out_of_time_is_3) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult result =
      kvcheck.run("verify gen:plain:1 --prefixes random:20000 --time 0 --out run");
  EXPECT_EQ(result.exit_code, kExitGaveUp) << everything(result);
  EXPECT_THAT(last_line(result.out), HasSubstr(", interrupted ("));
  EXPECT_TRUE(summary_of(kvcheck / "run").at("interrupted"));
}

// However fast the machine and small the model.
TEST(CliExit, no_time_at_all_is_always_3) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(kvcheck.run("verify gen:single-context:1 --time 0").exit_code, kExitGaveUp) << i;
  }
}

TEST(CliExit, a_model_whose_logits_are_no_numbers_is_4) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  Model<float> model = random_model(tiny_config(), WeightScales{}, 1);
  std::ranges::fill(model.embedding.reshaped(), 10.0F);
  std::ranges::fill(model.final_norm.scale, 3e38F);
  tie_output(model);
  save_model(kvcheck / "model", model);
  const CommandResult result = kvcheck.run("verify model");
  EXPECT_EQ(result.exit_code, kExitBroken) << everything(result);
  EXPECT_THAT(last_line(result.out), StartsWith("verdict: broken ("));
  EXPECT_THAT(result.out, HasSubstr("; the uncached logits are not finite\n  kvcheck repro "));
}

// A stack that no address space holds stands for a limit on threads, which root does not have.
TEST(CliExit, too_few_threads_are_2) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  for (const std::string options : {"--jobs 1", "--jobs 2 --time 600"}) {
    EXPECT_EQ(complaint(kvcheck.run("verify gen:one-token:1 " + options,
                                    {.stack_bytes = std::uint64_t{1} << 47})),
              "threads: cannot be started, expected at least one besides the first, got none");
  }
}

// The clock runs while models are loaded: of a set, the first is still looked at.
TEST(CliExit, time_that_is_over_ends_the_loading_of_models) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  EXPECT_EQ(kvcheck.run("verify --time 0 --out run").exit_code, kExitGaveUp);
  const json manifest = json::parse(read_bytes(kvcheck / "run/manifest.json"));
  ASSERT_EQ(manifest.at("models").size(), 1U);
  EXPECT_EQ(manifest.at("models").at(0).at("name"), "chapter8");
}

// ---- Help

TEST(CliHelp, lists_every_command) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult result = kvcheck.run("--help");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  for (const char* command : {"verify", "inspect", "repro", "report", "--version"}) {
    EXPECT_THAT(result.out, HasSubstr(fmt::format("\n  {} ", command)));
  }
}

TEST(CliHelp, of_a_command_names_every_option) {
  const std::map<std::string, std::vector<std::string>> options{
      {"verify",
       {"MODEL", "--prefixes", "--schedules", "--arithmetic", "--scalar", "--tolerance", "--seed",
        "--index", "--jobs", "--time", "--out", "--csv", "--no-stored"}},
      {"inspect", {"MODEL"}},
      {"repro", {"CASE", "--model"}},
      {"report", {"RUN"}}};
  const TestCommand kvcheck(KVCHECK_BINARY);
  for (const auto& [command, names] : options) {
    const CommandResult result = kvcheck.run_words({command, "--help"});
    EXPECT_EQ(result.exit_code, 0) << command;
    EXPECT_EQ(result.err, "") << command;
    for (const std::string& name : names) {
      EXPECT_THAT(result.out, HasSubstr(fmt::format("\n  {} ", name))) << command;
    }
  }
}

TEST(CliHelp, comes_before_everything_else) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  EXPECT_EQ(kvcheck.run("verify gen:plain:1 --help").out, kvcheck.run("verify --help").out);
  EXPECT_THAT(files_in(kvcheck / "."), SizeIs(0));
}

TEST(CliHelp, version_is_one_line) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult result = kvcheck.run("--version");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, std::string("kvcheck ") + KVCHECK_VERSION + "\n");
}

// ---- The same bytes every time

TEST(CliVerify, same_seed_same_files) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const std::string command = "verify gen:windowed:1 --seed 7 --tolerance abs:0 --out ";
  EXPECT_EQ(kvcheck.run(command + "a").exit_code, kvcheck.run(command + "b").exit_code);
  EXPECT_EQ(read_bytes(kvcheck / "a/prefixes.csv"), read_bytes(kvcheck / "b/prefixes.csv"));
  EXPECT_EQ(timeless_summary(kvcheck / "a"), timeless_summary(kvcheck / "b"));
  EXPECT_EQ(files_in(kvcheck / "a"), files_in(kvcheck / "b"));
  kvcheck.run("verify gen:windowed:1 --seed 8 --tolerance abs:0 --out other");
  EXPECT_NE(read_bytes(kvcheck / "a/prefixes.csv"), read_bytes(kvcheck / "other/prefixes.csv"));
}

TEST(CliVerify, any_number_of_threads_gives_the_same_files) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  save_diverging_model(kvcheck / "model");
  const std::string command = "verify model --no-stored --csv full --out ";
  kvcheck.run(command + "one --jobs 1");
  const std::string rows = read_bytes(kvcheck / "one/prefixes.csv");
  for (const char* jobs : {"2", "4", "7"}) {
    const std::string run = std::string("jobs") + jobs;
    kvcheck.run(command + run + " --jobs " + jobs);
    EXPECT_TRUE(read_bytes(kvcheck / run / "prefixes.csv") == rows) << jobs;
    EXPECT_EQ(timeless_summary(kvcheck / run), timeless_summary(kvcheck / "one")) << jobs;
    EXPECT_EQ(files_in(kvcheck / run), files_in(kvcheck / "one")) << jobs;
  }
}

// ---- What is run

// The checks of the summary, each with its arithmetic and scalar.
std::set<std::string> checks_run(const TestCommand& kvcheck, const std::string& arguments) {
  const CommandResult result = kvcheck.run("verify gen:plain:1 --out run " + arguments);
  EXPECT_EQ(result.exit_code, kExitAgree) << everything(result);
  std::set<std::string> found;
  const json summary = summary_of(kvcheck / "run");
  for (const json& check : summary.at("checks")) {
    found.insert(fmt::format("{} {} {}", check.at("id").get<std::string>(),
                             check.at("arithmetic").get<std::string>(),
                             check.at("scalar").get<std::string>()));
  }
  fs::remove_all(kvcheck / "run");
  return found;
}

TEST(CliVerify, naming_one_kind_of_option_runs_its_checks_only) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  EXPECT_THAT(
      checks_run(kvcheck, "--schedules decode --arithmetic row"),
      UnorderedElementsAre("schedules row f32", "accounting row f32", "generation row f32"));
  EXPECT_THAT(
      checks_run(kvcheck, "--prefixes random:2 --arithmetic row"),
      UnorderedElementsAre("random-prefixes row f32", "exact row f32", "causality row f32"));
  EXPECT_THAT(checks_run(kvcheck, "--prefixes random:2 --arithmetic matrix --scalar f64"),
              UnorderedElementsAre("random-prefixes matrix f64", "noise matrix f64",
                                   "causality matrix f64"));
  EXPECT_THAT(checks_run(kvcheck, "--prefixes random:2 --schedules single"), SizeIs(12));
}

TEST(CliVerify, every_prefix_of_a_file_is_checked_once) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  save_model(kvcheck / "model", wide_model(11));
  write_bytes(kvcheck / "model" / "vocabulary.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\n");
  write_bytes(kvcheck / "prefixes.txt", "# words or ids\na b c\n0 1 3\r\n\na b\n");
  kvcheck.run("verify model --prefixes prefixes.txt --csv full --out run");
  std::vector<std::string> tokens;
  for (const PrefixRow& row : rows_of(kvcheck / "run")) {
    if (row.check == "file-prefixes" && row.arithmetic == Arithmetic::row) {
      tokens.push_back(row.tokens);
    }
  }
  EXPECT_THAT(tokens, ElementsAre("0", "0 1", "0 1 2", "0 1 3"));
}

TEST(CliVerify, files_of_prefixes_are_read_line_by_line) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  save_model(kvcheck / "model", wide_model(11));
  const auto said = [&](std::string_view text) {
    write_bytes(kvcheck / "p.txt", text);
    return complaint(kvcheck.run("verify model --prefixes p.txt"));
  };
  EXPECT_EQ(said("0 1\n0 zebra\n"), "p.txt:2: token, expected an id, 0 to 10, got \"zebra\"");
  EXPECT_EQ(said("# ids\n0 10\n0 11\n"), "p.txt:3: token id, expected 0 to 10, got 11");
  EXPECT_EQ(said("-1\n"), "p.txt:1: token id, expected 0 to 10, got -1");
  EXPECT_EQ(said(""), "p.txt: sequences, expected at least one, got none");
  EXPECT_EQ(said("\n \n# nothing\n"), "p.txt: sequences, expected at least one, got none");
  write_bytes(kvcheck / "model" / "vocabulary.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\n");
  EXPECT_EQ(said("a b\na zebra\n"),
            "p.txt:2: token, expected a word of the vocabulary or an id, 0 to 10, got \"zebra\"");
}

TEST(CliVerify, chapter_8_agrees_on_all_its_prefixes) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult result = kvcheck.run("verify chapter8 --out run");
  EXPECT_EQ(result.exit_code, kExitAgree) << everything(result);
  const std::map<std::string, int> prefixes{
      {"corpus-prefixes", 11}, {"all-prefixes", 4680}, {"exact", 4680},    {"contract", 4680},
      {"noise", 4680},         {"golden", 4680},       {"schedules", 4680}};
  std::set<std::string> seen;
  const json summary = summary_of(kvcheck / "run");
  for (const json& check : summary.at("checks")) {
    const std::string id = check.at("id");
    seen.insert(id);
    EXPECT_EQ(check.at("verdict"), "agree") << check;
    if (prefixes.contains(id)) {
      EXPECT_EQ(check.at("prefixes"), prefixes.at(id)) << check;
    }
  }
  for (const auto& [id, count] : prefixes) EXPECT_TRUE(seen.contains(id)) << id;
  EXPECT_THAT(result.out, HasSubstr("corpus-prefixes on chapter8 (matrix arithmetic): 11 prefixes, "
                                    "largest difference "));
  EXPECT_THAT(result.out, HasSubstr("; chapter 8 has 4.7684e-06\n"));
}

// ---- Rows of prefixes.csv

using CheckKey = std::pair<std::string, std::string>;  // check, arithmetic

std::map<CheckKey, std::vector<PrefixRow>> by_check(const fs::path& run) {
  std::map<CheckKey, std::vector<PrefixRow>> found;
  for (PrefixRow& row : rows_of(run)) {
    CheckKey key{row.check, name(row.arithmetic)};
    found[key].push_back(std::move(row));
  }
  return found;
}

TEST(CliVerify, full_csv_has_a_row_for_every_case) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  kvcheck.run("verify gen:plain:1 --csv full --out run");
  auto rows = by_check(kvcheck / "run");
  const json summary = summary_of(kvcheck / "run");
  // The rest are operations, which have a file of their own.
  EXPECT_EQ(rows.size(), 12U);
  for (const json& check : summary.at("checks")) {
    if (check.at("id") == kOperationsCheck) continue;
    const auto& of = rows[{check.at("id"), check.at("arithmetic")}];
    EXPECT_EQ(check.at("cases"), of.size()) << check;
    std::set<std::int64_t> cases;
    for (const PrefixRow& row : of) cases.insert(row.index);
    EXPECT_EQ(cases.size(), of.size()) << check;
  }
}

bool failed(const PrefixRow& row) { return row.verdict != Verdict::agree; }

TEST(CliVerify, short_csv_keeps_failures_and_the_worst_1000_of_a_check) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const std::string command = "verify gen:plain:1 --tolerance abs:2e-6 --out ";
  EXPECT_EQ(kvcheck.run(command + "short").exit_code, kExitDiverge);
  kvcheck.run(command + "full --csv full");
  auto kept = by_check(kvcheck / "short");
  bool some_left_out = false;
  for (const auto& [key, all] : by_check(kvcheck / "full")) {
    std::vector<PrefixRow>& rows = kept[key];
    const auto agreeing = static_cast<std::size_t>(std::ranges::count_if(all, std::not_fn(failed)));
    EXPECT_EQ(rows.size(), all.size() - agreeing + std::min<std::size_t>(agreeing, 1000));
    double least = 1;  // difference of those that agree and are kept
    for (const PrefixRow& row : rows) {
      if (!failed(row)) least = std::min(least, row.max_abs_difference.value_or(0));
    }
    for (const PrefixRow& row : all) {
      if (std::ranges::find(rows, row) != rows.end()) continue;
      some_left_out = true;
      EXPECT_FALSE(failed(row)) << row.reproduce;
      EXPECT_LE(row.max_abs_difference.value_or(0), least) << row.reproduce;
    }
  }
  EXPECT_TRUE(some_left_out);
}

// ---- Inspect

TEST(CliInspect, counts_parameters_and_bytes_of_the_cache) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  save_model(kvcheck / "model", wide_model(11));
  const CommandResult result = kvcheck.run("inspect model");
  EXPECT_EQ(result.exit_code, 0) << everything(result);
  // Embedding 11 x 64; 4 x 64 x 64 of attention; 2 x 64 x 96 of MLP; 3 norms of 64.
  EXPECT_THAT(result.out, ContainsRegex("\nparameters +29568\n"));
  EXPECT_THAT(result.out, ContainsRegex("\n  bytes per token, f32 +512\n"));
  EXPECT_THAT(result.out, ContainsRegex("\n  bytes at 4 positions, f32 +2048\n"));
  EXPECT_THAT(result.out, ContainsRegex("\n  bytes at 4 positions, f64 +4096\n"));
  EXPECT_THAT(result.out, HasSubstr("SHA-256 " + model_sha256(wide_model(11)) + "\n"));
}

TEST(CliInspect, shows_what_only_some_decoders_have) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  Config config = wide_model(11).config;
  save_model(kvcheck / "usual", make_model<float>(config));
  const std::string usual = kvcheck.run("inspect usual").out;
  EXPECT_THAT(usual, ContainsRegex("\n  norm of each head +no\n"));
  EXPECT_THAT(usual, ContainsRegex("\n  attention cap +none\n"));
  EXPECT_THAT(usual, ContainsRegex("\n  logit cap +none\n"));
  EXPECT_THAT(usual, ContainsRegex("\n  embedding scale +1\n"));
  config.positions = Positions::rotary;
  config.rotary_base = 5000;
  config.rotary_base_windowed = 100;
  config.rotary_dimensions = 4;
  config.head_norm = true;
  config.attention_cap = 50;
  config.logit_cap = 30;
  config.embedding_scale = 8;
  save_model(kvcheck / "rare", make_model<float>(config));
  const std::string rare = kvcheck.run("inspect rare").out;
  EXPECT_THAT(rare,
              ContainsRegex("\n  positions +rotary, halves, base 5000 \\(100 in layers with a "
                            "window\\), 4 dimensions of each head\n"));
  EXPECT_THAT(rare, ContainsRegex("\n  norm of each head +yes\n"));
  EXPECT_THAT(rare, ContainsRegex("\n  attention cap +50\n"));
  EXPECT_THAT(rare, ContainsRegex("\n  logit cap +30\n"));
  EXPECT_THAT(rare, ContainsRegex("\n  embedding scale +8\n"));
}

TEST(CliInspect, shows_what_a_folder_adds) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  save_diverging_model(kvcheck / "model");
  write_bytes(kvcheck / "model" / "corpus.txt", "0 1 2\n3 4\n");
  write_bytes(kvcheck / "model" / "vocabulary.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\n");
  const std::string out = kvcheck.run("inspect model").out;
  EXPECT_THAT(out, HasSubstr("words\n  a b c d e f g h i j k\n"));
  EXPECT_THAT(out, HasSubstr("corpus\n  2 sequences\n"));
  EXPECT_THAT(out, HasSubstr("contract\n  abs:0\n"));
}

// ---- Models that can show nothing

// A small model with an output of its own, all of one number.
void save_with_output(const std::filesystem::path& folder, float value, float embedding) {
  Config config = tiny_config();
  config.output = Output::separate;
  config.post_norms = false;
  Model<float> model = random_model(config, WeightScales{}, 1);
  model.output.setConstant(value);
  model.final_norm.scale.setConstant(embedding);
  save_model(folder, model);
}

TEST(Cli, a_model_whose_logits_are_all_the_same_is_told) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  save_with_output(kvcheck / "m", 0, 1);
  const CommandResult result = kvcheck.run("verify m --prefixes random:2 --no-stored");
  EXPECT_THAT(result.out, HasSubstr("\nwarning: every logit of m is the same: this model can show "
                                    "nothing\n"))
      << everything(result);
  EXPECT_EQ(result.exit_code, kExitGaveUp) << "nothing else was looked at";
  EXPECT_THAT(result.out, HasSubstr("\nverdict: gave-up ("));
  EXPECT_THAT(kvcheck.run("verify chapter8 --prefixes corpus --no-stored").out,
              Not(HasSubstr("warning")));
}

TEST(Cli, a_model_whose_logits_are_no_numbers_agrees_with_nothing) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  save_with_output(kvcheck / "m", 3e38F, 3e38F);
  for (const std::string check :
       {"--prefixes random:2", "--schedules decode", "--operations random:2"}) {
    const CommandResult result = kvcheck.run("verify m --no-stored " + check);
    EXPECT_EQ(result.exit_code, kExitBroken) << check << everything(result);
    EXPECT_THAT(result.out, Not(ContainsRegex("agree\n"))) << check << everything(result);
  }
}

}  // namespace
}  // namespace kvcheck
