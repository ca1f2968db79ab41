// SPDX-License-Identifier: MIT
// One forward, and a look at it.
#include "verify/blank.h"

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "verify/probes.h"

namespace kvcheck {
namespace {

constexpr int kTokens = 4;

// False for a NaN too.
bool is_flat(std::span<const double> row) {
  return std::ranges::all_of(row, [&](double logit) { return logit == row[0]; });
}

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
  for (int row = 0; row < logits.rows(); ++row) {
    if (!is_flat(logits.row(row))) return false;
  }
  return true;
}

}  // namespace kvcheck
