// SPDX-License-Identifier: MIT
// kvcheck cost as a user runs it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "verify/cli.h"
#include "verify/test_command.h"

namespace kvcheck {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

const std::string kPublished = std::string(KVCHECK_FIXTURES_DIR) + "/published/";

// A llama of three layers that every test may change.
const std::string kSmall =
    R"({"model_type": "llama", "vocab_size": 10, "hidden_size": 8, "num_hidden_layers": 3,
        "num_attention_heads": 4, "intermediate_size": 16, "max_position_embeddings": 32})";

TEST(CliCost, chapter8_is_counted_and_equals_the_formulas) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult result = kvcheck.run("cost");
  EXPECT_EQ(result.exit_code, kExitAgree) << everything(result);
  EXPECT_THAT(result.out, HasSubstr("model    chapter8: 2 layers, width 4, 2 query and 2 K/V"));
  EXPECT_THAT(result.out, HasSubstr("scores               [2, 4, 4], 10 of 16 pairs  [2, 1, 4] "));
  EXPECT_THAT(result.out, ContainsRegex("\n  prefill of 4\n    layers 0 to 1, each +256 +80 +256 "
                                        "+592 +732 +equal\n"));
  EXPECT_THAT(result.out,
              ContainsRegex("\n  uncached step at 4\n    layer 0 +256 +80 +256 +592 "
                            "+732 +equal\n    layer 1 +160 +32 +64 +256 +309 +equal\n"));
  EXPECT_THAT(result.out, HasSubstr("counted in the running engine at 4 tokens, by kind and layer: "
                                    "equal to the formulas\n"));
  EXPECT_THAT(result.out, ContainsRegex("\n  decode step at 4 +1,440 +256 +64 +1,760\n"));
  EXPECT_THAT(result.out, ContainsRegex("\n  16 +1,024 +1,024 +1,024 +512 +512  on paper\n"));
  EXPECT_THAT(result.out, ContainsRegex("\n  4 +1,312 +2,352 +1.79\n"));
  EXPECT_THAT(result.out, HasSubstr("Caching pays, in multiply-adds, from token 2 on\n"));
  EXPECT_THAT(result.out, Not(HasSubstr("time of a step")));
}

TEST(CliCost, of_models_with_weights_is_counted_whatever_wrote_them) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  for (const char* model : {"mistral", "qwen3", "gemma2", "qwen2/model.gguf"}) {
    const CommandResult result =
        kvcheck.run(std::string("cost ") + KVCHECK_FIXTURES_DIR + "/hf/" + model);
    EXPECT_EQ(result.exit_code, kExitAgree) << everything(result);
    EXPECT_THAT(result.out, HasSubstr("by kind and layer: equal to the formulas\n")) << model;
  }
}

TEST(CliCost, of_a_name_that_no_file_can_have_is_told) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult result = kvcheck.run("cost " + std::string(300, 'a') + ".gguf");
  EXPECT_EQ(result.exit_code, kExitUsage) << everything(result);
  EXPECT_THAT(result.err, HasSubstr("aaa.gguf: "));
}

TEST(CliCost, past_the_context_it_is_on_paper) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult result =
      kvcheck.run("cost chapter8-rotary --context 6 --batch 3 --scalar f64");
  EXPECT_EQ(result.exit_code, kExitAgree) << everything(result);
  EXPECT_THAT(result.out, HasSubstr("context 6, 3 sequences, f64 (8 bytes a number); past the "
                                    "model's context: on paper\n"));
  // Without a window 6 rows a layer of 2 x 2 x 4 numbers, with one of two rows 2.
  EXPECT_THAT(result.out, ContainsRegex("\n  6 +4,608 +3,072 .* on paper\n"));
  EXPECT_THAT(result.out, HasSubstr("1 of 2 layers have a window: a query sees 2 keys there"));
  EXPECT_THAT(result.out, HasSubstr("counted in the running engine at 4 tokens"));
  EXPECT_THAT(result.out, ContainsRegex("\n    all +[0-9,]+ .* -\n"));
}

