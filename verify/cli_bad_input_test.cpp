// SPDX-License-Identifier: MIT
// Whatever is wrong with the command line or a model, the answer is exit code 2 and one line that
// says where, what was expected and what was found.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "engine/generated.h"
#include "engine/model_file.h"
#include "verify/cli.h"
#include "verify/test_command.h"

namespace kvcheck {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// Arguments separated by single blanks, and the line without "kvcheck: ".
using Refusal = std::pair<std::string, std::string>;

// None of them leaves anything in the working folder.
void expect_refusals(const TestCommand& kvcheck, const std::vector<Refusal>& refusals) {
  const std::vector<std::string> before = files_in(kvcheck / ".");
  for (const auto& [arguments, message] : refusals) {
    EXPECT_EQ(complaint(kvcheck.run(arguments)), message) << arguments;
  }
  EXPECT_EQ(files_in(kvcheck / "."), before);
}

// As above, each behind `verify gen:plain:1 `.
void expect_verify_refusals(std::vector<Refusal> refusals) {
  for (Refusal& refusal : refusals) refusal.first = "verify gen:plain:1 " + refusal.first;
  expect_refusals(TestCommand(KVCHECK_BINARY), refusals);
}

// ---- Commands and options

TEST(CliBadInput, names_the_commands_that_there_are) {
  const std::string known =
      "expected one of verify, faults, generate, audit, cost, inspect, repro, report, quiz, got ";
  std::vector<Refusal> refusals{{"", "command: missing, " + known + "nothing; see kvcheck --help"}};
  for (const std::string word : {"nope", "Verify", "Generate", "costs", "engine", "compare"}) {
    refusals.emplace_back(word, word + ": unknown command, " + known + word);
  }
  expect_refusals(TestCommand(KVCHECK_BINARY), refusals);
}

TEST(CliBadInput, names_the_option_that_is_not_there) {
  std::vector<Refusal> refusals;
  for (const std::string option : {"--nope", "-x", "extra", "inspect", "--engine-timeout=1",
                                   "--engine=builtin", "--fault=slot", "--oracles=built-in"}) {
    refusals.emplace_back(option,
                          "verify: unknown option or argument, expected what `kvcheck verify "
                          "--help` lists, got " +
                              option);
  }
  expect_verify_refusals(refusals);
}

// As it was typed, the option before its value.
TEST(CliBadInput, repeats_an_unknown_option_as_it_was_typed) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  for (const std::string option : {"--engine builtin", "--fault slot"}) {
    EXPECT_THAT(complaint(kvcheck.run("verify gen:plain:1 " + option)),
                AllOf(StartsWith("verify: unknown option"), HasSubstr("got " + option)));
  }
}

TEST(CliBadInput, of_the_program_itself_points_to_a_help_that_is_there) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  for (const std::string option : {"-x", "--nope"}) {
    EXPECT_THAT(complaint(kvcheck.run(option)),
                AllOf(HasSubstr(option), HasSubstr("`kvcheck --help`")));
  }
}

TEST(CliBadInput, counts_arguments) {
  expect_refusals(
      TestCommand(KVCHECK_BINARY),
      {{"inspect", "inspect: missing argument, expected MODEL, got nothing"},
       {"repro", "repro: missing argument, expected CASE, got nothing"},
       {"report", "report: missing argument, expected RUN, got nothing"},
       {"report a b",
        "report: unknown option or argument, expected what `kvcheck report --help` lists, got b"},
       {"verify gen:plain:1 --jobs", "--jobs: values, expected one, got none"},
       {"verify gen:plain:1 --out", "--out: values, expected one, got none"},
       {"verify gen:plain:1 --jobs 1 --jobs 2", "--jobs: values, expected one, got 2"},
       {"verify --out a --out b --out c", "--out: values, expected one, got 3"}});
}

// ---- Values of options

TEST(CliBadInput, numbers_are_numbers_in_range) {
  const std::string jobs = "--jobs: bad value, expected a whole number from 1 to 1024, got ";
  const std::string seed = "--seed: bad value, expected a whole number from 0 to 2^64 - 1, got ";
  const std::string time = "--time: bad value, expected a number of seconds, got ";
  expect_verify_refusals({
      {"--jobs 0", jobs + "0"},
      {"--jobs x", jobs + "x"},
      {"--jobs -1", jobs + "-1"},
      {"--jobs 1.5", jobs + "1.5"},
      {"--jobs=99999999999", jobs + "99999999999"},
      {"--seed -1", seed + "-1"},
      {"--seed 18446744073709551616", seed + "18446744073709551616"},
      {"--seed 0x1", seed + "0x1"},
      {"--index -1", "--index: bad value, expected a whole number, got -1"},
      {"--time -1", time + "-1"},
      {"--time nan", time + "nan"},
      {"--time 1e999", time + "1e999"},
      {"--time 1s", time + "1s"},
  });
}

