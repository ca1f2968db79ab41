// SPDX-License-Identifier: MIT
// kvcheck faults: from options to the kill matrix, and from it to files, tables and one last line.
#include "verify/cli_faults.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <filesystem>
#include <utility>

#include "engine/echo.h"
#include "engine/error.h"
#include "engine/features.h"
#include "properties/operations_gen.h"
#include "reports/faults_text.h"
#include "reports/faults_writer.h"
#include "reports/run_folder.h"
#include "verify/alarms.h"
#include "verify/cli.h"
#include "verify/cli_process.h"
#include "verify/diagnosis_score.h"
#include "verify/models.h"
#include "verify/progress.h"
#include "verify/severity.h"

namespace kvcheck {
namespace {

// Layers of the smallest models.
constexpr int kTinyLayers = 2;
// A name may be of a layer that only deeper models have.
constexpr int kNamedLayers = 256;

// Tells of progress and writes rows down.
class MatrixRecorder final : public MatrixListener {
 public:
  MatrixRecorder(FaultsWriter& writer, Progress& progress) : writer_(writer), progress_(progress) {}

  void on_start(std::size_t rows) override { progress_.start(rows); }
  void on_row(const MatrixRow& row) override {
    writer_.add_row(row);
    progress_.check(std::string(row.variant.fault->id));
  }