TEST(CliCost, rows_of_a_file_are_those_of_the_table) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  EXPECT_EQ(kvcheck.run("cost chapter8 --csv cost.csv").exit_code, kExitAgree);
  const std::vector<std::string> lines = split(read_bytes(kvcheck / "cost.csv"), '\n');
  ASSERT_EQ(lines.size(), 10U);
  EXPECT_EQ(lines[0],
            "phase,length,sequences,layer,projections,attention,mlp,output,other_operations,"
            "counted");
  EXPECT_EQ(lines[1], "prefill,4,1,0,256,80,256,0,732,equal");
  EXPECT_EQ(lines[6], "decode,4,1,,0,0,0,32,45,equal");
  EXPECT_EQ(lines[8], "uncached,4,1,1,160,32,64,0,309,equal");
  EXPECT_EQ(complaint(kvcheck.run("cost chapter8 --csv cost.csv")),
            "--csv: output, expected a new file, got cost.csv");
  const CommandResult published =
      kvcheck.run_words({"cost", kPublished + "llama-3-8b", "--csv", "paper.csv"});
  EXPECT_EQ(published.exit_code, kExitAgree) << everything(published);
  EXPECT_THAT(read_bytes(kvcheck / "paper.csv"),
              HasSubstr("\ndecode,8192,1,31,41943040,67108864,176160768,0,,\n"));
}

TEST(CliCost, one_token_does_not_pay) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult result = kvcheck.run("cost gen:single-context:1");
  EXPECT_EQ(result.exit_code, kExitAgree) << everything(result);
  EXPECT_THAT(result.out, HasSubstr("caching does not pay within one token\n"));
}

TEST(CliCost, published_shapes_have_no_weights_to_run) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  for (const auto& [name, line] : std::vector<std::pair<std::string, std::string>>{
           {"llama-3-8b", "65,536 numbers, 131,072 bytes"},
           {"mistral-7b", "65,536 numbers, 131,072 bytes"},
           {"qwen2.5-7b", "28,672 numbers, 57,344 bytes"},
           {"gemma-2-9b", "172,032 numbers, 344,064 bytes"}}) {
    const CommandResult result = kvcheck.run_words({"cost", kPublished + name});
    EXPECT_EQ(result.exit_code, kExitAgree) << everything(result);
    EXPECT_THAT(result.out, HasSubstr(line)) << name;
    EXPECT_THAT(result.out, HasSubstr("by formula only: nothing was counted\n"));
    EXPECT_THAT(result.out, HasSubstr("bf16 (2 bytes a number)"));
  }
  const CommandResult mistral =
      kvcheck.run_words({"cost", kPublished + "mistral-7b/config.json", "--context", "8192"});
  EXPECT_THAT(mistral.out, ContainsRegex("\n  8,192 +1,073,741,824 +536,870,912 "));
  const CommandResult wide =
      kvcheck.run_words({"cost", kPublished + "llama-3-8b", "--scalar", "f32"});
  EXPECT_THAT(wide.out, HasSubstr("65,536 numbers, 262,144 bytes"));
}

TEST(CliCost, times_are_claimed_for_this_machine_only) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult result =
      kvcheck.run("cost gen:plain:1:context64 --context 48 --measure --time 20");
  EXPECT_EQ(result.exit_code, kExitAgree) << everything(result);
  EXPECT_THAT(result.out, ContainsRegex("\n  48 +[0-9.]+ us +[0-9.]+ us +[0-9.]+\n"));
  EXPECT_THAT(result.out,
              HasSubstr("  on this machine, for gen:plain:1:context64, from 8 to 48 tokens: the "
                        "time of an uncached step grows about as length^"));
  EXPECT_THAT(result.out, ContainsRegex("\n  48 +[0-9.]+ ms +[0-9.]+ ms +[0-9.]+ ms\n"));
  for (const char* const what : {"all cached steps", "one forward", "a forward for each prefix"}) {
    EXPECT_THAT(result.out, HasSubstr(fmt::format("the time of {} grows about as length^", what)));
  }
}

TEST(CliCost, without_a_time_nothing_is_claimed) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult result = kvcheck.run("cost chapter8 --measure --time 0");
  EXPECT_EQ(result.exit_code, kExitGaveUp) << everything(result);
  EXPECT_EQ(last_line(result.out), "  no time was taken: the time limit left every length out");
  EXPECT_THAT(result.out, Not(HasSubstr("time of a step")));
}

