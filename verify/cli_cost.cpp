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

// 1, 2, 4 ... and the last one.
std::vector<int> measured_lengths(int last) {
  std::vector<int> lengths;
  for (int length = 1; length < last; length *= 2) lengths.push_back(length);
  lengths.push_back(last);
  return lengths;
}

std::string measured(const CostArguments& arguments, const ModelData& model,
                     const CostQuestion& question) {
  const Config& config = model.weights.config;
  const std::int64_t most = std::min<std::int64_t>(config.context, kMeasuredMax);
  if (question.context > most) {
    throw bad_input({"--measure", "context", fmt::format("at most {}", most),
                     fmt::format("{}", question.context)});
  }
  if (question.batch > 1) {
    throw bad_input({"--measure", "sequences", "one", fmt::format("{}", question.batch)});
  }
  const ScalarKind scalar = question.scalar == "f64" ? ScalarKind::f64 : ScalarKind::f32;
  const std::unique_ptr<Engine> engine = make_builtin(model.weights, scalar, Arithmetic::row);
  const StepTimes times =
      measure_steps(*engine, measured_lengths(static_cast<int>(question.context)),
                    arguments.time_seconds.value_or(kMeasureSeconds));
  return step_times_text(times, path_text(model.name));
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
      make_cost_report(published.shape, nullptr, question_of(arguments, published.shape, true));
  write_csv(arguments, report);
  print(cost_text(report, fmt::format("{} ({}, no weights)", path_text(arguments.model),
                                      published.model_type)));
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
  const CostReport report = make_cost_report(config, &model.weights, question);
  write_csv(arguments, report);
  std::string text = cost_text(report, path_text(model.name));
  if (arguments.measure) text += measured(arguments, model, question);
  print(text);
  return report.counts_agree ? kExitAgree : kExitDiverge;
}

}  // namespace kvcheck
