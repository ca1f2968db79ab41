// SPDX-License-Identifier: MIT
// Running a case again.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "verify/operation_run.h"
#include "verify/probes.h"

namespace kvcheck {

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
// float64. `watch` sees each step of a sequence of operations; those of a second run begin again at
// step 0.
[[nodiscard]] Replayed run_case(const Case& subject, const ModelData& model,
                                const EngineFactory& factory,
                                const OperationRunner::Watcher& watch = {});

// Of a larger model no second copy, of twice the size, is made for a column of a table.
inline constexpr std::int64_t kFloat64ParametersMax = std::int64_t{1} << 25;

// What float64 says of a case that differs in float32. It agrees if what is left is as little as
// two right programs differ by, a share of the row's largest logit, or as the floor of float32
// explains, in the smaller units of float64. Nothing for a case that was not decided in float32, or
// does not differ; nor for a model of more than kFloat64ParametersMax; nor once `stop` is true.
[[nodiscard]] std::optional<InFloat64> in_float64(const CaseRecord& record, const ModelData& model,
                                                  const EngineFactory& factory,
                                                  const std::atomic<bool>* stop = nullptr);

// What an engine that fails by itself makes of a case.
[[nodiscard]] CaseResult crashed(std::string_view why);
// What a case comes to that was gated in float32, from that result and the one in float64.
[[nodiscard]] CaseResult decided(CaseResult narrow, CaseResult wide);

}  // namespace kvcheck