 private:
  FaultsWriter& writer_;
  Progress& progress_;
};

std::vector<const Fault*> named_faults(const std::string& pattern) {
  std::vector<const Fault*> found;
  for (const Fault& fault : faults()) {
    const std::vector<FaultVariant> all = variants(fault, kNamedLayers);
    const bool named =
        pattern.empty() || std::ranges::any_of(all, [&](const FaultVariant& variant) {
          return names_fault(pattern, variant);
        });
    if (named) found.push_back(&fault);
  }
  if (!found.empty()) return found;
  throw bad_input({"--fault", "no such fault",
                   "an id that kvcheck faults --list shows, or a pattern such as pos-*", pattern});
}

// ---- Instead of the matrix

// Of the faults that a check shows, the diagnosis must name so many.
constexpr double kNamedShare = 0.95;

// What was shown is of what came before.
int interrupted() {
  print("interrupted: what was not tried by then is counted as not seen\n");
  return kExitGaveUp;
}

int show_score(const FaultsArguments& arguments) {
  ScoreOptions options{.model = arguments.model,
                       .seed = arguments.seed,
                       .jobs = jobs_of(arguments.jobs),
                       .draw = random_operations};
  for (const Fault* fault : named_faults(arguments.fault)) {
    if (fault->expected != Expected::caught) continue;
    for (const FaultVariant& variant : variants(*fault, kTinyLayers)) {
      const bool wanted = arguments.fault.empty() || names_fault(arguments.fault, variant);
      if (wanted) options.wanted.push_back(variant);
    }
  }
  const auto scores = score_diagnosis(options, stop_requested());
  print(to_text(scores));
  if (stop_requested().load()) return interrupted();
  int caught = 0;
  int named = 0;
  for (const DiagnosisScore& score : scores) {
    caught += score.caught;
    named += score.named;
  }
  if (caught == 0) return kExitGaveUp;
  return named >= kNamedShare * caught ? kExitAgree : kExitDiverge;
}

int show_severity(const FaultsArguments& arguments) {
  const std::vector<std::string> names =
      arguments.model.empty() ? std::vector<std::string>{"chapter8", "chapter8-rotary"}
                              : std::vector<std::string>{arguments.model};
  for (const std::string& name : names) {
    const ModelData model = load_model(name);
    const ModelRun run{model, matrix_sources(model, arguments.seed), {}};
    const auto floors = detection_floors(run, {.seed = arguments.seed, .draw = random_operations},
                                         stop_requested());
    print(fmt::format("{}\n{}\n", one_line(name), to_text(floors)));
  }
  return stop_requested().load() ? interrupted() : kExitAgree;
}

int show_alarms(const FaultsArguments& arguments) {
  const AlarmCount count = count_alarms({.trials = *arguments.alarms,
                                         .seed = arguments.seed,
                                         .jobs = jobs_of(arguments.jobs),
                                         .draw = random_operations},
                                        builtin_engine, stop_requested());
  print(to_text(count));
  if (count.alarms > 0) return kExitDiverge;
  return stop_requested().load() ? kExitGaveUp : kExitAgree;
}

// What is asked for instead of the matrix, and which options mean nothing to it.
struct Mode {
  std::string_view option;
  bool asked;
  bool of_model;
  bool of_faults;
};

// An option that would be ignored is refused.
void require_one_mode(const FaultsArguments& arguments) {
  const std::array modes{Mode{"--list", arguments.list, false, true},
                         Mode{"--explain", !arguments.explain.empty(), false, false},
                         Mode{"--diagnosis", arguments.score, true, true},
                         Mode{"--severity", arguments.severity, true, false},
                         Mode{"--alarms", arguments.alarms.has_value(), false, false}};
  const Mode* mode = nullptr;
  for (const Mode& next : modes) {
    if (!next.asked) continue;
    if (mode != nullptr) {
      throw bad_input({next.option, "with another one of its kind", "one of them", mode->option});
    }
    mode = &next;
  }
  if (mode == nullptr) return;
  const auto refuse = [&](std::string_view option, bool known, bool given) {
    if (given && !known)
      throw bad_input({mode->option, "with an option of others", "none", option});
  };
  refuse("MODEL", mode->of_model, !arguments.model.empty());
  refuse("--fault", mode->of_faults, !arguments.fault.empty());
  refuse("--checks", false, !arguments.checks.empty());
  refuse("--out", false, !arguments.out.empty());
}

int explain(const std::string& id) {
  const Fault& fault = find_fault(std::string_view(id).substr(0, id.find(':')), "--explain");
  if (id != fault.id) (void)parse_fault(id, "--explain");
  print(explanation(fault, tiny_name(fault.needs, kTinySeed), kTinyLayers));
  return kExitAgree;
}

// The models stay where they are: the runs refer to them.
struct MatrixRuns {
  std::deque<ModelData> models;
  std::vector<ModelRun> runs;
};

MatrixRuns load_models(const FaultsArguments& arguments) {
  MatrixRuns to;
  const std::vector<std::string> names = arguments.model.empty()
                                             ? default_models(arguments.seed)
                                             : std::vector<std::string>{arguments.model};
  for (const std::string& name : names) {
    const ModelData& model = to.models.emplace_back(load_model(name));
    to.runs.push_back({model, matrix_sources(model, arguments.seed), {}});
  }
  return to;
}

RunManifest manifest(const FaultsArguments& arguments, const std::vector<std::string>& command,
                     const MatrixRuns& runs) {
  RunManifest manifest = manifest_of_now();
  manifest.command = {"kvcheck"};
  manifest.command.insert(manifest.command.end(), command.begin(), command.end());
  manifest.seed = arguments.seed;
  for (const ModelData& model : runs.models) manifest.models.push_back({model.name, model.sha256});
  manifest.arithmetics = {Arithmetic::row, Arithmetic::matrix};
  return manifest;
}

std::string last_line(const MatrixReport& report, double seconds) {
  std::int64_t variants = 0;
  std::size_t unexpected = 0;
  for (const FaultReport& fault : report.faults) {
    for (const std::int64_t of_outcome : fault.variants) variants += of_outcome;
    unexpected += fault.unexpected.size();
  }
  const std::string verdict = !report.judged()  ? "not judged"
                              : unexpected == 0 ? "all as expected"
                                                : fmt::format("{} not as expected", unexpected);
  return fmt::format("verdict: {}{} ({} faults in {} variants, {} checks, {} models in {:.2f} s)\n",
                     verdict, report.interrupted ? ", interrupted" : "", report.faults.size(),
                     variants, report.checks.size(), report.models, seconds);
}

}  // namespace

bool names_fault(const std::string& pattern, const FaultVariant& variant) {
  const auto matches = [&](const std::string& text) {
    return fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
  };
  return matches(std::string(variant.fault->id)) || matches(to_text(variant));
}

std::vector<std::string_view> checks_of_list(std::string_view list) {
  std::vector<std::string_view> asked;
  for (std::string_view rest = list; !list.empty();) {
    const auto comma = rest.find(',');
    const std::string_view word = rest.substr(0, comma);
    bool known = false;
    for (const MatrixCheck& check : matrix_checks()) {
      const bool named = word == check.id || word == (check.own ? "own" : "replicas");
      if (named) asked.push_back(check.id);
      known = known || named;
    }
    if (!known) {
      std::string expected = "own, replicas";
      for (const MatrixCheck& check : matrix_checks()) expected += fmt::format(", {}", check.id);
      throw bad_input({"--checks", "unknown check", expected, one_line(word)});
    }
    if (comma == std::string_view::npos) break;
    rest = rest.substr(comma + 1);
  }
  return asked;
}

int run_faults(const FaultsArguments& arguments, const std::vector<std::string>& command) {
  const auto start = std::chrono::steady_clock::now();
  require_one_mode(arguments);
  if (!arguments.explain.empty()) return explain(arguments.explain);
  const std::vector<const Fault*> named = named_faults(arguments.fault);
  MatrixOptions options;
  options.faults = named;
  options.checks = checks_of_list(arguments.checks);
  if (arguments.list) {
    print(list_of_faults(named));
    return kExitAgree;
  }
  stop_on_signals();
  start_clock(arguments.time_seconds);
  if (arguments.score) return show_score(arguments);
  if (arguments.severity) return show_severity(arguments);
  if (arguments.alarms) return show_alarms(arguments);
  options.seed = arguments.seed;
  options.draw = random_operations;
  options.jobs = jobs_of(arguments.jobs);
  if (!arguments.fault.empty()) {
    options.wanted = [&](const FaultVariant& variant) {
      return names_fault(arguments.fault, variant);
    };
  }
  const MatrixRuns runs = load_models(arguments);
  RunFolderRequest request;
  request.seed = arguments.seed;
  request.started = std::chrono::system_clock::now();
  if (!arguments.out.empty()) request.out = arguments.out;
  const std::filesystem::path folder = make_run_folder(request);
  FaultsWriter writer(folder, manifest(arguments, command, runs));
  Progress progress;
  MatrixRecorder recorder(writer, progress);
  const MatrixReport report = run_kill_matrix(options, runs.runs, recorder, stop_requested());
  progress.finish();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const auto text = [&](bool written) {
    return matrix_table(report) + "\n" + totals_table(report) + unexpected_text(report) +
           (written ? fmt::format("files: {}\n", path_text(folder)) : "") +
           last_line(report, seconds);
  };
  print_after([&] { writer.finish(report); }, text);
  const Verdict verdict = report.verdict();
  return verdict == Verdict::agree     ? kExitAgree
         : verdict == Verdict::diverge ? kExitDiverge
                                       : kExitGaveUp;
}

}  // namespace kvcheck
