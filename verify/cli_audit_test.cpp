// SPDX-License-Identifier: MIT
// kvcheck audit as a user runs it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <map>
#include <set>
#include <string>

#include "engine/generated.h"
#include "reports/trace_row.h"
#include "verify/case_text.h"
#include "verify/cli.h"
#include "verify/models.h"
#include "verify/replay.h"
#include "verify/test_command.h"

namespace kvcheck {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

CommandResult audit(const TestCommand& kvcheck, const std::vector<std::string>& options,
                    const std::string& tokens = "0 1 2 3") {
  std::vector<std::string> words{"audit", "tiny:rotary:1", "--tokens", tokens};
  words.insert(words.end(), options.begin(), options.end());
  return kvcheck.run_words(words);
}

TEST(CliAudit, a_right_engine_agrees_everywhere) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  for (const std::string arithmetic : {"row", "matrix"}) {
    const CommandResult result =
        audit(kvcheck, {"--arithmetic", arithmetic, "--scalar", "f64", "--schedule", "2+1+1"});
    EXPECT_EQ(result.exit_code, kExitAgree) << everything(result);
    EXPECT_THAT(result.out, HasSubstr("\nfeed 3, tokens 3\n"));
    EXPECT_THAT(result.out, ContainsRegex("\n +1  stored key +[0-9,]+ +row 3 key"));
    EXPECT_THAT(last_line(result.out), ContainsRegex("verdict: agree \\([0-9,]+ numbers"));
    EXPECT_THAT(result.out, Not(HasSubstr("first divergence")));
  }
}

TEST(CliAudit, names_where_a_fault_first_shows) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult result = audit(kvcheck, {"--fault", "pos-decode-offset:onset2:amount-1"});
  EXPECT_EQ(result.exit_code, kExitDiverge) << everything(result);
  EXPECT_THAT(result.out, HasSubstr("\nfirst divergence: feed 3 (tokens 2): position: row 2: "
                                    "position 1 where 2 was expected\n"));
  EXPECT_THAT(result.out, ContainsRegex("position +[0-9]+ +row 2: position 1 where 2 was expected "
                                        "+diverge  <- first\n"));
  EXPECT_THAT(result.out, HasSubstr("\nfault      pos-decode-offset:onset2:amount-1: feeds to a"));
}

TEST(CliAudit, a_fault_that_changes_nothing_is_told) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult result =
      audit(kvcheck, {"--fault", "pos-decode-offset:onset3:amount1"}, "0 1");
  EXPECT_EQ(result.exit_code, kExitAgree) << everything(result);
  EXPECT_THAT(result.out, HasSubstr("\nthe fault changed nothing in this case\n"));
}

TEST(CliAudit, a_case_is_audited_as_it_was_found) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  save_diverging_model(kvcheck / "model");
  const CommandResult run = kvcheck.run("verify model --no-stored --prefixes random:2 --out run");
  const std::string line = repro_lines(run.out).at(0);
  const std::string token = line.substr(std::string_view("kvcheck repro ").size());
  // The model promises bits that matrix arithmetic does not keep: every site is within its noise.
  const CommandResult result = kvcheck.run_words({"audit", token});
  EXPECT_EQ(result.exit_code, kExitAgree) << everything(result);
  EXPECT_THAT(result.out, HasSubstr("largest ratio of what agrees: "));
}

// On chapter8 in row arithmetic.
Case check_of_chapter8(std::string_view check, std::vector<int> tokens, Schedule schedule) {
  Case subject;
  subject.check = check;
  subject.model = "chapter8";
  subject.model_hash = short_hash(load_model("chapter8"));
  subject.arithmetic = Arithmetic::row;
  subject.tokens = std::move(tokens);
  subject.schedule = std::move(schedule);
  return subject;
}

