// SPDX-License-Identifier: MIT
// Parsing the command line, and the one place where exceptions become exit codes.
#include "verify/cli.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <limits>
#include <new>
#include <sstream>

#include "engine/echo.h"
#include "engine/error.h"
#include "engine/generate.h"
#include "verify/alarms.h"
#include "verify/progress.h"
#include "verify/quiz.h"

namespace kvcheck {
namespace {

constexpr std::array<std::string_view, 9> kCommands{
    "verify", "faults", "generate", "audit", "cost", "inspect", "repro", "report", "quiz"};

struct Arguments {
  VerifyArguments verify;
  FaultsArguments faults;
  GenerateArguments generate;
  AuditArguments audit;
  CostArguments cost;
  InspectArguments inspect;
  ReproArguments repro;
  ReportArguments report;
  QuizArguments quiz;
};

template <typename Number>
struct Range {
  Number least = 0;
  Number most = std::numeric_limits<Number>::max();
};

// More threads than any machine has, and few enough to start.
constexpr int kJobsMax = 1024;

// An option that holds its value as a number, or not at all; CLI11's own message would not say what
// is expected.
template <typename Number>
CLI::Option* add_number(CLI::App& command, const std::string& option, std::optional<Number>& value,
                        Range<Number> range, const std::string& expected, const std::string& help) {
  return command
      .add_option_function<std::string>(
          option,
          [&value, option, range, expected](const std::string& text) {
            Number number{};
            const char* const end = text.data() + text.size();
            const auto [next, error] = std::from_chars(text.data(), end, number);
            if (error != std::errc() || next != end ||
                !(number >= range.least && number <= range.most)) {
              throw bad_input({option, "bad value", expected, text});
            }
            value = number;
          },
          help)
      ->type_name("N");
}

void add_time(CLI::App& command, std::optional<double>& seconds) {
  add_number<double>(command, "--time", seconds, {}, "a number of seconds",
                     "seconds after which the run ends as interrupted");
}

// Options of every command that runs cases for a while.
template <typename Arguments>
void define_run(CLI::App& command, Arguments& to, std::optional<std::uint64_t>& seed) {
  add_number<std::uint64_t>(command, "--seed", seed, {}, "a whole number from 0 to 2^64 - 1",
                            "of generated models, random prefixes and operations (default: 1)");
  add_number<int>(command, "--jobs", to.jobs, {1, kJobsMax}, "a whole number from 1 to 1024",
                  "threads (default: all cores)");
  add_time(command, to.time_seconds);
  command.add_option("--out", to.out, "new or empty folder for the files of the run");
}

void define_verify(CLI::App& app, VerifyArguments& to, std::optional<std::uint64_t>& seed) {
  CLI::App& verify = *app.add_subcommand("verify", "compare cached with uncached logits");
  verify.add_option(
      "MODEL", to.model,
      "bundled name, folder, .gguf file, or gen:FAMILY:SEED (default: chapter8, chapter8-rotary "
      "and 20 generated models)");
  verify.add_option(
      "--prefixes", to.prefixes,
      "corpus, all, random:N (of up to 64 tokens), or a file with a sequence a line, of up to "
      "4096 tokens (default: corpus and "
      "all for models with a corpus, else random:16)");
  verify.add_option("--schedules", to.schedules,
                    "decode, single or all (default: all cuts up to 6 tokens, else decode and "
                    "single)");
  verify.add_option("--oracle", to.oracle,
                    "of prefixes that are not a whole vocabulary: per-prefix, a forward for each, "
                    "or full, one for each sequence of 16 tokens or more whose logits are at most "
                    "2^23 (default: by the work)");
  verify.add_option("--operations", to.operations,
                    "random:N, exhaustive:D, or none (default: random:16)");
  verify
      .add_option("--cache-kind", to.cache_kind,
                  "all (operations on every kind, the rest on flat), flat, growing, ring, "
                  "paged[:B], padded-left, padded-right, bf16, f16 or int8")
      ->capture_default_str();
  verify.add_option("--arithmetic", to.arithmetic, "both, row or matrix")->capture_default_str();
  verify.add_option("--scalar", to.scalar, "f32 or f64")->capture_default_str();
  verify.add_option("--tolerance", to.tolerance,
                    "exact, abs:X or noise[:LIMIT] instead of the model's default");
  define_run(verify, to, seed);
  add_number<std::uint64_t>(verify, "--index", to.index, {}, "a whole number",
                            "only the random sequence of this number");
  verify.add_option("--csv", to.csv, "failures (and the worst 1,000 cases a check), or full")
      ->capture_default_str();
  verify.add_flag("--no-stored", to.no_stored, "do not run stored failures first");
  verify.add_flag("--invariants", to.invariants, "say which invariants every run checks");
}

void define_faults(CLI::App& app, FaultsArguments& to, std::optional<std::uint64_t>& seed) {
  CLI::App& faults =
      *app.add_subcommand("faults", "plant known faults and show which checks see them");
  faults.add_option(
      "MODEL", to.model,
      "besides the smallest model of each fault: bundled name, folder, .gguf file, or "
      "gen:FAMILY:SEED (default: chapter8, chapter8-rotary and 20 generated models)");
  faults.add_option("--fault", to.fault, "only these: an id, or a pattern such as pos-*");
  faults.add_option("--checks", to.checks,
                    "only these, joined by commas; own and replicas stand for all of theirs");
  faults.add_flag("--list", to.list, "say which faults there are");
  faults.add_option("--explain", to.explain, "say what a fault is, and what shows it");
  faults.add_flag("--diagnosis", to.score,
                  "instead: how often the diagnosis names the fault that was planted");
  faults.add_flag("--severity", to.severity,
                  "instead: how small a disturbance of the cache each check still sees");
  add_number<int>(faults, "--alarms", to.alarms, {1, kAlarmTrialsMax},
                  "a whole number from 1 to 10000000",
                  "instead: alarms on so many random models and sequences without a fault");
  define_run(faults, to, seed);
}

void define_audit(CLI::App& app, AuditArguments& to) {
  CLI::App& audit = *app.add_subcommand("audit", "where a cached run first parts from the oracle");
  audit
      .add_option("SUBJECT", to.subject,
                  "kv1:... token or case file; with --tokens a model: bundled name, folder, .gguf "
                  "file, or gen:FAMILY:SEED")
      ->required();
  audit.add_option("--tokens", to.tokens, "ids or words, separated by blanks or commas");
  audit.add_option("--schedule", to.schedule,
                   "how the tokens are fed, as in 2+1+1 (default: one at a time)");
  audit.add_option("--fault", to.fault, "ID[:layerN][:onsetN][:amountN], planted in the engine");
  audit.add_option("--arithmetic", to.arithmetic, "row or matrix (default: the case's, or row)");
  audit.add_option("--scalar", to.scalar, "f32 or f64 (default: the case's, or f32)");
  audit.add_option("--cache-kind", to.cache_kind,
                   "flat, growing, ring, paged[:B], padded-left, padded-right, bf16, f16 or int8 "
                   "(default: the case's, or flat)");
  audit.add_option("--set", to.set,
                   "SITE[row R][...]=VALUE instead of the cached run's own, as in "
                   "layer1.key[row 2][head 0][3]=0.5");
  audit.add_option("--trace", to.trace, "new file for every value, as CSV");
  add_number<int>(audit, "--step", to.step, {1}, "a whole number from 1",
                  "show every number of this feed, or operation, beside the uncached one");
  audit.add_option("--model", to.model, "where the model of a case is now");
  add_time(audit, to.time_seconds);
}

// Several prompts are a batch, so that these two may be repeated.
void define_generate(CLI::App& app, GenerateArguments& to, std::optional<std::uint64_t>& seed) {
  CLI::App& generate =
      *app.add_subcommand("generate", "return tokens, with and without a cache side by side");
  generate.add_option("MODEL", to.model, "bundled name, folder, .gguf file, or gen:FAMILY:SEED")
      ->capture_default_str();
  // Taken as they are met, so that both options keep one order.
  const auto repeated = [&](const std::string& option, const char* help) {
    generate
        .add_option_function<std::string>(
            option,
            [&to, option](const std::string& text) {
              to.prompts.push_back({option, text});
            },
            help)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
        ->trigger_on_parse()
        ->type_name("TEXT");
  };
  repeated("--prompt", "ids or words, separated by blanks or commas; repeated: a batch");
  repeated("--tokens", "the same");
  generate.add_option("--batch", to.batch,
                      "file with a prompt a line; after @N it joins N steps later");
  generate.add_option("--join", to.join,
                      "steps that each request waits before it joins, as in 0,0,2");
  generate
      .add_option("--policy", to.policy,
                  "greedy, or any of temperature:T,top-k:K,top-p:P,min-p:P,penalty:R")
      ->capture_default_str();
  add_number<std::uint64_t>(generate, "--seed", seed, {}, "a whole number from 0 to 2^64 - 1",
                            "of the draws; request i of a batch has SEED + i (default: 1)");
  add_number<int>(generate, "--steps", to.steps, {1, kStepsMax}, "a whole number from 1 to 1000000",
                  "most tokens to return (default: 64)");
  add_time(generate, to.time_seconds);
  generate.add_option("--eos", to.eos, "id, word or none (default: <eos> of the vocabulary)");
  generate.add_option("--cache", to.cache, "both, on or off")->capture_default_str();
  generate.add_option("--arithmetic", to.arithmetic, "row or matrix")->capture_default_str();
  generate.add_option("--scalar", to.scalar, "f32 or f64")->capture_default_str();
  generate
      .add_option("--cache-kind", to.cache_kind,
                  "flat, growing, ring, paged[:B], padded-left, padded-right, bf16, f16 or int8")
      ->capture_default_str();
  generate.add_option("--fault", to.fault, "ID[:layerN][:onsetN][:amountN], planted in the engine");
  generate.add_flag("--trace", to.trace, "the shape of every tensor of every step");
  generate.add_option("--csv", to.csv, "new file with a row for each step of each run");
}

void define_cost(CLI::App& app, CostArguments& to) {
  CLI::App& cost = *app.add_subcommand("cost", "the work of decoding and the memory of its cache");
  cost.add_option("MODEL", to.model,
                  "bundled name, folder, .gguf file, gen:FAMILY:SEED[:contextN], or a folder with "
                  "a config.json of Hugging Face's form and no weights")
      ->capture_default_str();
  constexpr std::int64_t kMost = 1'000'000'000'000'000'000;
  const std::string whole = "a whole number from 1 to 10^18";
  add_number<std::int64_t>(cost, "--context", to.context, {1, kMost}, whole,
                           "tokens (default: the model's context; beyond it: on paper)");
  add_number<std::int64_t>(cost, "--batch", to.batch, {1, kMost}, whole,
                           "sequences of as many tokens side by side (default: 1)");
  cost.add_option("--scalar", to.scalar,
                  "f32 or f64 (default: f32); without weights bf16 (default) or f16, too");
  cost.add_flag("--measure", to.measure, "take the time of steps on this machine");
  add_number<double>(cost, "--time", to.time_seconds, {}, "a number of seconds",
                     "seconds for measuring (default: 10)");
  cost.add_option("--csv", to.csv, "new file for the work of each phase and layer");
}

void define_inspect(CLI::App& app, InspectArguments& to) {
  CLI::App& inspect = *app.add_subcommand("inspect", "what a model is and what its cache takes");
  inspect
      .add_option("MODEL", to.model,
                  "bundled name, folder, .gguf file, or gen:FAMILY:SEED[:contextN]")
      ->required();
  inspect.add_option("--rows", to.rows,
                     "ids or words: feed them, and show every K/V row after each step");
  inspect.add_option("--schedule", to.schedule,
                     "how they are fed, as in 2+1+1 (default: one at a time)");
  inspect.add_option("--cache-kind", to.cache_kind,
                     "flat (default), growing, ring, paged[:B], padded-left, padded-right, bf16, "
                     "f16 or int8");
  inspect.add_option("--scalar", to.scalar, "f32 (default) or f64");
}

void define_quiz(CLI::App& app, QuizArguments& to, std::optional<std::uint64_t>& seed) {
  CLI::App& quiz = *app.add_subcommand(
      "quiz",
      "questions on shapes, positions, memory, work, policies and faults; answers are read "
      "from stdin, one a line");
  add_number<std::uint64_t>(quiz, "--seed", seed, {}, "a whole number from 0 to 2^64 - 1",
                            "of the questions (default: 1)");
  add_number<int>(quiz, "--count", to.count, {1, kQuizMax}, "a whole number from 1 to 10000",
                  "questions (default: 10)");
  quiz.add_flag("--answers", to.answers, "print the questions with their answers");
}

void define(CLI::App& app, Arguments& to, std::optional<std::uint64_t>& seed) {
  app.set_version_flag("--version", std::string("kvcheck ") + KVCHECK_VERSION);
  app.require_subcommand(1);
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::Throw);
  define_verify(app, to.verify, seed);
  define_faults(app, to.faults, seed);
  define_generate(app, to.generate, seed);
  define_audit(app, to.audit);
  define_cost(app, to.cost);
  define_inspect(app, to.inspect);
  CLI::App& repro = *app.add_subcommand("repro", "run one case again");
  repro.add_option("CASE", to.repro.subject, "kv1:... token, or a case file")->required();
  repro.add_option("--model", to.repro.model, "where the model is now");
  repro.add_flag("--promote", to.repro.promote,
                 "keep the case in fixtures/regressions, for the tests of a checkout");
  repro.add_flag("--no-diagnosis", to.repro.no_diagnosis,
                 "do not look for known faults that explain what diverges");
  repro.add_flag("--signature", to.repro.signature,
                 "instead: which known faults look like this engine from outside, weights unknown");
  CLI::App& report = *app.add_subcommand("report", "the worst cases of a run");
  report.add_option("RUN", to.report.run, "folder of the run")->required();
  define_quiz(app, to.quiz, seed);
}

// CLI11 would only say that an argument was not expected.
void require_known_command(const std::vector<std::string>& words) {
  if (words.empty()) {
    throw bad_input({"command", "missing", fmt::format("one of {}", fmt::join(kCommands, ", ")),
                     "nothing; see kvcheck --help"});
  }
  if (words[0].starts_with('-')) return;
  if (std::ranges::find(kCommands, words[0]) != kCommands.end()) return;
  throw bad_input({one_line(words[0]), "unknown command",
                   fmt::format("one of {}", fmt::join(kCommands, ", ")), words[0]});
}

int run(const CLI::App& app, const Arguments& arguments, const std::vector<std::string>& words) {
  const std::string command = app.get_subcommands().front()->get_name();
  if (command == "verify") return run_verify(arguments.verify, words);
  if (command == "faults") return run_faults(arguments.faults, words);
  if (command == "generate") return run_generate(arguments.generate);
  if (command == "audit") return run_audit(arguments.audit);
  if (command == "cost") return run_cost(arguments.cost);
  if (command == "inspect") return run_inspect(arguments.inspect);
  if (command == "repro") return run_repro(arguments.repro);
  if (command == "quiz") return run_quiz(arguments.quiz);
  return run_report(arguments.report);
}

std::string before(const std::string& text, std::string_view end) {
  return text.substr(0, text.find(end));
}

// CLI11's complaints in the words of all others.
Error usage_error(const CLI::ParseError& error, const CLI::App& app, const std::string& first) {
  const bool of_program = first.starts_with('-');
  const std::string command = of_program ? "kvcheck" : one_line(first);
  const std::string help =
      of_program ? "kvcheck --help" : fmt::format("kvcheck {} --help", command);
  if (of_program || dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const std::string words =
        of_program ? first : fmt::format("{}", fmt::join(app.remaining(true), " "));
    return bad_input(
        {command, "unknown option or argument", fmt::format("what `{}` lists", help), words});
  }
  const std::string said = error.what();
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    return bad_input({command, "missing argument", before(said, " is required"), "nothing"});
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    constexpr std::string_view kCount = "received ";
    const auto count = said.rfind(kCount);
    return bad_input({before(said, ":"), "values", "one",
                      count == said.npos ? "none" : said.substr(count + kCount.size())});
  }
  return bad_input({command, "usage", fmt::format("what `{}` says", help), said});
}

