// SPDX-License-Identifier: MIT
// kvcheck verify: from options to a run, and from its results to files, a table and one last line.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <nlohmann/json.hpp>
#include <thread>

#include "engine/echo.h"
#include "engine/error.h"
#include "engine/generated.h"
#include "reports/check_table.h"
#include "reports/merge.h"
#include "reports/run_folder.h"
#include "reports/run_writer.h"
#include "verify/cli.h"
#include "verify/progress.h"
#include "verify/stored.h"

namespace kvcheck {
namespace {

using Clock = std::chrono::steady_clock;

// Failures of one run that are printed as they happen, and that get a file of their own; all are in
// prefixes.csv.
constexpr int kFailuresPrinted = 10;
constexpr int kFailuresFiled = 1000;
// Failures of one run that are kept for the next one, which runs them all before anything else.
constexpr int kFailuresStored = 100;

std::atomic<bool> stop_requested{false};

void request_stop(int) { stop_requested.store(true); }

// Ends the run after a while.
class Deadline {
 public:
  explicit Deadline(std::optional<double> seconds) {
    if (!seconds) return;
    if (!(*seconds > 0)) {
      stop_requested.store(true);
      return;
    }
    thread_ = std::jthread([this, wait = *seconds](const std::stop_token& done) {
      std::unique_lock lock(mutex_);
      woken_.wait_for(lock, done, std::chrono::duration<double>(std::min(wait, 1e9)),
                      [] { return false; });
      if (!done.stop_requested()) stop_requested.store(true);
    });
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any woken_;
  std::jthread thread_;
};

template <typename Value>
Value choose(std::string_view option, std::string_view text,
             std::initializer_list<std::pair<std::string_view, Value>> choices) {
  std::string expected;
  for (const auto& [word, value] : choices) {
    if (word == text) return value;
    expected += fmt::format("{}{}", expected.empty() ? "" : ", ", word);
  }
  throw bad_input({option, "bad value", fmt::format("one of {}", expected), text});
}

SuiteOptions suite_options(const VerifyArguments& arguments) {
  using Arithmetics = std::vector<Arithmetic>;
  SuiteOptions options;
  options.arithmetics = choose<Arithmetics>("--arithmetic", arguments.arithmetic,
                                            {{"both", {Arithmetic::row, Arithmetic::matrix}},
                                             {"row", {Arithmetic::row}},
                                             {"matrix", {Arithmetic::matrix}}});
  options.scalar = choose<ScalarKind>("--scalar", arguments.scalar,
                                      {{"f32", ScalarKind::f32}, {"f64", ScalarKind::f64}});
  if (!arguments.schedules.empty()) {
    options.schedule_choice = choose<ScheduleChoice>("--schedules", arguments.schedules,
                                                     {{"decode", ScheduleChoice::decode},
                                                      {"single", ScheduleChoice::single},
                                                      {"all", ScheduleChoice::all}});
  }
  options.record_all = choose<bool>("--csv", arguments.csv, {{"failures", false}, {"full", true}});
  if (!arguments.tolerance.empty()) {
    options.tolerance = parse_policy(arguments.tolerance, "--tolerance");
    if (std::holds_alternative<RelativeLimit>(*options.tolerance)) {
      throw bad_input(
          {"--tolerance", "policy", "exact, abs:X or noise[:LIMIT]", arguments.tolerance});
    }
  }
  options.seed = arguments.seed;
  const unsigned cores = std::thread::hardware_concurrency();
  options.jobs = arguments.jobs.value_or(cores > 0 ? static_cast<int>(cores) : 1);
  // Naming one kind of option runs only the checks that it belongs to.
  options.prefixes = arguments.schedules.empty() || !arguments.prefixes.empty();
  options.schedules = arguments.prefixes.empty() || !arguments.schedules.empty();
  return options;
}

// Everything that a run is about; the models stay where they are.
struct Runs {
  std::deque<ModelData> models;
  std::vector<RandomRange> ranges;  // [models]
  std::vector<ModelRun> runs;       // [models]
};

// With an index only the random sequence of that number is run: on the model given, or on the one
// of the generated set that it belongs to.
std::vector<std::pair<std::string, RandomRange>> numbered_models(const VerifyArguments& arguments,
                                                                 int per_model) {
  const auto count = static_cast<std::uint64_t>(per_model);
  if (!arguments.model.empty()) {
    const bool one = arguments.index.has_value();
    return {{arguments.model, {arguments.seed, arguments.index.value_or(0), one ? 1 : per_model}}};
  }
  std::vector<std::pair<std::string, RandomRange>> named;
  std::uint64_t first = 0;
  for (const std::string& name : default_models(arguments.seed)) {
    if (!is_generated_name(name)) {
      if (!arguments.index) named.push_back({name, {arguments.seed, 0, per_model}});
      continue;
    }
    if (!arguments.index) named.push_back({name, {arguments.seed, first, per_model}});
    if (arguments.index && *arguments.index / count == first / count) {
      named.push_back({name, {arguments.seed, *arguments.index, 1}});
    }
    first += count;
  }
  if (named.empty()) {
    throw bad_input({"--index", "number of a random sequence", fmt::format("0 to {}", first - 1),
                     fmt::format("{}", *arguments.index)});
  }
  return named;
}

PrefixChoice prefix_choice(const VerifyArguments& arguments) {
  PrefixChoice choice;
  if (!arguments.prefixes.empty()) choice = parse_prefix_choice(arguments.prefixes);
  if (!arguments.index) return choice;
  if (choice.kind != PrefixChoice::Kind::standard && choice.kind != PrefixChoice::Kind::random) {
    throw bad_input(
        {"--index", "prefixes that are not random", "--prefixes random:N", arguments.prefixes});
  }
  choice.kind = PrefixChoice::Kind::random;
  return choice;
}

void load(const VerifyArguments& arguments, const SuiteOptions& options, Runs& to) {
  const PrefixChoice choice = prefix_choice(arguments);
  for (const auto& [name, range] : numbered_models(arguments, choice.random)) {
    const ModelData& model = to.models.emplace_back(load_model(name));
    const bool stored = !arguments.no_stored && !arguments.index;
    std::vector<SourceOfPrefixes> sources = sources_of(model, choice, range);
    if (options.schedules) {
      require_schedulable(options.schedule_choice, sources.back().tree.depth_max());
    }
    to.ranges.push_back(range);
    to.runs.push_back(
        {model, std::move(sources),
         stored ? load_stored(stored_failures_folder(), model, "builtin") : std::vector<Case>{}});
  }
}

RunManifest manifest(const VerifyArguments& arguments, const SuiteOptions& options,
                     const std::vector<std::string>& command, const Runs& runs) {
  RunManifest manifest = manifest_of_now();
  manifest.command = {"kvcheck"};
  manifest.command.insert(manifest.command.end(), command.begin(), command.end());
  manifest.seed = arguments.seed;
  for (const ModelData& model : runs.models) manifest.models.push_back({model.name, model.sha256});
  manifest.scalar = options.scalar;
  manifest.arithmetics = options.arithmetics;
  manifest.tolerance = options.tolerance;
  return manifest;
}

// A failure's file: the case, and what came of it.
std::string failure_json(const CaseRecord& record) {
  auto json = nlohmann::ordered_json::parse(to_json(record.subject));
  nlohmann::ordered_json outcome{{"verdict", name(record.result.verdict)}};
  if (record.result.row) {
    outcome["max_abs_difference"] = fmt::format("{}", record.result.row->max_abs_difference);
  }
  if (record.result.ratio) outcome["ratio"] = fmt::format("{}", *record.result.ratio);
  if (!record.result.note.empty()) outcome["note"] = record.result.note;
  json["outcomes"] = nlohmann::ordered_json::array({outcome});
  if (record.result.mark == Mark::flaky) {
    json["outcomes"].push_back({{"verdict", "no divergence when run again"}});
  }
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string what_happened(const CaseResult& result) {
  std::string text;
  if (result.row) text = fmt::format("largest difference {:.4g}", result.row->max_abs_difference);
  if (result.ratio) text += fmt::format(", {:.3g} times the noise floor", *result.ratio);
  if (!result.note.empty()) text += (text.empty() ? "" : "; ") + result.note;
  return text;
}

// Takes down what a run says, while it says it.
class Recorder final : public RunListener {
 public:
  Recorder(RunWriter& writer, Progress& progress, const Runs& runs, bool store)
      : writer_(writer), progress_(progress), runs_(runs), store_(store) {}

  void on_start(std::size_t checks) override { progress_.start(checks); }

  void on_failure(const CaseRecord& record) override {
    // Seen first, kept after that: keeping it may fail.
    if (++failures_ <= kFailuresPrinted) {
      progress_.say(fmt::format("{}: {} on {}{}: {}\n  {}\n", name(record.result.verdict),
                                record.check(), one_line(record.subject.model), numbered(record),
                                what_happened(record.result), repro_line(record.subject)));
    }
    if (failures_ == kFailuresPrinted) progress_.say("further failures are in the run's files\n");
    if (!store_ || record.result.verdict != Verdict::diverge || stored_ == kFailuresStored) return;
    ++stored_;
    store_failure(stored_failures_folder(), record.subject);
  }

  void on_record(const CaseRecord& record) override {
    const std::string line = repro_line(record.subject);
    writer_.add_row(record, line);
    if (record.result.verdict == Verdict::agree) return;
    const std::string key =
        fmt::format("{} on {} ({})", record.check(), one_line(record.subject.model),
                    name(record.subject.arithmetic));
    const auto same = [&](const auto& first) { return first.first == key; };
    if (std::ranges::none_of(first_, same)) first_.push_back({key, record});
    if (record.result.verdict == Verdict::gave_up || filed_ == kFailuresFiled) return;
    ++filed_;
    writer_.add_failure(failure_json(record));
  }

  void on_check(const CheckSummary& summary) override { progress_.check(summary.model); }

  // The first case of each check that did not agree.
  [[nodiscard]] std::string first_failures() const {
    std::string text;
    for (const auto& [key, record] : first_) {
      text +=
          fmt::format("\n{}: {}{}\n  {}\n  {}\n", name(record.result.verdict), key,
                      numbered(record), what_happened(record.result), repro_line(record.subject));
    }
    return text;
  }

 private:
  // The number of the random sequence that the case belongs to.
  [[nodiscard]] std::string numbered(const CaseRecord& record) const {
    for (std::size_t m = 0; m < runs_.runs.size(); ++m) {
      const ModelRun& run = runs_.runs[m];
      if (run.model.name != record.subject.model || run.sources.back().source != Source::random) {
        continue;
      }
      const auto number =
          find_random(run.model.weights.config, runs_.ranges[m], record.subject.tokens);
      if (number) return fmt::format(" (seed {}, index {})", runs_.ranges[m].seed, *number);
    }
    return "";
  }

  RunWriter& writer_;
  Progress& progress_;
  const Runs& runs_;
  const bool store_;
  int failures_ = 0;
  int filed_ = 0;
  int stored_ = 0;
  std::vector<std::pair<std::string, CaseRecord>> first_;
};

const ModelData* find_model(const Runs& runs, const std::string& name) {
  for (const ModelData& model : runs.models) {
    if (model.name == name) return &model;
  }
  return nullptr;
}

// A row a check and model; of a set of generated models those that agree share their rows.
std::vector<TableRow> table_rows(const RunResult& result, const Runs& runs) {
  std::vector<TableRow> rows;
  std::vector<CheckSummary> generated;
  const bool many = runs.models.size() > 2;
  for (const CheckSummary& summary : result.checks) {
    if (many && is_generated_name(summary.model) && summary.verdict == Verdict::agree) {
      generated.push_back(summary);
      continue;
    }
    const ModelData* model = find_model(runs, summary.model);
    rows.push_back(table_row(summary, model ? std::span<const std::string>(model->words)
                                            : std::span<const std::string>()));
  }
  std::size_t count = 0;
  for (const ModelData& model : runs.models) count += is_generated_name(model.name) ? 1 : 0;
  for (const CheckSummary& merged : merge_by_check(generated, fmt::format("{} generated", count))) {
    rows.push_back(table_row(merged, {}));
  }
  return rows;
}

// A difference that was published for a model, beside the one measured here.
std::string published(const RunResult& result, const Runs& runs) {
  std::string text;
  for (const CheckSummary& summary : result.checks) {
    const ModelData* model = find_model(runs, summary.model);
    // Row arithmetic differs by nothing, whatever was published.
    if (summary.check != "corpus-prefixes" || summary.arithmetic == Arithmetic::row ||
        model == nullptr || !model->published || !summary.worst_difference) {
      continue;
    }
    text += fmt::format(
        "{} on {} ({} arithmetic): {} prefixes, largest difference {:.5g}; {} has {:.5g}\n",
        summary.check, summary.model, name(summary.arithmetic), summary.counts.prefixes,
        summary.worst_difference->result.row->max_abs_difference, model->published->source,
        model->published->max_abs_difference);
  }
  return text;
}

std::string last_line(const RunResult& result, const RunSummary& summary, double seconds) {
  return fmt::format("verdict: {}{} ({} checks, {} cases, {} logits compared in {:.2f} s)\n",
                     name(result.verdict), result.interrupted ? ", interrupted" : "",
                     result.checks.size(), summary.compared.cases, summary.compared.logits,
                     seconds);
}

}  // namespace

int run_verify(const VerifyArguments& arguments, const std::vector<std::string>& command) {
  const auto start = Clock::now();
  const SuiteOptions options = suite_options(arguments);
  Runs runs;
  load(arguments, options, runs);
  std::signal(SIGINT, request_stop);
  std::signal(SIGTERM, request_stop);
  RunFolderRequest request;
  request.seed = arguments.seed;
  request.started = std::chrono::system_clock::now();
  if (!arguments.out.empty()) request.out = arguments.out;
  const std::filesystem::path folder = make_run_folder(request);
  RunWriter writer(folder, manifest(arguments, options, command, runs));
  Progress progress;
  Recorder recorder(writer, progress, runs, !options.tolerance);
  const Deadline deadline(arguments.time_seconds);
  const RunResult result = run_suite(options, runs.runs, builtin_engine, recorder, stop_requested);
  progress.finish();
  const RunSummary summary = run_summary(result);
  writer.finish(summary);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  print(check_table(table_rows(result, runs)) + published(result, runs) +
        recorder.first_failures() + fmt::format("files: {}\n", folder.string()) +
        last_line(result, summary, seconds));
  const int code = exit_code(result.verdict);
  return code == kExitAgree && result.interrupted ? kExitGaveUp : code;
}

}  // namespace kvcheck