// Each takes memory: where one digit too many is typed, a machine may stand still.
TEST(CliBadInput, threads_are_counted_in_reason) {
  EXPECT_THAT(complaint(TestCommand(KVCHECK_BINARY).run("verify gen:plain:1 --jobs 1000000")),
              StartsWith("--jobs: "));
}

TEST(CliBadInput, words_are_among_those_allowed) {
  expect_verify_refusals({
      {"--scalar f16", "--scalar: bad value, expected one of f32, f64, got f16"},
      {"--arithmetic columns",
       "--arithmetic: bad value, expected one of both, row, matrix, got columns"},
      {"--schedules some", "--schedules: bad value, expected one of decode, single, all, got some"},
      {"--csv none", "--csv: bad value, expected one of failures, full, got none"},
  });
}

TEST(CliBadInput, tolerances_are_policies_of_the_user) {
  const std::string limit =
      "--tolerance: limit, expected a finite number that is not negative, got ";
  const std::string policy = "--tolerance: policy, expected exact, abs:X or noise[:LIMIT], got ";
  expect_verify_refusals({
      {"--tolerance abs:nan", limit + "nan"},
      {"--tolerance abs:inf", limit + "inf"},
      {"--tolerance abs:-1", limit + "-1"},
      {"--tolerance abs:1e-6x", limit + "1e-6x"},
      {"--tolerance noise:0", "--tolerance: limit, expected a number above 0, got 0"},
      {"--tolerance rel:1e-3", policy + "rel:1e-3"},
      {"--tolerance foo", policy + "foo"},
      {"--tolerance abs", policy + "abs"},
  });
}

TEST(CliBadInput, prefixes_are_ones_that_the_model_has) {
  const std::string random = "--prefixes: random, expected random:N with N from 1 to 1000000, got ";
  expect_verify_refusals({
      {"--prefixes random:0", random + "random:0"},
      {"--prefixes random:", random + "random:"},
      {"--prefixes random:-1", random + "random:-1"},
      {"--prefixes random:1000001", random + "random:1000001"},
      {"--prefixes corpus",
       "--prefixes corpus: model gen:plain:1 has none, expected a model with a corpus, got none"},
      {"--prefixes all",
       "--prefixes all: too many prefixes of gen:plain:1, expected at most 10000000, got "
       "54114966814"},
      {"--prefixes missing.txt", "missing.txt: file, expected a readable regular file, got none"},
      {"--prefixes /dev/zero",
       "/dev/zero: file, expected a readable regular file, got a special file"},
      {"--prefixes all --index 1",
       "--index: prefixes that are not random, expected --prefixes random:N, got all"},
      {"--prefixes x.txt --index 1",
       "--index: prefixes that are not random, expected --prefixes random:N, got x.txt"},
  });
  expect_refusals(TestCommand(KVCHECK_BINARY),
                  {{"verify gen:wide:1 --prefixes all",
                    "--prefixes all: too many prefixes of gen:wide:1, expected at most 10000000, "
                    "got more than 9223372036854775807"}});
}

TEST(CliBadInput, all_schedules_are_of_short_prefixes) {
  EXPECT_EQ(complaint(TestCommand(KVCHECK_BINARY)
                          .run("verify gen:wide:1 --prefixes random:1 --schedules all --time 1")),
            "--schedules all: prefix too long, expected at most 16 tokens, got 17");
}

// An empty variable of somebody's script is no wish for the default.
TEST(CliBadInput, nothing_is_no_value) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const std::vector<std::vector<std::string>> commands{
      {""},
      {"verify", ""},
      {"inspect", ""},
      {"repro", ""},
      {"verify", "gen:one-token:1", "--tolerance", ""},
      {"verify", "gen:one-token:1", "--prefixes", ""},
      {"verify", "gen:one-token:1", "--schedules", ""},
      {"verify", "gen:one-token:1", "--out", ""},
      {"verify", "gen:one-token:1", "--scalar", ""},
      {"verify", "gen:one-token:1", "--time", ""}};
  for (const std::vector<std::string>& command : commands) {
    EXPECT_THAT(
        complaint(kvcheck.run_words(command)),
        AllOf(Not(StartsWith("exit code")), Not(StartsWith(": ")), Not(HasSubstr("chapter8"))))
        << fmt::format("'{}'", fmt::join(command, "' '"));
  }
}

// ---- Models

