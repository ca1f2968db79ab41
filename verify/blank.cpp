// SPDX-License-Identifier: MIT
// One forward, and a look at it.
#include "verify/blank.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "verify/probes.h"

namespace kvcheck {
namespace {

constexpr int kTokens = 4;

}  // namespace

bool is_blank(const ModelData& model) {
  const Config& config = model.weights.config;
  std::vector<int> tokens;
  for (int i = 0; i < std::min(config.context, kTokens); ++i) {
    tokens.push_back(i % config.vocabulary);
  }
  const std::unique_ptr<Engine> engine = builtin_engine(model, {ScalarKind::f32, Arithmetic::row});
  Logits logits;
  engine->full({tokens, 1}, Rows::all, logits);
  // False for a NaN too. A single logit cannot differ from another one.
  return logits.values.size() > 1 &&
         std::ranges::all_of(logits.values, [&](double l) { return l == logits.values[0]; });
}

}  // namespace kvcheck
