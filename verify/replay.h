// SPDX-License-Identifier: MIT
// A case as text, in one line or as JSON, and running it again.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "verify/probes.h"

namespace kvcheck {

// "kv1:check=...,model=...,..." without blanks or anything that a shell would touch; values that
// hold other characters are percent-encoded.
[[nodiscard]] std::string to_token(const Case& subject);
// Throws Error naming `where` for another version, an unknown, missing or repeated key, or a bad
// value.
[[nodiscard]] Case parse_token(std::string_view token, std::string_view where);

// The same fields as a JSON object, "version": 1 first; 64-bit seeds as strings.
[[nodiscard]] std::string to_json(const Case& subject);
[[nodiscard]] Case parse_case_json(std::string_view text, std::string_view where);

// "kvcheck repro kv1:..."
[[nodiscard]] std::string repro_line(const Case& subject);

// The first 8 hex digits of the model's SHA-256, as tokens hold it.
[[nodiscard]] std::string short_hash(const ModelData& model);
// Throws Error unless the model is the one that the case was found on, holds what its check needs,
// and can take its tokens.
void require_same_model(const Case& subject, const ModelData& model, std::string_view where);

struct Replayed {
  CaseResult result;
  std::optional<MeasuredRow> row;       // the worst one, with both rows of logits
  ScalarKind scalar = ScalarKind::f32;  // in which the case was decided
};

// Runs one case alone on a fresh engine. A case too ill-conditioned for float32 is decided in
// float64.
[[nodiscard]] Replayed run_case(const Case& subject, const ModelData& model,
                                const EngineFactory& factory);

}  // namespace kvcheck