TEST(CliBadInput, generated_names_are_exact) {
  const std::string families =
      "expected one of plain, small, sharp-attention, saturated, near-tied, tiny-embeddings, "
      "large-residual, grouped-heads, one-token, full-context, windowed, one-head, biased, deep, "
      "wide, single-context, alibi, head-norm, softcap, embedding-scale, partial-rotary, "
      "two-bases, gpt2-small, "
      "got ";
  const std::string seed =
      ": bad seed, expected a number from 0 to 18446744073709551615 without leading zeros, got ";
  for (const std::string command : {"verify ", "inspect "}) {
    expect_refusals(TestCommand(KVCHECK_BINARY),
                    {{command + "gen:nope:1", "gen:nope:1: unknown family, " + families + "nope"},
                     {command + "gen:", "gen:: unknown family, " + families},
                     {command + "gen:plain:x", "gen:plain:x" + seed + "x"},
                     {command + "gen:plain:01", "gen:plain:01" + seed + "01"},
                     {command + "gen:plain",
                      "gen:plain: missing seed, expected gen:FAMILY:SEED, got gen:plain"}});
  }
}

TEST(CliBadInput, models_are_folders) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  write_bytes(kvcheck / "file", "");
  fs::create_directory(kvcheck / "empty");
  for (const std::string command : {"verify ", "inspect "}) {
    expect_refusals(
        kvcheck,
        {{command + "missing", "missing: model, expected a folder or a .gguf file, got none"},
         {command + "file", "file: model, expected a folder or a .gguf file, got a file"},
         {command + "/dev/zero", "/dev/zero: model, expected a folder or a .gguf file, got a file"},
         {command + "empty",
          "empty/config.json: file, expected a readable regular file, got none"}});
  }
}

// A model folder one of whose files is changed, and what the program says to it.
class BadModel : public testing::Test {
 protected:
  BadModel() { save_model(kvcheck_ / "model", wide_model(11)); }

  std::string said(std::string_view file, std::string_view text) const {
    write_bytes(kvcheck_ / "model" / file, text);
    std::string message = complaint(kvcheck_.run("verify model"));
    EXPECT_EQ(complaint(kvcheck_.run("inspect model")), message);
    EXPECT_FALSE(fs::exists(kvcheck_ / "kvcheck-runs"));
    return message;
  }
  std::string config_with(const std::string& key, const std::string& value) const {
    const std::string now = fmt::format("\"{}\": ", key);
    std::string text = config_;
    const std::size_t at = text.find(now) + now.size();
    return said("config.json", text.replace(at, text.find_first_of(",\n", at) - at, value));
  }

  TestCommand kvcheck_{KVCHECK_BINARY};
  std::string config_ = config_text(wide_model(11).config) + "\n";
};

TEST_F(BadModel, sizes_of_no_decoder) {
  EXPECT_EQ(config_with("context", "0"),
            "model/config.json: context, expected 1 to 16777216, got 0");
  EXPECT_EQ(config_with("vocabulary", "0"),
            "model/config.json: vocabulary, expected 1 to 16777216, got 0");
  EXPECT_EQ(config_with("vocabulary", "-1"),
            "model/config.json: vocabulary, expected 1 to 16777216, got -1");
  EXPECT_EQ(config_with("vocabulary", "2147483647"),
            "model/config.json: vocabulary, expected 1 to 16777216, got 2147483647");
  EXPECT_EQ(config_with("vocabulary", "99999999999999999999"),
            "model/config.json: vocabulary, expected a whole number of 32 bits, got 1e+20");
  EXPECT_EQ(config_with("vocabulary", "16777216"),
            "model/config.json: weights, expected at most 8589934592 bytes, got about 8.59e+09 "
            "bytes");
  EXPECT_EQ(config_with("vocabulary", "1000000"),
            "model/model.safetensors: tensor \"embedding\" shape, expected [1000000, 64], got "
            "[11, 64]");
  EXPECT_EQ(config_with("context", "16777216"),
            "model/config.json: cache at full context, expected at most 8589934592 bytes, got "
            "about 1.72e+10 bytes");
  EXPECT_EQ(config_with("vocabulary", "\"many\""),
            "model/config.json: vocabulary, expected a whole number of 32 bits, got \"many\"");
}