// An empty value would otherwise be taken for none at all.
void require_values(const std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool assigned = words[i].starts_with("--") && words[i].ends_with('=');
    if (!words[i].empty() && !assigned) continue;
    const bool of_option = assigned || (i > 0 && words[i - 1].starts_with("--"));
    const std::string where = assigned ? words[i] : of_option ? words[i - 1] : "argument";
    throw bad_input({where, "empty", "a value", "nothing"});
  }
}

int parse_and_run(const std::vector<std::string>& words) {
  require_values(words);
  require_known_command(words);
  CLI::App app("kvcheck decides whether a KV cache gives the logits of a full recompute.",
               "kvcheck");
  Arguments arguments;
  std::optional<std::uint64_t> seed;
  define(app, arguments, seed);
  try {
    std::vector<std::string> reversed(words.rbegin(), words.rend());
    app.parse(reversed);
  } catch (const CLI::Success& help) {
    std::ostringstream text;
    const int code = app.exit(help, text, text);
    print(text.str());
    return code;
  } catch (const CLI::ParseError& error) {
    throw usage_error(error, app, words[0]);
  }
  arguments.verify.seed = arguments.faults.seed = arguments.generate.seed = arguments.quiz.seed =
      seed.value_or(arguments.verify.seed);
  return run(app, arguments, words);
}

