// SPDX-License-Identifier: MIT
// kvcheck verify: from options to a run, and from its results to files, a table and one last line.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "engine/echo.h"
#include "engine/error.h"
#include "engine/generated.h"
#include "reports/check_table.h"
#include "reports/invariants_text.h"
#include "reports/merge.h"
#include "reports/operations_text.h"
#include "reports/run_folder.h"
#include "reports/run_writer.h"
#include "verify/blank.h"
#include "verify/cli.h"
#include "verify/cli_process.h"
#include "verify/cli_recorder.h"
#include "verify/cli_runs.h"
#include "verify/progress.h"

namespace kvcheck {
namespace {

using Clock = std::chrono::steady_clock;

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
  if (!arguments.oracle.empty()) {
    options.oracle = choose<OracleChoice>(
        "--oracle", arguments.oracle,
        {{"per-prefix", OracleChoice::per_prefix}, {"full", OracleChoice::full}});
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
  // Naming one kind of option runs only the checks that it belongs to.
  const bool some = !arguments.prefixes.empty() || !arguments.schedules.empty() ||
                    (!arguments.operations.empty() && arguments.operations != "none");
  options.prefixes = !some || !arguments.prefixes.empty();
  options.schedules = !some || !arguments.schedules.empty();
  if (arguments.cache_kind != "all") {
    options.cache = cache_kind(arguments.cache_kind, "--cache-kind");
  }
  if (!some || !arguments.operations.empty()) options.operations = operation_choice(arguments);
  return options;
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

const ModelData* find_model(const Runs& runs, const std::string& name) {
  for (const ModelData& model : runs.models) {
    if (model.name == name) return &model;
  }
  return nullptr;
}

// A row for each kind of cache, arithmetic and policy, of all models that agree.
std::vector<TableRow> operation_rows(const std::vector<CheckSummary>& operations) {
  std::vector<CheckSummary> merged = merge_by_check(operations, "");
  const auto kind_and_arithmetic = [&](const CheckSummary& of) {
    const auto same = [&](const CheckSummary& other) { return other.cache_kind == of.cache_kind; };
    return std::pair(std::ranges::find_if(operations, same) - operations.begin(), of.arithmetic);
  };
  std::ranges::stable_sort(merged, {}, kind_and_arithmetic);
  std::vector<TableRow> rows;
  for (CheckSummary& sum : merged) {
    const auto same = [&](const CheckSummary& part) { return same_check(part, sum); };
    const auto models = std::ranges::count_if(operations, same);
    sum.model = models == 1 ? std::ranges::find_if(operations, same)->model
                            : fmt::format("{} models", models);
    rows.push_back(table_row(sum, {}));
  }
  return rows;
}

// A row a check and model; of a set of generated models those that agree share their rows.
std::vector<TableRow> table_rows(const RunResult& result, const Runs& runs) {
  std::vector<TableRow> rows;
  std::vector<CheckSummary> generated;
  std::vector<CheckSummary> operations;
  const bool many = runs.models.size() > 2;
  for (const CheckSummary& summary : result.checks) {
    if (many && summary.verdict == Verdict::agree) {
      if (summary.coverage) {
        operations.push_back(summary);
        continue;
      }
      if (is_generated_name(summary.model)) {
        generated.push_back(summary);
        continue;
      }
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
  for (TableRow& row : operation_rows(operations)) rows.push_back(std::move(row));
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
        summary.check, one_line(summary.model), name(summary.arithmetic), summary.counts.prefixes,
        summary.worst_difference->result.row->max_abs_difference, model->published->source,
        model->published->max_abs_difference);
  }
  return text;
}

// Where the oracle's rows are not all computed from their own tokens, a reader is told.
std::string oracle_text(const RunResult& result) {
  std::string text;
  std::string_view told;
  for (const CheckSummary& summary : result.checks) {
    if (!summary.full_oracle || summary.model == told) continue;
    told = summary.model;
    text += fmt::format(
        "oracle of {}: one forward of each sequence of {} tokens or more, and one of their own for "
        "prefixes of 1, 2, 4, 8 ... tokens (--oracle per-prefix: for all of them)\n",
        one_line(told), kBranchRowsMin);
  }
  return text;
}

// Agreement on such a model says nothing, whatever was compared.
std::vector<std::string> blank_models(const Runs& runs) {
  std::vector<std::string> blank;
  for (const ModelData& model : runs.models) {
    if (is_blank(model)) blank.push_back(one_line(model.name));
  }
  return blank;
}

std::string blank_text(const std::vector<std::string>& blank) {
  std::string text;
  for (const std::string& model : blank) {
    text +=
        fmt::format("warning: every logit of {} is the same: this model can show nothing\n", model);
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
  if (arguments.invariants) {
    print(invariants_list());
    return kExitAgree;
  }
  const auto start = Clock::now();
  stop_on_signals();
  start_clock(arguments.time_seconds);
  SuiteOptions options = suite_options(arguments);
  options.jobs = jobs_of(arguments.jobs);
  const Runs runs = load_runs(arguments, options, stop_requested());
  RunFolderRequest request;
  request.seed = arguments.seed;
  request.started = std::chrono::system_clock::now();
  if (!arguments.out.empty()) request.out = arguments.out;
  const std::filesystem::path folder = make_run_folder(request);
  RunWriter writer(folder, manifest(arguments, options, command, runs));
  Progress progress;
  Recorder recorder(writer, progress, arguments, runs, !options.tolerance);
  RunResult result = run_suite(options, runs.runs, builtin_engine, recorder, stop_requested());
  progress.finish();
  const std::vector<std::string> blank = blank_models(runs);
  if (!blank.empty() && blank.size() == runs.models.size()) {
    result.verdict = worst(result.verdict, Verdict::gave_up);
  }
  const RunSummary summary = run_summary(result);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const auto write = [&] {
    writer.finish(summary);
    recorder.require_files();
  };
  print_after(write, [&](bool written) {
    return check_table(table_rows(result, runs)) + published(result, runs) + oracle_text(result) +
           blank_text(blank) + invariants_text(summary.compared.invariants) +
           coverage_text(result.checks) + loss_text(result.checks) + recorder.first_failures() +
           (written ? fmt::format("files: {}\n", path_text(folder)) : "") +
           last_line(result, summary, seconds);
  });
  const int code = exit_code(result.verdict);
  return code == kExitAgree && result.interrupted ? kExitGaveUp : code;
}

}  // namespace kvcheck
