// SPDX-License-Identifier: MIT
// kvcheck repro: one case again, with both rows of logits side by side.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <system_error>

#include "engine/echo.h"
#include "engine/error.h"
#include "engine/files.h"
#include "engine/sequences.h"
#include "verify/case_text.h"
#include "verify/cli.h"
#include "verify/models.h"
#include "verify/replay.h"

namespace kvcheck {
namespace {

constexpr int kLogitsShown = 64;  // of a large vocabulary: the ones that differ most

Case read_case(const std::string& subject) {
  if (subject.starts_with("kv")) {
    std::error_code error;
    if (!std::filesystem::exists(subject, error)) return parse_token(subject, "token");
  }
  return parse_case_json(read_text(subject), path_text(subject));
}

std::string word(const ModelData& model, int token) {
  if (model.words.empty()) return fmt::format("{}", token);
  return fmt::format("{} {}", token, one_line(model.words[static_cast<std::size_t>(token)]));
}

std::string words(const ModelData& model, const std::vector<int>& tokens) {
  if (model.words.empty()) return join_tokens(tokens);
  std::vector<std::string> found;
  for (const int token : tokens) {
    found.push_back(one_line(model.words[static_cast<std::size_t>(token)]));
  }
  return fmt::format("{}   ({})", join_tokens(tokens), fmt::join(found, " "));
}

std::string header(const Case& subject, const ModelData& model) {
  std::string text =
      fmt::format("case       {} on {} ({}, {} arithmetic)\n", subject.check, path_text(model.name),
                  name(subject.scalar), name(subject.arithmetic));
  text += fmt::format("tokens     {}\n", words(model, subject.tokens));
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

std::string rows(const Case& subject, const Replayed& replayed, const ModelData& model) {
  const MeasuredRow& row = *replayed.row;
  const ScalarKind scalar = replayed.scalar;
  const bool golden = subject.check == "golden";
  std::string text =
      fmt::format("\nlogits after position {}{}\n", row.position,
                  scalar == subject.scalar ? "" : fmt::format(" in {}", name(scalar)));
  text += fmt::format("{:>16}  {:>24}  {:>24}  {:>14}  {:>10}\n", "token",
                      golden ? "golden" : "uncached",
                      subject.schedule.empty() ? "full forward" : "cached", "difference", "ULPs");
  for (const std::size_t i : shown_ids(row)) {
    const bool worst =
        static_cast<int>(i) == row.comparison.token_at_max && row.comparison.max_abs_difference > 0;
    text += fmt::format("{:>16}  {:>24}  {:>24}  {:>14.6g}  {:>10}{}\n",
                        word(model, static_cast<int>(i)), number(row.uncached[i], scalar),
                        number(row.cached[i], scalar), row.cached[i] - row.uncached[i],
                        ulps_between(row.uncached[i], row.cached[i], scalar),
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

}  // namespace

int run_repro(const ReproArguments& arguments) {
  Case subject = read_case(arguments.subject);
  const ModelData model = load_model(arguments.model.empty() ? subject.model : arguments.model);
  require_same_model(subject, model, "case");
  const Replayed replayed = run_case(subject, model, builtin_engine);
  std::string text = header(subject, model);
  if (replayed.row) text += rows(subject, replayed, model);
  print(text + outcome(replayed.result));
  return exit_code(replayed.result.verdict);
}

}  // namespace kvcheck