int complain(int code, const std::string& text) {
  write_stderr(fmt::format("kvcheck: {}\n", text));
  return code;
}

// A stream that was closed would otherwise lend its number to the next file that is opened, and
// what is said there would land in that file. Writing to stdout then still fails, as it should;
// stderr is let go.
void open_standard_streams() {
  constexpr std::array kModes{O_RDONLY, O_RDONLY, O_WRONLY};
  for (int stream = 0; stream < static_cast<int>(kModes.size()); ++stream) {
    if (fcntl(stream, F_GETFD) != -1) continue;
    // Gets the lowest free number, which is this one.
    [[maybe_unused]] const int opened = open("/dev/null", kModes[static_cast<std::size_t>(stream)]);
  }
}

}  // namespace

int exit_code(Verdict verdict) {
  switch (verdict) {
    case Verdict::agree:
      return kExitAgree;
    case Verdict::diverge:
      return kExitDiverge;
    case Verdict::gave_up:
      return kExitGaveUp;
    case Verdict::broken:
      return kExitBroken;
  }
  return kExitInternal;
}

void print(std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (written && std::fflush(stdout) == 0) return;
  throw bad_input({"stdout", "cannot be written", "a writable output", std::strerror(errno)});
}

void print_after(const std::function<void()>& write,
                 const std::function<std::string(bool written)>& text) {
  try {
    write();
  } catch (const Error&) {
    print(text(false));
    throw;
  }
  print(text(true));
}

int run_command_line(int argc, const char* const* argv) {
  open_standard_streams();
  // A limit on file sizes, or a reader that went away, is then an error that names the file.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  try {
    return parse_and_run(words);
  } catch (const Error& error) {
    return complain(kExitUsage, error.what());
  } catch (const EngineError& error) {
    return complain(kExitBroken, error.what());
  } catch (const std::bad_alloc&) {
    return complain(kExitUsage, "memory: not enough, expected a smaller model or run, got none");
  } catch (const std::exception& error) {
    return complain(kExitInternal, fmt::format("internal error: {}", error.what()));
  }
}

}  // namespace kvcheck