TEST(CliCost, a_signal_ends_measuring_and_keeps_what_was_measured) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult result =
      kvcheck.run("cost gen:wide:1:context4096 --measure --time 1000",
                  {.signal = SIGINT, .ready = [](const CommandResult& so_far) {
                     return so_far.err.find(" of 13 lengths\n") != std::string::npos;
                   }});
  EXPECT_EQ(result.exit_code, kExitGaveUp) << everything(result);
  EXPECT_THAT(result.out, ContainsRegex("\n  1 +[0-9.]+ us +[0-9.]+ us +[0-9.]+\n"));
  EXPECT_THAT(result.out, HasSubstr("\n  interrupted: longer ones are left out\n"));
}

TEST(CliCost, bad_options_are_told_in_one_line) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const std::string whole = "bad value, expected a whole number from 1 to 10^18, got ";
  for (const auto& [options, message] : std::vector<std::pair<std::string, std::string>>{
           {"--context 0", "--context: " + whole + "0"},
           {"--context -4", "--context: " + whole + "-4"},
           {"--context 4.5", "--context: " + whole + "4.5"},
           {"--context 1000000000000000001", "--context: " + whole + "1000000000000000001"},
           {"--context 99999999999999999999", "--context: " + whole + "99999999999999999999"},
           {"--context 1000000000000000000",
            "--context: too long for the counts, expected at most 908560296394 in a batch of 1, "
            "got 1000000000000000000"},
           {"--context 1000000000000 --batch 1000000000000",
            "--context: too long for the counts, expected at most 90856007 in a batch of "
            "1000000000000, got 1000000000000"},
           {"--batch 0", "--batch: " + whole + "0"},
           {"--scalar f16", "--scalar: bad value, expected f32 or f64, got f16"},
           {"--context 5 --measure", "--context: with --measure, expected at most 4, got 5"},
           {"--batch 2 --measure", "--batch: with --measure, expected 1, got 2"},
           {"--time 1", "--time: without --measure, expected --measure, got none"}}) {
    EXPECT_EQ(complaint(kvcheck.run("cost chapter8 " + options)), message) << options;
  }
}

// As large as is asked for, nothing is allocated for it.
TEST(CliCost, large_questions_take_no_memory) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  for (const std::string options :
       {"chapter8 --batch 1000000000000000000", "chapter8 --context 100000000000"}) {
    const CommandResult result = kvcheck.run("cost " + options);
    EXPECT_EQ(result.exit_code, kExitAgree) << everything(result);
  }
  // The counting engine would set the whole context aside for each sequence.
  EXPECT_THAT(kvcheck.run("cost gen:wide:1:context65536 --context 8 --batch 2").out,
              HasSubstr("by formula only: nothing was counted\n"));
  EXPECT_THAT(kvcheck.run("cost gen:wide:1:context65536 --context 8").out,
              HasSubstr("counted in the running engine at 8 tokens"));
  const CommandResult result =
      kvcheck.run_words({"cost", kPublished + "llama-3-8b", "--context", "1000000000"});
  EXPECT_EQ(result.exit_code, kExitAgree) << everything(result);
}

TEST(CliCost, bad_published_configurations_are_told_in_one_line) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  std::filesystem::create_directory(kvcheck / "m");
  const auto said = [&](const std::pair<std::string, std::string>& by) {
    write_bytes(kvcheck / "m/config.json", replaced(kSmall, by));
    return complaint(kvcheck.run("cost m"));
  };
  EXPECT_EQ(said({R"("vocab_size": 10,)", ""}),
            "m/config.json: vocab_size, expected a whole number of 32 bits, got none");
  EXPECT_EQ(said({R"("llama")", R"("bert")"}),
            "m/config.json: model_type, expected one of gpt2, llama, mistral, qwen2, qwen3, "
            "gemma2, got \"bert\"");
  EXPECT_THAT(said({"{", "{{"}), HasSubstr("m/config.json: malformed JSON"));
  write_bytes(kvcheck / "m/config.json", kSmall);
  EXPECT_EQ(complaint(kvcheck.run("cost m --measure")),
            "--measure: without weights, expected a model that can be run, got m");
  EXPECT_EQ(complaint(kvcheck.run("cost m --scalar int8")),
            "--scalar: bad value, expected bf16, f16, f32 or f64, got int8");
  EXPECT_EQ(complaint(kvcheck.run("cost nowhere")),
            "nowhere: model, expected a folder or a .gguf file, got none");
}

}  // namespace
}  // namespace kvcheck