TEST(CliAudit, a_case_of_a_fault_has_it_again) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  Case subject = check_of_chapter8("schedules", {0, 2, 4}, {1, 1, 1});
  subject.fault = "pos-decode-offset:onset1:amount1";
  const CommandResult result = kvcheck.run_words({"audit", to_token(subject)});
  EXPECT_EQ(result.exit_code, kExitDiverge) << everything(result);
  EXPECT_THAT(result.out, HasSubstr("feed 2 (tokens 2): position: row 1: position 2 where 1 was"));
  EXPECT_THAT(result.out, HasSubstr("\nfault      pos-decode-offset:onset1:amount1: feeds to a"));
}

// The command that the check of generation prints runs into the same fault.
TEST(CliAudit, a_generation_with_a_fault_says_how_to_repeat_it) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  Case subject = check_of_chapter8("generation", {0, 6}, {2});
  subject.siblings = true;
  subject.fault = "pos-decode-offset:onset1:amount-1";
  const CommandResult found = kvcheck.run_words({"repro", to_token(subject)});
  EXPECT_EQ(found.exit_code, kExitDiverge) << everything(found);
  const std::size_t begin = found.out.find("kvcheck generate ");
  ASSERT_NE(begin, found.out.npos);
  const std::size_t end = found.out.find('\n', begin);
  const std::string line = found.out.substr(begin + 8, end - begin - 8);
  EXPECT_THAT(line, testing::EndsWith(" --fault " + subject.fault));
  EXPECT_EQ(kvcheck.run(line).exit_code, kExitDiverge) << line;
}

TEST(CliAudit, a_case_is_carried_out_as_its_check_does) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const std::string rolls_back = to_token(check_of_chapter8("accounting", {0, 2, 4, 6}, {4}));
  const CommandResult right = kvcheck.run_words({"audit", rolls_back});
  EXPECT_EQ(right.exit_code, kExitAgree) << everything(right);
  EXPECT_THAT(right.out, HasSubstr("\n  step   2  roll back to 2              agrees\n"));
  const CommandResult wrong =
      kvcheck.run_words({"audit", rolls_back, "--fault", "truncate-pos-kept"});
  EXPECT_EQ(wrong.exit_code, kExitDiverge) << everything(wrong);
  EXPECT_THAT(wrong.out, HasSubstr("first divergence: step 3 (tokens 4 6): position: row 2: "
                                   "position 3 where 2 was expected"));
  Case beside = check_of_chapter8("exact", {0, 2}, {1, 1});
  beside.siblings = true;
  const CommandResult siblings = kvcheck.run_words({"audit", to_token(beside), "--step", "9"});
  EXPECT_EQ(siblings.exit_code, kExitAgree) << everything(siblings);
  EXPECT_THAT(siblings.out, HasSubstr("\nstep 9, batch of 8: tokens 0 | 1 | 2 | 3 | 4 | 5"));
  EXPECT_EQ(complaint(kvcheck.run_words({"audit", to_token(beside), "--step", "19"})),
            "--step: step, expected 1 to 18, got 19");
}

TEST(CliAudit, a_value_that_is_set_is_shown_with_what_follows) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult result = audit(kvcheck, {"--set", "layer0.value[row 1][head 0][0]=9"});
  EXPECT_EQ(result.exit_code, kExitDiverge) << everything(result);
  EXPECT_THAT(result.out, HasSubstr("first divergence: feed 2 (tokens 1): layer 0, value, K/V head "
                                    "0, row 1, column 0: 9 where "));
  EXPECT_THAT(result.out, ContainsRegex("feed +1  tokens 0 +agrees\n"));
  EXPECT_THAT(result.out, ContainsRegex("feed +3  tokens 2 +layer 0, stored value; logits differ"));
}

TEST(CliAudit, of_operations_that_feed_nothing_gives_up) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const ModelData model = load_model("tiny:rotary:1");
  const Case subject{.check = std::string(kOperationsCheck),
                     .model = model.name,
                     .model_hash = short_hash(model),
                     .arithmetic = Arithmetic::row,
                     .tokens = {},
                     .schedule = {},
                     .operations = parse_operations("open.open", "test")};
  const CommandResult result = kvcheck.run_words({"audit", to_token(subject)});
  EXPECT_EQ(result.exit_code, kExitGaveUp) << everything(result);
}