TEST_F(BadModel, configurations_that_are_none) {
  EXPECT_EQ(said("config.json", "{"),
            "model/config.json: malformed JSON at byte 2 (line 1, column 2), expected JSON, got "
            "the end of the text");
  EXPECT_EQ(said("config.json", ""),
            "model/config.json: malformed JSON at byte 1 (line 1, column 1), expected JSON, got "
            "the end of the text");
  EXPECT_EQ(said("config.json", "[1]"),
            "model/config.json: configuration, expected an object, got [1]");
  EXPECT_EQ(said("config.json", "{}"),
            "model/config.json: model_type, expected one of gpt2, llama, mistral, qwen2, qwen3, "
            "gemma2, or "
            "kvcheck's own format, got none");
  EXPECT_THAT(said("config.json", std::string(100'000, '[')), StartsWith("model/config.json: "));
}

TEST_F(BadModel, weights_that_are_cut_off) {
  const std::string whole = read_bytes(kvcheck_ / "model/model.safetensors");
  EXPECT_EQ(said("model.safetensors", ""),
            "model/model.safetensors: header length, expected 8 bytes, got a file of 0");
  EXPECT_EQ(said("model.safetensors", whole.substr(0, 7)),
            "model/model.safetensors: header length, expected 8 bytes, got a file of 7");
  EXPECT_EQ(said("model.safetensors", whole.substr(0, 100)),
            "model/model.safetensors: header length, expected at most 92 bytes, got 848");
  EXPECT_EQ(said("model.safetensors", whole.substr(0, whole.size() - 1)),
            "model/model.safetensors: tensor \"final_norm.scale\" data_offsets, expected at most "
            "118271, got [118016, 118272]");
  EXPECT_EQ(said("model.safetensors", whole + "x"),
            "model/model.safetensors: data, expected 118272 bytes, where the last tensor ends, got "
            "118273");
  EXPECT_EQ(said("model.safetensors",
                 whole.substr(0, whole.size() - 4) + std::string("\x00\x00\x80\x7f", 4)),
            "model/model.safetensors: tensor \"final_norm.scale\" number 63, expected a finite "
            "number, got inf");
}

TEST_F(BadModel, files_beside_the_weights) {
  EXPECT_EQ(said("vocabulary.txt", "a\nb\n"),
            "model/vocabulary.txt: words, expected 11, the vocabulary, got 2");
  fs::remove(kvcheck_ / "model/vocabulary.txt");
  EXPECT_EQ(said("corpus.txt", "0 1\n11\n"),
            "model/corpus.txt:2: token id, expected 0 to 10, got 11");
  fs::remove(kvcheck_ / "model/corpus.txt");
  EXPECT_EQ(said("manifest.json", R"({"contract": {"abs": -1}})"),
            "model/manifest.json: contract.abs, expected a number of at least 0, got -1");
}

// ---- Text from outside

void expect_short_lines(const TestCommand& kvcheck,
                        const std::vector<std::vector<std::string>>& commands) {
  for (const std::vector<std::string>& command : commands) {
    const std::string said = complaint(kvcheck.run_words(command));
    EXPECT_THAT(said, Not(StartsWith("exit code"))) << fmt::format("{}", fmt::join(command, " "));
    EXPECT_EQ(said.find('\x1b'), std::string::npos) << fmt::format("{}", fmt::join(command, " "));
  }
}

TEST(CliBadInput, no_value_makes_a_message_of_several_lines_or_a_screen) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  for (const std::string& text :
       {std::string("no\nname"), std::string("\x1b[31m\xff"), std::string(3000, 'a')}) {
    std::vector<std::vector<std::string>> commands{{text},
                                                   {"verify", "gen:" + text + ":1"},
                                                   {"verify", "gen:plain:" + text},
                                                   {"verify", "gen:plain:1", text},
                                                   {"verify", "gen:plain:1", "--" + text},
                                                   {"repro", "kv1:" + text},
                                                   {"repro", "kv1:" + text + "=1"},
                                                   {"repro", "kv2" + text + ":"}};
    for (const char* option : {"--seed", "--jobs", "--time", "--tolerance", "--csv", "--scalar"}) {
      commands.push_back({"verify", "gen:plain:1", option, text});
    }
    expect_short_lines(kvcheck, commands);
  }
}

TEST(CliBadInput, no_path_makes_a_message_of_several_lines) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  for (const std::string path : {"no\nname", "\x1b[31m\xff"}) {
    write_bytes(kvcheck / path, "no token");
    save_model(kvcheck / ("model" + path), wide_model(3));
    expect_short_lines(kvcheck, {{"verify", path},
                                 {"verify", path + "?"},
                                 {"verify", "model" + path, "--prefixes", "corpus"},
                                 {"verify", "gen:plain:1", "--prefixes", path},
                                 {"verify", "gen:plain:1", "--prefixes", path + "?"},
                                 {"verify", "gen:plain:1", "--out", path},
                                 {"verify", "gen:plain:1", "--out", path + "/run"},
                                 {"repro", path},
                                 {"repro", path + "?"},
                                 {"report", path}});
  }
}

// Not in the middle of a run, when its folder is there already.
TEST(CliBadInput, golden_logits_are_read_before_anything_is_run) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  save_model(kvcheck / "model", random_model(tiny_config(), WeightScales{}, 1));
  write_bytes(kvcheck / "model" / "golden.f64", std::string(30 * 2 * sizeof(double) - 8, '\0'));
  const std::string message =
      "model/golden.f64: size, expected 30 rows of 2 float64, got 472 bytes";
  expect_refusals(kvcheck, {{"verify model --out run", message},
                            {"verify model --prefixes random:1 --out run", message},
                            {"inspect model", message}});
}

}  // namespace
}  // namespace kvcheck
