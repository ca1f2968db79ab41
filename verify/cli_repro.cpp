// SPDX-License-Identifier: MIT
// kvcheck repro: one case again, with both rows of logits side by side.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <memory>
#include <system_error>

#include "engine/echo.h"
#include "engine/error.h"
#include "engine/files.h"
#include "engine/sequences.h"
#include "engine/text_width.h"
#include "properties/operations_gen.h"
#include "reports/number_text.h"
#include "verify/case_text.h"
#include "verify/cli.h"
#include "verify/cli_case.h"
#include "verify/cli_steps.h"
#include "verify/diagnose.h"
#include "verify/faults.h"
#include "verify/models.h"
#include "verify/planted.h"
#include "verify/replay.h"
#include "verify/signature.h"
#include "verify/stored.h"

namespace kvcheck {
namespace {

constexpr int kLogitsShown = 64;  // of a large vocabulary: the ones that differ most

std::string word(const ModelData& model, int token) {
  if (model.words.empty()) return fmt::format("{}", token);
  return fmt::format("{} {}", token, one_line(model.words[static_cast<std::size_t>(token)]));
}

// Rows that saw keys which were rotated back differ by rounding, whatever the arithmetic.
std::string_view after_shift(const Case& subject) {
  const auto shifts = [](const Operation& operation) { return operation.verb == Verb::shift; };
  const bool noise = std::holds_alternative<NoiseLimit>(subject.policy);
  return !noise && std::ranges::any_of(subject.operations, shifts)
             ? "; rows that see shifted keys: noise:30"
             : "";
}

std::string header(const Case& subject, const ModelData& model) {
  std::string text =
      fmt::format("case       {} on {} ({}, {} arithmetic)\n", subject.check, path_text(model.name),
                  name(subject.scalar), name(subject.arithmetic));
  if (!subject.fault.empty()) {
    text += fmt::format("fault      {} ({})\n", subject.fault,
                        parse_fault(subject.fault, "case").fault->summary);
  }
  if (!subject.operations.empty()) {
    text += fmt::format("cache      {}\n", name(subject.cache_kind));
    text += fmt::format("operations {}\n", subject.operations.size());
    return text + fmt::format("policy     {}{}\n", to_text(subject.policy), after_shift(subject));
  }
  if (subject.cache_kind != CacheKind{}) {
    text += fmt::format("cache      {}\n", name(subject.cache_kind));
  }
  text += fmt::format("tokens     {}\n", tokens_text(model, subject.tokens));
  text += fmt::format("schedule   {}\n",
                      subject.schedule.empty() ? "none (uncached)" : to_text(subject.schedule));
  text += fmt::format("policy     {}\n", to_text(subject.policy));
  return text;
}

// The ids of the row in order, or those that differ most where there are many.
std::vector<std::size_t> shown_ids(const MeasuredRow& row) {
  std::vector<std::size_t> ids(row.uncached.size());
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = i;
  const auto apart = [&](std::size_t i) {
    const double difference = std::abs(row.uncached[i] - row.cached[i]);
    return difference <= std::numeric_limits<double>::max()
               ? difference
               : std::numeric_limits<double>::infinity();
  };
  if (ids.size() > kLogitsShown) {
    std::ranges::stable_sort(ids,
                             [&](std::size_t a, std::size_t b) { return apart(a) > apart(b); });
    ids.resize(kLogitsShown);
  }
  return ids;
}

std::string number(double value, ScalarKind scalar) {
  if (scalar == ScalarKind::f32) return fmt::format("{}", static_cast<float>(value));
  return fmt::format("{}", value);
}

// The operation that the rows were answered to.
std::string fed_by(const Operations& operations, const CaseResult& result) {
  const auto step = static_cast<std::size_t>(result.step.value_or(0));
  if (!result.step || step >= operations.size()) return "";
  return fmt::format(", operation {}, {}", step + 1, to_text(operations[step]));
}

std::string rows(const Case& subject, const Replayed& replayed, const ModelData& model) {
  const MeasuredRow& row = *replayed.row;
  const ScalarKind scalar = replayed.scalar;
  const bool golden = subject.check == "golden";
  const bool full_forward = subject.schedule.empty() && subject.operations.empty();
  std::string text =
      fmt::format("\nlogits after position {}{}", row.position,
                  scalar == subject.scalar ? "" : fmt::format(" in {}", name(scalar)));
  if (!subject.operations.empty()) text += fed_by(subject.operations, replayed.result);
  text += '\n';
  text += fmt::format("{:>16}  {:>24}  {:>24}  {:>14}  {:>10}\n", "token",
                      golden ? "golden" : "uncached", full_forward ? "full forward" : "cached",
                      "difference", "ULPs");
  for (const std::size_t i : shown_ids(row)) {
    const bool worst =
        static_cast<int>(i) == row.comparison.token_at_max && row.comparison.max_abs_difference > 0;
    text += fmt::format("{}  {:>24}  {:>24}  {:>14.6g}  {:>10}{}\n",
                        padded_left(word(model, static_cast<int>(i)), 16),
                        number(row.uncached[i], scalar), number(row.cached[i], scalar),
                        row.cached[i] - row.uncached[i],
                        ulps_text(ulps_between(row.uncached[i], row.cached[i], scalar)),
                        worst ? "  <- largest" : "");
  }
  return text;
}

std::string outcome(const CaseResult& result) {
  std::string text = "\n";
  if (result.row) {
    text += fmt::format("largest difference {:.6g}", result.row->max_abs_difference);
    if (result.ratio) text += fmt::format(", {:.3g} times the noise floor", *result.ratio);
    if (result.noise) {
      text += fmt::format(" of {:.3g} (kappa {:.3g})", result.noise->floor, result.noise->kappa);
    }
    text += '\n';
  }
  if (!result.note.empty()) text += result.note + "\n";
  text += fmt::format("verdict: {}", name(result.verdict));
  if (result.mark != Mark::none) text += fmt::format(" ({})", name(result.mark));
  return text + "\n";
}

// Cases of which a few hundred simulations are bearable.
constexpr std::size_t kDiagnosedTokens = 64;

// What diverges by rounding alone, or under a tolerance that nobody could keep, is explained by no
// fault.
bool worth_explaining(const ReproArguments& arguments, const Case& subject,
                      const Replayed& replayed, const ModelData& model,
                      const EngineFactory& factory) {
  const bool diverges = replayed.result.verdict == Verdict::diverge;
  const bool brief = std::max(subject.tokens.size(), subject.operations.size()) <= kDiagnosedTokens;
  if (arguments.no_diagnosis || !diverges || !brief) return false;
  return !replayed.result.note.empty() || !answers_rightly(subject, model, factory);
}

// What the engine of the case answers to a fixed list of questions, whatever the case, and which
// known faults answer alike.
std::string signature_text(const Case& subject, const ModelData& model,
                           const EngineFactory& factory) {
  const auto engine =
      start_engine(factory, model, {subject.scalar, subject.arithmetic, subject.cache_kind});
  const Signature signature = signature_of(*engine);
  const auto found = looks_right(signature) ? std::vector<Resemblance>{} : resemblances(signature);
  return "\nfrom outside, by the engine's answers alone:\n" + to_text(signature, found);
}

// Kept among the cases that the tests run, and no longer among the failures of this folder.
// Under the name by which the model is known now.
std::string promote(const Case& subject, const std::string& model) {
  Case kept = subject;
  kept.model = model;
  const std::filesystem::path file = promote_case(regressions_folder(), kept);
  const bool stored = forget_failure(stored_failures_folder(), subject);
  return fmt::format("promoted to {}{}\n", path_text(file),
                     stored ? ", no longer a stored failure" : "");
}

}  // namespace

int run_repro(const ReproArguments& arguments) {
  Case subject = read_case(arguments.subject);
  const ModelData model = load_model(arguments.model.empty() ? subject.model : arguments.model);
  require_same_model(subject, model, "case");
  if (arguments.promote) {
    require_no_fault(subject, "--promote");
    require_promotable(regressions_folder(), model.name);
  }
  const auto trace = std::make_shared<FaultTrace>();
  const EngineFactory factory = engine_of(subject, model, trace, "case");
  Steps steps;
  const Replayed replayed =
      run_case(subject, model, factory, [&](const SeenStep& seen) { steps.add(seen); });
  std::string text = header(subject, model);
  if (!subject.operations.empty()) {
    text +=
        "\n" + steps_text(subject.operations, steps.shown(), subject.cache_kind, replayed.result);
  }
  if (replayed.row) text += rows(subject, replayed, model);
  if (arguments.promote) text += "\n" + promote(subject, model.name);
  if (!subject.fault.empty() && trace->changes() == 0) {
    text += "\nthe fault changed nothing in this case\n";
  }
  if (arguments.signature) {
    text += signature_text(subject, model, factory);
  } else if (worth_explaining(arguments, subject, replayed, model, factory)) {
    print(text);
    text = "\n" + to_text(diagnose(subject, model, factory, {.draw = random_operations}));
  }
  print(text + outcome(replayed.result));
  return exit_code(replayed.result.verdict);
}

}  // namespace kvcheck
