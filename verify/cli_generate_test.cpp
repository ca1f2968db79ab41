// SPDX-License-Identifier: MIT
// kvcheck generate as a user runs it: what is printed, what the exit code says, what is refused.
#include "verify/cli_generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "engine/text_width.h"
#include "reports/generation_row.h"
#include "verify/cli.h"
#include "verify/models.h"
#include "verify/test_command.h"

namespace kvcheck {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

using Words = std::vector<std::string>;

CommandResult generate(Words words) {
  words.insert(words.begin(), "generate");
  return TestCommand(KVCHECK_BINARY).run_words(words);
}

std::string out_of(const Words& words) {
  const CommandResult result = generate(words);
  EXPECT_EQ(result.exit_code, kExitAgree) << everything(result);
  return result.out;
}

// Each line in two parts, as it is too long for this file.
TEST(CliGenerate, shows_both_runs_side_by_side) {
  const std::string indent(45, ' ');
  EXPECT_EQ(out_of({"chapter8", "--prompt", "<bos> the"}),
            "model      chapter8 (f32, row arithmetic, flat cache)\n"
            "prompt     0 2   (<bos> the)\n"
            "policy     greedy\n"
            "stops      after 64 tokens, at the context of 4, or at 1   (<eos>)\n\n" +
                indent + "without a cache                   with a cache\n" +
                "step  position   fed    length  next  left   token            logit  softmax"
                "   token            logit  softmax  difference\n"
                "   1         1     2         2     2     2   4 cat        7.0267386   0.4994"
                "   4 cat        7.0267386   0.4994           0\n"
                "   2         2     1         3     3     1   6 sat        9.5418653   0.9975"
                "   6 sat        9.5418653   0.9975           0\n"
                "   3         3     1         4     4     0   1 <eos>      11.819128   0.9994"
                "   1 <eos>      11.819128   0.9994           0\n\n"
                "returned   4 6 1   (cat sat <eos>)\n"
                "stopped    eos: 1 <eos> was returned, and is not fed\n"
                "the same   3 tokens; logits differ by at most 0\n"
                "verdict: agree (6 tokens in 2 runs, 16 invariants of each, 24 logits compared)\n");
}

TEST(CliGenerate, takes_words_and_ids_and_chapter8_by_default) {
  const std::string shown = out_of({"--prompt", "<bos> the"});
  EXPECT_EQ(out_of({"--tokens", "0,2"}), shown);
  EXPECT_EQ(out_of({"chapter8", "--prompt", "0 2"}), shown);
}

TEST(CliGenerate, shows_one_run_alone) {
  const std::string cached = out_of({"--tokens", "0,2", "--cache", "on"});
  EXPECT_THAT(cached, AllOf(HasSubstr("with a cache"), Not(HasSubstr("without a cache")),
                            HasSubstr("3 tokens in 1 run, 16 invariants")));
  const std::string uncached = out_of({"--tokens", "0,2", "--cache", "off"});
  EXPECT_THAT(uncached, AllOf(HasSubstr("without a cache"), Not(HasSubstr("with a cache"))));
}

TEST(CliGenerate, stops_as_it_is_told) {
  EXPECT_THAT(out_of({"--tokens", "0,2", "--eos", "none"}),
              HasSubstr("stopped    context: no position is left for the last token to be fed at"));
  EXPECT_THAT(out_of({"--tokens", "0,2", "--steps", "2"}),
              HasSubstr("stopped    steps: 2 were allowed"));
  EXPECT_THAT(out_of({"--tokens", "0,2", "--eos", "cat"}),
              HasSubstr("stopped    eos: 4 cat was returned"));
  EXPECT_THAT(out_of({"--tokens", "0,2,4,6", "--eos", "none"}),
              HasSubstr("returned   1   (<eos>)"));
  // EOS inside the prompt stops nothing.
  EXPECT_THAT(out_of({"--tokens", "0,2", "--eos", "the"}), HasSubstr("stopped    context"));
}

TEST(CliGenerate, draws_the_same_tokens_from_the_same_seed) {
  const auto drawn = [](const char* seed) {
    return out_of({"gen:plain:2", "--tokens", "1", "--policy", "temperature:3", "--seed", seed});
  };
  EXPECT_EQ(drawn("5"), drawn("5"));
  EXPECT_NE(drawn("5"), drawn("6"));
  EXPECT_THAT(drawn("5"),
              AllOf(HasSubstr("policy     temperature:3, seed 5"), HasSubstr("softmax   policy")));
}

TEST(CliGenerate, of_a_faulty_cache_diverges_and_says_at_which_step) {
  const CommandResult result = generate({"--tokens", "0,2", "--fault", "pos-decode-reset:onset1"});
  EXPECT_EQ(result.exit_code, kExitDiverge);
  EXPECT_THAT(
      result.out,
      AllOf(
          HasSubstr("<- first"),
          HasSubstr(
              "\ndifferent  with a cache: invariant next-position-is-length violated at step 2: "),
          HasSubstr("verdict: diverge")));
}

TEST(CliGenerate, of_a_faulty_cache_alone_still_fails_by_its_accounts) {
  const Words alone{"--tokens", "0,2", "--cache", "on", "--fault", "pos-decode-reset:onset1"};
  const CommandResult result = generate(alone);
  EXPECT_EQ(result.exit_code, kExitDiverge) << everything(result);
  EXPECT_THAT(result.out, HasSubstr("different  invariant next-position-is-length violated at step "
                                    "2: next position = rows in the cache, expected 3, got "));
}

TEST(CliGenerate, says_that_a_fault_had_nothing_to_change) {
  const std::string line = "the fault changed nothing in this run\n";
  const Words words{"--tokens", "0,2", "--fault", "pos-decode-reset:onset1", "--steps"};
  const auto with = [&](const char* steps) {
    Words all = words;
    all.emplace_back(steps);
    return generate(all).out;
  };
  EXPECT_THAT(with("1"), HasSubstr(line));
  EXPECT_THAT(with("2"), Not(HasSubstr(line)));
}

// The tokens may be the same where the logits are not.
TEST(CliGenerate, judges_logits_besides_tokens) {
  const CommandResult result = generate(
      {"--tokens", "0,2", "--arithmetic", "matrix", "--fault", "decode-scale:onset1:amount0"});
  EXPECT_EQ(result.exit_code, kExitDiverge);
  EXPECT_THAT(result.out, AllOf(HasSubstr("returned   4 6 1"),
                                HasSubstr("different  logits after position 2")));
}

TEST(CliGenerate, shows_the_shapes_of_every_step) {
  const std::string out = out_of({"--tokens", "0,2", "--trace"});
  EXPECT_THAT(out, HasSubstr(R"(
shapes of step 2
layer  tensor              without a cache       with a cache
       embedding           [3, 4]                [1, 4]
       input               [3, 4]                [1, 4]
    0  attention_norm      [3, 4]                [1, 4]
    0  query               [3, 4]                [1, 4]
    0  key                 [3, 4]                [1, 4]
    0  value               [3, 4]                [1, 4]
    0  cached_key          3 x [1 to 3, 4]       [3, 4]
    0  cached_value        3 x [1 to 3, 4]       [3, 4]
    0  scores              3 x [2, 1 to 3]       [2, 3]
)"));
  EXPECT_THAT(out, AllOf(HasSubstr("shapes of step 3"), Not(HasSubstr("shapes of step 4")),
                         HasSubstr("       logits              [1, 8]                [1, 8]\n")));
  EXPECT_THAT(out_of({"--tokens", "0,2", "--trace", "--cache", "off"}),
              HasSubstr("layer  tensor              without a cache\n"));
}

// ---- Batches

TEST(CliGenerate, runs_several_requests_in_one_batch) {
  for (const char* kind : {"padded-left", "padded-right", "flat", "paged"}) {
    EXPECT_THAT(out_of({"--prompt", "<bos> the", "--prompt", "<bos>", "--tokens", "0,2,4,6",
                        "--join", "0,2,1", "--cache-kind", kind}),
                HasSubstr(R"(  returned                     stopped  without a cache
      1  0 2   (<bos> the)                  1     3  4 6 1   (cat sat <eos>)      eos      the same
      2  0   (<bos>)                        3     6  3 4 7 1   (a cat ran <eos>)  eos      the same
      3  0 2 4 6   (<bos> the cat sat)      2     2  1   (<eos>)                  eos      the same

verdict: agree (16 tokens in 6 runs, 16 invariants of each, 64 logits compared)
)"));
  }
}

TEST(CliGenerate, reads_a_batch_from_a_file) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  write_bytes(kvcheck / "batch.txt", "# three requests\n<bos> the\n\n@2 <bos>\n@1 0 2 4 6\n");
  const CommandResult result = kvcheck.run("generate --batch batch.txt --cache-kind padded-left");
  EXPECT_EQ(result.exit_code, kExitAgree) << everything(result);
  EXPECT_EQ(result.out, out_of({"--prompt", "<bos> the", "--prompt", "<bos>", "--tokens", "0,2,4,6",
                                "--join", "0,2,1", "--cache-kind", "padded-left"}));
  write_bytes(kvcheck / "one.txt", "<bos> the\n");
  EXPECT_THAT(kvcheck.run("generate --batch one.txt").out, HasSubstr("      1  0 2   (<bos> the)"));
}

TEST(CliGenerate, of_a_batch_with_a_fault_names_the_request) {
  const CommandResult result =
      generate({"--tokens", "0,2", "--tokens", "0", "--fault", "pos-decode-reset:onset1"});
  EXPECT_EQ(result.exit_code, kExitDiverge);
  EXPECT_THAT(result.out,
              HasSubstr("\nrequest 1: with a cache: invariant next-position-is-length violated"));
}

// The first of the two has no step of which the fault could change anything.
TEST(CliGenerate, of_a_batch_is_as_bad_as_its_worst_request) {
  const CommandResult result =
      generate({"--tokens", "0,2,4,6", "--tokens", "0,2", "--fault", "pos-decode-reset:onset1"});
  EXPECT_EQ(result.exit_code, kExitDiverge) << everything(result);
  EXPECT_THAT(result.out, AllOf(HasSubstr("verdict: diverge"), HasSubstr("\nrequest 2: "),
                                Not(HasSubstr("\nrequest 1: "))));
}

GenerationShown tied() {
  Generation run{.tokens = {0, 2, 4}, .prompt = 2, .steps = {{.token = 4}}};
  GenerationShown shown{.request = {.prompt = {0, 2}}, .uncached = run, .cached = run, .first = 0};
  shown.decision = Decision{.tie = true, .margin = 1e-7, .change = 2e-7, .by = "gap of logits"};
  return shown;
}

TEST(CliGenerate, calls_a_tie_by_its_name) {
  ModelData model;
  GenerationShown other = tied();
  other.first = {};
  other.decision = {};
  const std::string batch = batch_table({tied(), other}, model);
  EXPECT_THAT(batch, AllOf(HasSubstr("a tie\n"), HasSubstr("the same\n")));
  EXPECT_THAT(outcome_text(tied(), model),
              HasSubstr("a tie      at step 1: gap of logits 1e-07, which differs by 2e-07\n"));
}

// ---- Files

TEST(CliGenerate, writes_a_row_for_each_step_of_each_run) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  EXPECT_EQ(kvcheck.run("generate --tokens 0,2 --csv steps.csv").exit_code, kExitAgree);
  std::string seen;
  read_generations(kvcheck / "steps.csv", [&](const GenerationRow& row) {
    seen += row.run + " " + row.fed + ":" + std::to_string(row.token) + " " + row.stop + "\n";
  });
  EXPECT_EQ(seen,
            "uncached 0 2:4 \nuncached 0 2 4:6 \nuncached 0 2 4 6:1 eos\n"
            "cached 0 2:4 \ncached 4:6 \ncached 6:1 eos\n");
  EXPECT_EQ(complaint(kvcheck.run("generate --tokens 0,2 --csv steps.csv")),
            "--csv: output, expected a new file, got steps.csv");
}

// Of each request the tokens of its cached run.
std::vector<std::vector<std::int64_t>> drawn(const std::string& requests, const char* seed) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult result = kvcheck.run(
      "generate gen:plain:2 --policy temperature:3 --csv steps.csv" + requests + " --seed " + seed);
  EXPECT_EQ(result.exit_code, kExitAgree) << everything(result);
  std::vector<std::vector<std::int64_t>> tokens;
  read_generations(kvcheck / "steps.csv", [&](const GenerationRow& row) {
    tokens.resize(static_cast<std::size_t>(row.request));
    if (row.run == "cached") tokens.back().push_back(row.token);
  });
  return tokens;
}

