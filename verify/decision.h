// SPDX-License-Identifier: MIT
// Why one policy chose two tokens from two rows of logits: whether the decision was so close that
// the difference of the rows explains it.
#pragma once

#include <span>
#include <string_view>

#include "engine/policy.h"

namespace kvcheck {

// `margin`: how far the uncached row was from deciding otherwise; `change`: by how much what
// decides differs between the rows. Where margin <= change the decision is a tie.
//
//   greedy     gap of the two tokens' logits; against the sum of their differences
//   a draw     distance of u to the interval of the other token; against the largest difference of
//              an edge between intervals. Where the same tokens may be drawn from both rows
//   top-k      distance of a token's logit to that of the K-th token; against twice the largest
//              difference d of any logit, as both may move
//   top-p      distance of P to the share of all tokens before it; against e^(2d / T) - 1, by which
//              shares change, and the share of the tokens within 2d of it, which may change places
//   min-p      distance of log M to the logarithm of its weight; against 2d / T
// Where the rows leave other tokens to draw from, each of these must have been left out, or in, by
// a cut that was a tie, and the one whose margin is largest beside its change is told.
struct Decision {
  bool tie = false;
  double margin = 0;
  double change = 0;
  std::string_view by = {};
};

// A NaN is no tie.
[[nodiscard]] Decision decision_of(double margin, double change, std::string_view by);

// Sums of up to a million weights are added in two orders here and in the draw.
inline constexpr double kEdgeSlack = 1e-12;

// `seen` as for choose(), of which `place` is the draw. Rows that differ by something that is not
// finite are no tie. Throws InternalError where the tokens chosen are the same.
[[nodiscard]] Decision compare_decisions(const DecodingPolicy& policy, std::span<const int> seen,
                                         std::span<const double> uncached,
                                         std::span<const double> cached, DrawPlace place);

}  // namespace kvcheck
