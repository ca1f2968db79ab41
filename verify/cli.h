// SPDX-License-Identifier: MIT
// The command line: what the commands take, and what they do. The only part that sees everything.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "verify/verdict.h"

namespace kvcheck {

// Exit codes.
inline constexpr int kExitAgree = 0;
inline constexpr int kExitDiverge = 1;
inline constexpr int kExitUsage = 2;   // or bad input
inline constexpr int kExitGaveUp = 3;  // or interrupted, or nothing compared
inline constexpr int kExitBroken = 4;  // the engine
inline constexpr int kExitInternal = 70;

[[nodiscard]] int exit_code(Verdict verdict);

struct VerifyArguments {
  std::string model;  // empty: the default set
  std::string prefixes;
  std::string schedules;
  std::string oracle;
  std::string operations;
  std::string cache_kind = "all";
  std::string arithmetic = "both";
  std::string scalar = "f32";
  std::string tolerance;
  std::uint64_t seed = 1;
  std::optional<std::uint64_t> index;
  std::optional<int> jobs;
  std::optional<double> time_seconds;
  std::string out;
  std::string csv = "failures";
  bool no_stored = false;
  bool invariants = false;  // only list them
};

struct FaultsArguments {
  std::string model;   // empty: the default set
  std::string fault;   // id or pattern; empty: all
  std::string checks;  // ids joined by commas; empty: all
  bool list = false;
  std::string explain;  // id
  // Instead of the matrix:
  bool score = false;         // how often the diagnosis names what was planted
  bool severity = false;      // how small a disturbance each check still sees
  std::optional<int> alarms;  // of so many trials without a fault
  std::uint64_t seed = 1;
  std::optional<int> jobs;
  std::optional<double> time_seconds;
  std::string out;
};

struct CostArguments {
  std::string model = "chapter8";
  std::optional<std::int64_t> context;  // none: the model's
  std::optional<std::int64_t> batch;    // none: one sequence
  std::string scalar;                   // empty: f32, or bf16 where there are no weights
  bool measure = false;
  std::optional<double> time_seconds;  // of measuring
  std::string csv;                     // new file; empty: none
};

struct InspectArguments {
  std::string model;
  std::string rows;        // tokens whose K/V rows are shown; empty: none
  std::string schedule;    // empty: one token at a time
  std::string cache_kind;  // empty: flat
  std::string scalar;      // empty: f32
};

struct ReproArguments {
  std::string subject;  // token or file
  std::string model;    // instead of the one that it names
  bool promote = false;
  bool no_diagnosis = false;
  bool signature = false;  // what the engine looks like from outside
};

struct AuditArguments {
  std::string subject;     // token, case file, or model with tokens
  std::string tokens;      // ids or words; empty: the subject is a case
  std::string schedule;    // empty: one token at a time
  std::string fault;       // empty: none
  std::string arithmetic;  // down to cache_kind: empty for the case's own
  std::string scalar;
  std::string cache_kind;
  std::string set;          // a value, see set_value.h
  std::string trace;        // file
  std::optional<int> step;  // of which every number is shown, from 1
  std::optional<double> time_seconds;
  std::string model;  // instead of the one that a case names
};

struct GenerateArguments {
  std::string model = "chapter8";
  struct Prompt {
    std::string option;  // that it was given with
    std::string text;    // ids or words
  };
  std::vector<Prompt> prompts;  // each a request, in the order given
  std::string batch;            // file with a request a line, before them
  std::string join;             // steps to wait, one a request, joined by commas
  std::string policy = "greedy";
  std::string eos;  // empty: the vocabulary's <eos>
  std::string cache = "both";
  std::string arithmetic = "row";
  std::string scalar = "f32";
  std::string cache_kind = "flat";
  std::string fault;  // empty: none
  std::uint64_t seed = 1;
  std::optional<int> steps;
  std::optional<double> time_seconds;
  bool trace = false;
  std::string csv;  // file
};

struct QuizArguments {
  std::uint64_t seed = 1;
  std::optional<int> count;
  bool answers = false;  // print them instead of asking
};

struct ReportArguments {
  std::string run;  // folder
};

// Each prints to stdout and gives the exit code; bad input is thrown.
[[nodiscard]] int run_verify(const VerifyArguments& arguments,
                             const std::vector<std::string>& command);
[[nodiscard]] int run_faults(const FaultsArguments& arguments,
                             const std::vector<std::string>& command);
[[nodiscard]] int run_cost(const CostArguments& arguments);
[[nodiscard]] int run_inspect(const InspectArguments& arguments);
[[nodiscard]] int run_repro(const ReproArguments& arguments);
[[nodiscard]] int run_audit(const AuditArguments& arguments);
[[nodiscard]] int run_generate(const GenerateArguments& arguments);
[[nodiscard]] int run_quiz(const QuizArguments& arguments);
[[nodiscard]] int run_report(const ReportArguments& arguments);

// Parses and runs; never throws. Complaints go to stderr as "kvcheck: <where>: <what>, expected
// <x>, got <y>".
[[nodiscard]] int run_command_line(int argc, const char* const* argv);

// Writes to stdout; throws Error when it cannot be written.
void print(std::string_view text);
// Writes files, then prints the text, which may say whether they are there. Where they cannot be
// written it is printed as well, and their Error goes on: what was found is not lost with them.
void print_after(const std::function<void()>& write,
                 const std::function<std::string(bool written)>& text);

}  // namespace kvcheck