TEST(CliGenerate, gives_each_request_of_a_batch_a_seed_and_rows_of_its_own) {
  const auto both = drawn(" --tokens 1 --tokens 1", "5");
  ASSERT_EQ(both.size(), 2U);
  EXPECT_NE(both[0], both[1]);
  EXPECT_EQ(both[0], drawn(" --tokens 1", "5")[0]);
  EXPECT_EQ(both[1], drawn(" --tokens 1", "6")[0]);
}

// Whichever option they come with.
TEST(CliGenerate, prompts_are_numbered_in_the_order_given) {
  const std::string out = out_of({"--tokens", "0,2", "--prompt", "<bos>", "--tokens", "0,2,4",
                                  "--prompt", "<bos> the", "--cache", "on"});
  EXPECT_THAT(out,
              testing::ContainsRegex("\n +1  0 2   .*\n +2  0   .*\n +3  0 2 4 .*\n +4  0 2 "));
}

// Characters of several bytes take one column each.
TEST(CliGenerate, columns_stay_below_their_headings) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  ModelData data = load_model("chapter8");
  save_model(kvcheck / "m", data.weights);
  std::string words;
  for (const std::string& word : data.words) words += "\u2581\u00e4\u00f6\u00fc" + word + "\n";
  write_bytes(kvcheck / "m/vocabulary.txt", words);
  const CommandResult result = kvcheck.run("generate m --tokens 0,2 --cache on --eos 1");
  ASSERT_EQ(result.exit_code, kExitAgree) << everything(result);
  const std::vector<std::string> lines = split(result.out, '\n');
  const auto heading = std::ranges::find_if(
      lines, [](const std::string& line) { return line.starts_with("step "); });
  ASSERT_LT(heading + 1, lines.end());
  // The number before the last column ends where its heading does.
  const auto end_of_logits = [](const std::string& line) {
    return text_width(line.substr(0, line.find_last_not_of(' ', line.rfind("  ")) + 1));
  };
  EXPECT_EQ(end_of_logits(heading[0]), end_of_logits(heading[1])) << result.out;
  EXPECT_EQ(text_width(heading[0].substr(heading[0].find("token"))),
            std::string_view("4 ....cat        7.0267377   0.4994").size())
      << result.out;
}