TEST(CliAudit, the_trace_is_a_file_of_every_value) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult result =
      audit(kvcheck, {"--trace", "trace.csv", "--fault", "pos-decode-offset:onset2:amount-1"});
  EXPECT_EQ(result.exit_code, kExitDiverge) << everything(result);
  std::map<std::int64_t, std::int64_t> different;  // by step
  std::set<std::string> sites;
  read_trace(kvcheck / "trace.csv", [&](const TraceRow& row) {
    sites.insert(row.site);
    if (row.uncached != row.cached) ++different[row.step];
  });
  EXPECT_EQ(sites.size(), 19U);
  EXPECT_EQ(different.count(1) + different.count(2), 0U);
  EXPECT_GT(different[3], 0);
  EXPECT_GT(different[4], 0) << "the run goes on";
}

TEST(CliAudit, bad_input_is_one_line) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const auto refusal = [&](const std::vector<std::string>& options,
                           const std::string& tokens = "0 1 2 3") {
    return complaint(audit(kvcheck, options, tokens));
  };
  EXPECT_THAT(refusal({"--schedule", "2+1"}),
              HasSubstr("--schedule: schedule, expected 4 tokens in all, got 2+1"));
  EXPECT_THAT(refusal({"--arithmetic", "both"}),
              HasSubstr("--arithmetic: bad value, expected one of row, matrix, got both"));
  EXPECT_THAT(refusal({"--fault", "no-such"}), HasSubstr("--fault: unknown fault, expected"));
  EXPECT_THAT(refusal({"--fault", "pos-retained-count"}),
              HasSubstr("--fault: pos-retained-count on tiny:rotary:1, expected a model with: "));
  EXPECT_THAT(refusal({"--set", "logits[row 0]=1"}),
              HasSubstr("--set: value to set, expected logits[row R][C]=VALUE, got"));
  EXPECT_THAT(refusal({"--set", "logits[row 7][0]=1"}),
              HasSubstr("--set: no such value in this run, expected a row that is fed, and a key "
                        "that it sees, got logits[row 7][0]=1"));
  EXPECT_THAT(refusal({}, "0 999"), HasSubstr("--tokens"));
  write_bytes(kvcheck / "there.csv", "mine");
  EXPECT_EQ(refusal({"--trace", "there.csv"}),
            "--trace: output, expected a new file, got there.csv");
  EXPECT_EQ(read_bytes(kvcheck / "there.csv"), "mine");
  EXPECT_EQ(refusal({"--model", "chapter8"}),
            "--model: with --tokens, expected the model as SUBJECT, got chapter8");
  EXPECT_THAT(refusal({"--trace", "no/such/folder/x.csv"}), HasSubstr("no/such/folder"));
  EXPECT_THAT(complaint(kvcheck.run("audit gen:plain:1")), Not(HasSubstr("acted otherwise")));
  EXPECT_THAT(complaint(kvcheck.run_words({"audit", "kv1:x", "--schedule", "1"})),
              HasSubstr("--schedule: without tokens, expected --tokens, got 1"));
  EXPECT_EQ(files_in(kvcheck / "."), std::vector<std::string>{"there.csv"});
}

