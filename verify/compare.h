// SPDX-License-Identifier: MIT
// Comparing two rows of logits. Written so that a NaN can never pass for a small difference.
#pragma once

#include <cstdint>
#include <span>

#include "engine/scalar.h"

namespace kvcheck {

// What differs most between the two rows, and what each says. Where a value is not finite on one
// side only, or not the same on both, the difference there counts as infinite.
struct RowComparison {
  double max_abs_difference = 0;  // infinite where it cannot be computed; never NaN
  int token_at_max = 0;
  double uncached = 0;  // the two values there
  double cached = 0;
  std::uint64_t ulps = 0;   // between them, in the engine's scalar; saturates
  int argmax_uncached = 0;  // lowest id of the largest logit; NaN is never the largest
  int argmax_cached = 0;
  double largest = 0;  // largest absolute value of the uncached row
  bool uncached_finite = true;
  bool cached_finite = true;
  bool same_bits = true;  // every value equal, bit for bit (but 0 = -0)
};

// Throws InternalError unless both rows have the same length, at least 1.
[[nodiscard]] RowComparison compare_rows(std::span<const double> uncached,
                                         std::span<const double> cached, ScalarKind scalar);

// Units in the last place between two numbers: 0 between NaNs and for equal ones, the largest count
// where only one is NaN.
[[nodiscard]] std::uint64_t ulps_between(double a, double b, ScalarKind scalar);

}  // namespace kvcheck