// ---- What is refused

TEST(CliGenerate, refuses_what_cannot_be_generated) {
  const std::vector<std::pair<Words, std::string>> refusals{
      {{}, "generate: no prompt, expected --prompt, --tokens or --batch, got nothing"},
      {{"--prompt", " "}, "--prompt: sequences, expected at least one, got none"},
      {{"--tokens", ","},
       "--tokens: an empty token, expected a token on either side of each comma, got ,"},
      {{"--tokens", "0,,2"},
       "--tokens: an empty token, expected a token on either side of each comma, got 0,,2"},
      {{"--prompt", "0,2,"},
       "--prompt: an empty token, expected a token on either side of each comma, got 0,2,"},
      {{"--tokens", "0\n2"}, "--tokens: sequences, expected one, got 2"},
      {{"--tokens", "0", "--steps", "0"},
       "--steps: bad value, expected a whole number from 1 to 1000000, got 0"},
      {{"--tokens", "0", "--steps", "99999999999999999999"},
       "--steps: bad value, expected a whole number from 1 to 1000000, got 99999999999999999999"},
      {{"--tokens", "0", "--seed", "-1"},
       "--seed: bad value, expected a whole number from 0 to 2^64 - 1, got -1"},
      {{"--tokens", "0", "--seed", "1e3"},
       "--seed: bad value, expected a whole number from 0 to 2^64 - 1, got 1e3"},
      {{"--tokens", "0", "--eos", "0 1"}, "--eos: tokens, expected one, or none, got 2"},
      {{"--tokens", "0", "--cache", "maybe"},
       "--cache: bad value, expected one of on, off, both, got maybe"},
      {{"--tokens", "0", "--arithmetic", "both"},
       "--arithmetic: bad value, expected one of row, matrix, got both"},
      {{"--tokens", "0", "--policy", "top-k:9"},
       "--policy: top-k, expected a whole number from 1 to the vocabulary's 8, got 9"},
      {{"--tokens", "0", "--policy", "temperature:nan"},
       "--policy: temperature, expected 0 (greedy) or a number from 1e-6 to 1e6, got nan"},
      {{"--tokens", "0", "--join", "0,1"},
       "--join: steps, expected one for each of 1 requests, got 0,1"},
      {{"--tokens", "0", "--tokens", "2", "--join", "0,x"},
       "--join: step to join at, expected a whole number from 0 to 1000000, got x"},
      {{"--tokens", "0", "--tokens", "2", "--cache", "off"},
       "--cache: off with a batch, expected on or both, got off"},
      {{"--tokens", "0", "--tokens", "2", "--trace"},
       "--trace: with a batch, expected one request, got 2"},
  };
  for (const auto& [words, message] : refusals) EXPECT_EQ(complaint(generate(words)), message);
}