TEST(CliAudit, every_number_of_one_step_is_shown) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult result =
      kvcheck.run_words({"audit", "chapter8", "--tokens", "<bos> the cat sat", "--step", "3"});
  EXPECT_EQ(result.exit_code, kExitAgree) << everything(result);
  EXPECT_THAT(result.out, HasSubstr("\nfeed 3, tokens 4, row 2\n"));
  std::size_t at = 0;
  for (const std::string title :
       {"\n  embedding\n    embedding ", "\nlayer 0\n",
        "\n  projection of query, key and value\n    normed ",
        "\n  append: the rows of the cache, as they are read\n    stored key, row 0",
        "\n  scores: query x key, scaled\n    scores, head 0 ",
        "\n  softmax: how much of each row\n    probabilities, head 0 ",
        "\n  context: the sum of values\n    context, heads 0 to 1 ",
        "\n  residual: what attention adds\n    attention output ",
        "\n  MLP, and the residual it adds to\n    normed ",
        "\nlayer 1\n  projection of query, key and value\n", "\n  logits\n    normed "}) {
    const std::size_t next = result.out.find(title, at);
    ASSERT_NE(next, std::string::npos) << title;
    at = next;
  }
  // Two screens; heads of two numbers share a line.
  EXPECT_LT(split(result.out, '\n').size(), 80U);
  EXPECT_THAT(result.out, ContainsRegex("\n    stored key, row 1, heads 0 to 1 +-0.5091 +-0.2096 +"
                                        "-0.4827 +1.35 \\| +-0.5091 +-0.2096 +-0.4827 +1.35 +"
                                        "same bits\n"));
  EXPECT_THAT(result.out, ContainsRegex("\n    stored key, new row, heads 0 to 1 "));
  EXPECT_THAT(result.out, ContainsRegex("\n    scores, head 1( +-?[0-9.e-]+){3} +\\|( "
                                        "+-?[0-9.e-]+){3} +same bits\n"));
  EXPECT_THAT(result.out, Not(HasSubstr("<- ")));
  EXPECT_THAT(result.out, Not(HasSubstr("ratio  verdict")));
}

TEST(CliAudit, a_step_shows_what_a_fault_does_to_it) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult result =
      audit(kvcheck, {"--fault", "pos-decode-offset:onset2:amount-1", "--step", "3"});
  EXPECT_EQ(result.exit_code, kExitDiverge) << everything(result);
  EXPECT_THAT(result.out, ContainsRegex("\n    value, head 0 .* same bits\n"));
  EXPECT_THAT(result.out, ContainsRegex("\n    key, head 0 .* <- [0-9.e-]+ apart, [0-9]+ ULPs\n"));
  EXPECT_THAT(result.out, HasSubstr("first divergence: feed 3"));
}

TEST(CliAudit, a_step_of_several_rows_names_them) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult result = audit(kvcheck, {"--schedule", "3+1", "--step", "1"});
  EXPECT_THAT(result.out, HasSubstr("\nfeed 1, tokens 0 1 2\n"));
  EXPECT_THAT(result.out, HasSubstr("\n    row 2: stored key, row 1, head 0 "));
  EXPECT_THAT(result.out, HasSubstr("\n    row 2: stored key, new row, head 0 "));
}

TEST(CliAudit, a_large_step_is_cut_and_says_so) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  std::string tokens = "0";
  for (int i = 0; i < 29; ++i) tokens += " 1";
  const CommandResult result = kvcheck.run_words(
      {"audit", "gen:deep:1:context64", "--tokens", tokens, "--schedule", "29+1", "--step", "2"});
  EXPECT_EQ(result.exit_code, kExitAgree) << everything(result);
  EXPECT_THAT(result.out, HasSubstr("\n    ... 22 rows ...\n"));
  EXPECT_THAT(result.out, HasSubstr("... 14 numbers ...\n"));
  EXPECT_THAT(result.out, HasSubstr("\n... 4 layers ...\n"));
  // A window of 20 rows has fewer to leave out.
  Config config = generate_model("gen:deep:1:context64").config;
  config.windows.assign(config.windows.size(), 20);
  config.query_heads = config.kv_heads = 2;
  save_model(kvcheck / "model", random_model(config, WeightScales{}, 1));
  const CommandResult windowed = kvcheck.run_words(
      {"audit", "model", "--tokens", tokens, "--schedule", "29+1", "--step", "2"});
  EXPECT_EQ(windowed.exit_code, kExitAgree) << everything(windowed);
  EXPECT_THAT(windowed.out, HasSubstr("\n    ... 14 rows ...\n"));
}

