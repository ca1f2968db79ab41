// SPDX-License-Identifier: MIT
// kvcheck cost: the work of prefill, decode and recompute, and the memory of a cache.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "engine/builtin.h"
#include "engine/echo.h"
#include "engine/error.h"
#include "engine/published_config.h"
#include "reports/cost_row.h"
#include "reports/cost_text.h"
#include "verify/cli.h"
#include "verify/cli_case.h"
#include "verify/cli_process.h"
#include "verify/models.h"

namespace kvcheck {
namespace {

constexpr double kMeasureSeconds = 10;
// A longer step would take minutes on any model that fits.
constexpr std::int64_t kMeasuredMax = 1 << 16;

struct ScalarBytes {
  std::string_view name;
  int bytes;
  bool runs;  // the engine computes in it
};
constexpr std::array kScalars{ScalarBytes{"f32", 4, true}, ScalarBytes{"f64", 8, true},
                              ScalarBytes{"bf16", 2, false}, ScalarBytes{"f16", 2, false}};

const ScalarBytes& scalar_of(const std::string& text, bool published) {
  for (const ScalarBytes& scalar : kScalars) {
    if (scalar.name == text && (published || scalar.runs)) return scalar;
  }
  throw bad_input({"--scalar", "bad value", published ? "bf16, f16, f32 or f64" : "f32 or f64",
                   one_line(text)});
}

CostQuestion question_of(const CostArguments& arguments, const Config& config, bool published) {
  const std::string usual = published ? "bf16" : "f32";
  const ScalarBytes& scalar =
      scalar_of(arguments.scalar.empty() ? usual : arguments.scalar, published);
  return {.context = arguments.context.value_or(config.context),
          .batch = arguments.batch.value_or(1),
          .scalar = std::string(scalar.name),
          .number_bytes = scalar.bytes};
}

bool countable(const Config& config, const CostQuestion& question) {
  try {
    (void)make_cost_report(config, nullptr, question);
    return true;
  } catch (const CountTooLarge&) {
    return false;
  }
}

// The largest value of a size of the question, up to what it has, that can be counted; 0: none.
std::int64_t countable_most(const Config& config, CostQuestion question,
                            std::int64_t CostQuestion::*size) {
  std::int64_t good = 0;
  std::int64_t bad = question.*size;
  while (bad - good > 1) {
    const std::int64_t middle = question.*size = good + (bad - good) / 2;
    (countable(config, question) ? good : bad) = middle;
  }
  return good;
}

// Counts that are too large are the fault of the context, or of a batch that no context goes with.
CostReport report_on(const Config& config, const Model<float>* model,
                     const CostQuestion& question) {
  try {
    return make_cost_report(config, model, question);
  } catch (const CountTooLarge&) {
    const std::int64_t context = countable_most(config, question, &CostQuestion::context);
    if (context > 0) {
      throw bad_input({"--context", "too long for the counts",
                       fmt::format("at most {} in a batch of {}", context, question.batch),
                       fmt::format("{}", question.context)});
    }
    const std::int64_t batch = countable_most(config, question, &CostQuestion::batch);
    throw bad_input({"--batch", "too many for the counts",
                     fmt::format("at most {} of {} tokens", batch, question.context),
                     fmt::format("{}", question.batch)});
  }
}

// 1, 2, 4 ... and the last one.
std::vector<int> measured_lengths(int last) {
  std::vector<int> lengths;
  for (int length = 1; length < last; length *= 2) lengths.push_back(length);
  lengths.push_back(last);
  return lengths;
}

void require_measurable(const CostQuestion& question, const Config& config) {
  const std::int64_t most = std::min<std::int64_t>(config.context, kMeasuredMax);
  if (question.context > most) {
    throw bad_input({"--context", "with --measure", fmt::format("at most {}", most),
                     fmt::format("{}", question.context)});
  }
  if (question.batch > 1) {
    throw bad_input({"--batch", "with --measure", "1", fmt::format("{}", question.batch)});
  }
}

struct MeasuredTimes {
  StepTimes steps;
  RunTimes runs;
};

MeasuredTimes measured(const CostArguments& arguments, const ModelData& model,
                       const CostQuestion& question) {
  require_measurable(question, model.weights.config);
  stop_on_signals();
  const ScalarKind scalar = question.scalar == "f64" ? ScalarKind::f64 : ScalarKind::f32;
  const std::unique_ptr<Engine> engine = make_builtin(model.weights, scalar, Arithmetic::row);
  const std::vector<int> lengths = measured_lengths(static_cast<int>(question.context));
  const double seconds = arguments.time_seconds.value_or(kMeasureSeconds) / 2;
  StepProgress progress("lengths", lengths.size());
  MeasuredTimes times{measure_steps(*engine, lengths, seconds,
                                    [&](std::size_t done) { return go_on(progress, done); }),
                      {}};
  if (times.steps.interrupted) return times;
  StepProgress of_runs("lengths of all tokens", 0);
  times.runs = measure_runs(*engine, lengths, seconds,
                            [&](std::size_t done) { return go_on(of_runs, done); });
  return times;
}

void write_csv(const CostArguments& arguments, const CostReport& report) {
  if (!arguments.csv.empty()) write_cost_csv(std::filesystem::path(arguments.csv), report);
}

int cost_of_published(const CostArguments& arguments, const PublishedConfig& published) {
  if (arguments.measure) {
    throw bad_input(
        {"--measure", "without weights", "a model that can be run", one_line(arguments.model)});
  }
  const CostReport report =
      report_on(published.shape, nullptr, question_of(arguments, published.shape, true));
  const std::string name =
      fmt::format("{} ({}, no weights)", path_text(arguments.model), published.model_type);
  print_after([&] { write_csv(arguments, report); }, [&](bool) { return cost_text(report, name); });
  return kExitAgree;
}

}  // namespace

int run_cost(const CostArguments& arguments) {
  if (!arguments.measure && arguments.time_seconds) {
    throw bad_input({"--time", "without --measure", "--measure", "none"});
  }
  if (!arguments.csv.empty()) require_new_file(arguments.csv, "--csv");
  if (const auto published = read_published_config(arguments.model)) {
    return cost_of_published(arguments, *published);
  }
  const ModelData model = load_model(arguments.model);
  const Config& config = model.weights.config;
  const CostQuestion question = question_of(arguments, config, false);
  const CostReport report = report_on(config, &model.weights, question);
  std::string text = cost_text(report, path_text(model.name));
  bool answered = true;
  if (arguments.measure) {
    const auto [steps, runs] = measured(arguments, model, question);
    text += step_times_text(steps, path_text(model.name));
    if (!runs.runs.empty()) {
      text += run_times_text(runs, path_text(model.name));
    } else if (!runs.complete && !steps.steps.empty()) {
      text += "\nno time for everything up to a length: more --time is needed\n";
    }
    answered = !steps.steps.empty() && !steps.interrupted && !runs.interrupted;
  }
  print_after([&] { write_csv(arguments, report); }, [&](bool) { return text; });
  if (!report.counts_agree) return kExitDiverge;
  return answered ? kExitAgree : kExitGaveUp;
}

}  // namespace kvcheck