// The line is that of sequences; here only that it names the option and what is wrong.
TEST(CliGenerate, refuses_prompts_that_the_model_cannot_take) {
  EXPECT_THAT(complaint(generate({"--prompt", "<bos> nobody"})),
              AllOf(HasSubstr("--prompt"), HasSubstr("nobody")));
  EXPECT_THAT(complaint(generate({"--tokens", "0,8"})),
              AllOf(HasSubstr("--tokens"), HasSubstr("8")));
  EXPECT_THAT(complaint(generate({"--tokens", "-1"})), HasSubstr("--tokens"));
  EXPECT_THAT(complaint(generate({"--tokens", "0,2,4,6,1"})),
              AllOf(HasSubstr("--tokens"), HasSubstr("4")));
  EXPECT_THAT(complaint(generate({"--tokens", "0", "--eos", "8"})), HasSubstr("--eos"));
  const TestCommand kvcheck(KVCHECK_BINARY);
  write_bytes(kvcheck / "empty.txt", "# nobody\n");
  EXPECT_EQ(complaint(kvcheck.run("generate --batch empty.txt")),
            "empty.txt: no requests, expected a prompt a line, got none");
  write_bytes(kvcheck / "late.txt", "<bos>\n@-1 <bos>\n");
  EXPECT_EQ(complaint(kvcheck.run("generate --batch late.txt")),
            "late.txt:2: step to join at, expected a whole number from 0 to 1000000, got -1");
  write_bytes(kvcheck / "bad.txt", "<bos>\n\n<bos> nobody\n");
  EXPECT_THAT(complaint(kvcheck.run("generate --batch bad.txt")),
              AllOf(HasSubstr("bad.txt:3"), HasSubstr("nobody")));
  std::string many;
  for (int i = 0; i < 100'000; ++i) many += "<bos>\n";
  write_bytes(kvcheck / "many.txt", many);
  EXPECT_EQ(complaint(kvcheck.run("generate --batch many.txt")),
            "many.txt: requests, expected at most 4096, got more");
  write_bytes(kvcheck / "only.txt", "@3\n");
  EXPECT_THAT(complaint(kvcheck.run("generate --batch only.txt")), HasSubstr("only.txt:1"));
  EXPECT_THAT(complaint(kvcheck.run("generate --batch nowhere.txt")), HasSubstr("nowhere.txt"));
}

TEST(CliGenerate, a_batch_whose_cache_gives_no_numbers_diverges) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult result = kvcheck.run(
      "generate chapter8 --tokens 0,2 --tokens 0,3,5 --cache-kind padded-left "
      "--fault mask-empty-row-nan");
  EXPECT_EQ(result.exit_code, kExitDiverge) << everything(result);
  EXPECT_THAT(result.out,
              HasSubstr("request 1: the batch with a cache ended with logits: NaN or +inf"));
  EXPECT_THAT(last_line(result.out), StartsWith("verdict: diverge ("));
}