TEST(CliAudit, a_step_that_there_is_not_is_refused) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  EXPECT_EQ(complaint(audit(kvcheck, {"--step", "5"})), "--step: step, expected 1 to 4, got 5");
  EXPECT_EQ(complaint(audit(kvcheck, {"--step", "0"})),
            "--step: bad value, expected a whole number from 1, got 0");
}

TEST(CliAudit, a_model_needs_tokens) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  EXPECT_EQ(complaint(kvcheck.run("audit chapter8 --step 2")),
            "audit: SUBJECT without --tokens, expected a kv1:... token or case file, or --tokens "
            "for a model, got chapter8");
  EXPECT_EQ(audit(kvcheck, {}, "0, 2 ,4").exit_code, kExitAgree);
  EXPECT_EQ(complaint(audit(kvcheck, {}, "0, ,2")),
            "--tokens: an empty token, expected a token on either side of each comma, got 0, ,2");
  EXPECT_EQ(complaint(audit(kvcheck, {}, "0,,2")),
            "--tokens: an empty token, expected a token on either side of each comma, got 0,,2");
  EXPECT_EQ(audit(kvcheck, {}, "0,1").exit_code, kExitAgree);
}

TEST(CliAudit, what_is_not_a_number_has_no_distance) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult step =
      audit(kvcheck, {"--set", "layer0.value[row 1][head 0][0]=nan", "--step", "2"});
  EXPECT_EQ(step.exit_code, kExitDiverge) << everything(step);
  EXPECT_THAT(step.out, ContainsRegex("\n +value, .* <- not a number\n"));
  const CommandResult table = audit(kvcheck, {"--set", "layer0.value[row 1][head 0][0]=nan"});
  EXPECT_THAT(table.out, ContainsRegex("\n +0  value .* nan +nan .* diverge  <- first\n"));
  for (const CommandResult& result : {step, table}) {
    EXPECT_THAT(result.out, Not(HasSubstr("18446744073709551615")));
  }
}

// ---- Ending early

const std::string kLong = [] {
  std::string tokens;
  for (int i = 0; i < 6000; ++i) tokens += std::to_string(i % 7) + " ";
  return tokens;
}();

std::vector<std::string> long_audit(const std::vector<std::string>& options) {
  std::vector<std::string> words{"audit", "gen:wide:1:context8192", "--tokens", kLong};
  words.insert(words.end(), options.begin(), options.end());
  return words;
}

TEST(CliAudit, a_signal_ends_it_after_a_step_and_leaves_no_file) {
  const auto some_done = [](const CommandResult& so_far) {
    return so_far.err.find(" of 6000 feeds\n") != std::string::npos;
  };
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const TestCommand kvcheck(KVCHECK_BINARY);
    const CommandResult result = kvcheck.run_words(long_audit({"--trace", "trace.csv"}),
                                                   {.signal = signal, .ready = some_done});
    EXPECT_EQ(result.exit_code, kExitGaveUp) << everything(result);
    EXPECT_THAT(last_line(result.out), ContainsRegex("verdict: agree, interrupted \\([1-9]"));
    EXPECT_THAT(result.out, HasSubstr("\nthe trace, which is not complete, was not written\n"));
    EXPECT_THAT(files_in(kvcheck / "."), testing::IsEmpty());
  }
}

TEST(CliAudit, its_time_may_be_bounded) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult none = kvcheck.run_words(long_audit({"--time", "0"}));
  EXPECT_EQ(none.exit_code, kExitGaveUp) << everything(none);
  EXPECT_THAT(last_line(none.out), HasSubstr("gave-up, interrupted (0 numbers"));
  const CommandResult wrong = audit(kvcheck, {"--time", "soon"});
  EXPECT_EQ(complaint(wrong), "--time: bad value, expected a number of seconds, got soon");
}

}  // namespace
}  // namespace kvcheck
