// SPDX-License-Identifier: MIT
// Running claims.
#include "properties/claims.h"

#include <fmt/format.h>

#include <filesystem>

#include "engine/generated.h"
#include "verify/case_text.h"

namespace kvcheck {
namespace {

// Where the model can be found when the case is run again.
std::string findable_name(const ModelData& model) {
  if (!model.name.empty()) return model.name;
  const auto folder =
      std::filesystem::temp_directory_path() / ("kvcheck-property-" + short_hash(model));
  save_model(folder, model.weights);
  return folder.string();
}

}  // namespace

std::optional<std::string> complaint_about(Case subject, const ModelData& model,
                                           const EngineFactory& factory) {
  subject.model_hash = short_hash(model);
  const Replayed replayed = run_case(subject, model, factory);
  if (replayed.result.verdict == Verdict::agree) return std::nullopt;
  // What float32 cannot decide and nothing wider decided is no statement about the cache.
  if (replayed.result.mark == Mark::gated) return std::nullopt;
  subject.model = findable_name(model);
  std::string text =
      fmt::format("{} by {}", name(replayed.result.verdict), to_text(subject.policy));
  if (replayed.row) {
    text += fmt::format(": largest difference {} at position {}",
                        replayed.row->comparison.max_abs_difference, replayed.row->position);
  }
  if (!replayed.result.note.empty()) text += ": " + replayed.result.note;
  return text + "\n" + repro_line(subject);
}

}  // namespace kvcheck