TEST(CliGenerate, with_nothing_beside_it_agrees_with_nothing) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult result = kvcheck.run("generate --tokens 0,2 --cache on");
  EXPECT_EQ(result.exit_code, kExitAgree) << everything(result);
  EXPECT_EQ(last_line(result.out),
            "generated (3 tokens in 1 run, 16 invariants of each, 0 logits compared)");
}

TEST(CliGenerate, of_the_smallest_models_agrees) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  EXPECT_EQ(kvcheck.run("generate gen:one-token:1 --tokens 0").exit_code, kExitAgree);
  EXPECT_EQ(kvcheck.run("generate gen:single-context:1 --tokens 0").exit_code, kExitAgree);
}

// ---- Ending early

TEST(CliGenerate, a_signal_ends_it_after_a_step) {
  const auto some_done = [](const CommandResult& so_far) {
    return so_far.err.find(" steps at most\n") != std::string::npos;
  };
  for (const std::string batch : {"", " --tokens 1 --join 0,5"}) {
    const TestCommand kvcheck(KVCHECK_BINARY);
    const CommandResult result = kvcheck.run(
        "generate gen:wide:1:context8192 --tokens 0 --steps 8000 --csv steps.csv" + batch,
        {.signal = SIGINT, .ready = some_done});
    EXPECT_EQ(result.exit_code, kExitGaveUp) << everything(result);
    EXPECT_EQ(last_line(result.out),
              "verdict: gave-up, interrupted (nothing was compared or written)");
    EXPECT_THAT(files_in(kvcheck / "."), testing::IsEmpty());
  }
}

TEST(CliGenerate, its_time_may_be_bounded) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult result = kvcheck.run("generate --tokens 0 --trace --time 0");
  EXPECT_EQ(result.exit_code, kExitGaveUp) << everything(result);
  EXPECT_THAT(last_line(result.out), testing::HasSubstr("gave-up, interrupted ("));
}

}  // namespace
}  // namespace kvcheck
