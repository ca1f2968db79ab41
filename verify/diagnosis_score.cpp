// SPDX-License-Identifier: MIT
// Planting, showing, diagnosing: one variant on one model after another.
#include "verify/diagnosis_score.h"

#include <fmt/format.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "verify/fault_trial.h"
#include "verify/models.h"

namespace kvcheck {
namespace {

struct Question {
  FaultVariant variant;
  std::string model;
};

struct Answer {
  bool caught = false;
  bool named = false;
  bool alone = false;
};

// A fault of a further layer needs a model that has it.
bool possible(const FaultVariant& variant, const Config& config) {
  return variant.at.layer.value_or(0) < config.layers &&
         variant.fault->applies(config, cache_kind(variant.fault->cache, "score"));
}

std::optional<Case> first_shown(const FaultVariant& variant, const ModelData& model,
                                const ScoreOptions& options) {
  const PrefixChoice some{.kind = PrefixChoice::Kind::random};
  const ModelRun run{model, sources_of(model, some, {options.seed, 0, kRandomSequences}), {}};
  const TrialOptions trial{.seed = options.seed,
                           .draw = options.draw,
                           .checks = std::vector<std::string_view>{"exact", "noise", "schedules",
                                                                   "accounting", "operations"}};
  for (const TrialCell& cell : try_fault(variant, run, trial)) {
    if (cell.first) return cell.first->subject;
  }
  return {};
}

Answer ask(const Question& question, const ScoreOptions& options) {
  const ModelData model = load_model(question.model);
  if (!possible(question.variant, model.weights.config)) return {};
  const auto subject = first_shown(question.variant, model, options);
  if (!subject) return {};
  const Diagnosis diagnosis =
      diagnose(*subject, model, faulty_engine(question.variant, std::make_shared<FaultTrace>()),
               {.draw = options.draw});
  const bool named = std::ranges::any_of(
      diagnosis.explains, [&](const Explanation& by) { return by.fault == question.variant; });
  return {true, named, named && diagnosis.explains.size() == 1};
}

std::vector<Question> questions_of(const ScoreOptions& options) {
  std::vector<Question> questions;
  for (const FaultVariant& variant : options.wanted) {
    questions.push_back({variant, tiny_name(variant.fault->needs, options.seed)});
    if (!options.model.empty()) questions.push_back({variant, options.model});
  }
  return questions;
}

double share(int part, int whole) { return whole == 0 ? 0 : 100.0 * part / whole; }

}  // namespace

std::vector<DiagnosisScore> score_diagnosis(const ScoreOptions& options,
                                            const std::atomic<bool>& stop) {
  const tbb::global_control threads(tbb::global_control::max_allowed_parallelism,
                                    static_cast<std::size_t>(options.jobs));
  const std::vector<Question> questions = questions_of(options);
  std::vector<Answer> answers(questions.size());
  tbb::parallel_for(std::size_t{0}, questions.size(), [&](std::size_t i) {
    if (!stop.load()) answers[i] = ask(questions[i], options);
  });
  std::vector<DiagnosisScore> scores;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const Question& question = questions[i];
    if (scores.empty() || scores.back().fault != question.variant.fault) {
      scores.push_back({question.variant.fault});
    }
    DiagnosisScore& score = scores.back();
    score.caught += answers[i].caught ? 1 : 0;
    score.named += answers[i].named ? 1 : 0;
    score.alone += answers[i].alone ? 1 : 0;
    if (answers[i].caught && !answers[i].named) {
      score.missed.push_back(fmt::format("{} on {}", to_text(question.variant), question.model));
    }
  }
  return scores;
}

std::string to_text(const std::vector<DiagnosisScore>& scores) {
  std::string text =
      fmt::format("{:28}  {:>7}  {:>7}  {:>7}\n", "fault", "caught", "named", "alone");
  DiagnosisScore all{};
  for (const DiagnosisScore& score : scores) {
    text += fmt::format("{:28}  {:7}  {:7}  {:7}\n", score.fault->id, score.caught, score.named,
                        score.alone);
    for (const std::string& missed : score.missed) text += fmt::format("  not named: {}\n", missed);
    all.caught += score.caught;
    all.named += score.named;
    all.alone += score.alone;
  }
  return text + fmt::format("named: {} of {} ({:.1f} %), {} of them as the only explanation\n",
                            all.named, all.caught, share(all.named, all.caught), all.alone);
}

}  // namespace kvcheck
