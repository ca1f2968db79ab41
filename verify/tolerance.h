// SPDX-License-Identifier: MIT
// When two rows of logits agree. Every limit here has a reason; none is a guess.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "engine/scalar.h"
#include "verify/compare.h"
#include "verify/verdict.h"

namespace kvcheck {

// LAPACK accepts an error of 30 units of its own expected rounding error. Tests pin both sides:
// correct caches stay below a third of it (5.7 at most in fixtures/calibration.csv, 6.4 where rows
// are rounded), what must never be missed lies above three times of it (274 at least), and rows in
// half precision, the weakest fault, above it on each trained model (700 and more).
inline constexpr double kNoiseLimit = 30.0;
// A case of a larger kappa is decided in float64, unless it differs by so little that it agrees at
// any. From ten times of it on rounding begins to hide faults: fixtures/calibration_kappa.csv.
inline constexpr double kKappaGate = 1e3;
// More gated cases than this and a check has decided too little to say "agree".
inline constexpr double kGatedShareMax = 0.05;
// A float64 engine against float64 golden logits, relative to the row's largest logit.
inline constexpr double kGoldenLimit = 1e-12;

struct Exact {  // to the last bit
  bool operator==(const Exact&) const = default;
};
struct AbsLimit {  // largest absolute difference
  double limit;
  bool operator==(const AbsLimit&) const = default;
};
struct NoiseLimit {  // largest absolute difference in units of the measured noise floor
  double limit = kNoiseLimit;
  bool operator==(const NoiseLimit&) const = default;
};
struct RelativeLimit {  // largest absolute difference in units of the row's largest logit
  double limit = kGoldenLimit;
  bool operator==(const RelativeLimit&) const = default;
};
using Policy = std::variant<Exact, AbsLimit, NoiseLimit, RelativeLimit>;

// "exact", "abs:1e-05", "noise:30", "rel:1e-12"
[[nodiscard]] std::string to_text(const Policy& policy);
// Also "noise" alone. Throws Error naming `where`; limits must be finite and not negative (noise,
// rel: above 0).
[[nodiscard]] Policy parse_policy(std::string_view text, std::string_view where);

// How much a row of logits moves by rounding alone, measured without any cache.
struct NoiseFloor {
  double floor = 0;  // absolute
  double kappa =
      0;  // floor / (epsilon x largest term of the output product): conditioning of the row
};

// Why a row is broken that no engine failed at.
inline constexpr std::string_view kNotFinite = "the uncached logits are not finite";

// No floor of the row is smaller: epsilon x the largest term of the output product is part of it,
// and no logit is larger than that term.
[[nodiscard]] double smallest_floor(const RowComparison& row, ScalarKind scalar);
// The rounding of the bound itself, at most: both sides are sums of some thousands of terms, the
// larger one in the wider scalar.
inline constexpr double kFloorSlack = 1e-6;
// Whether its difference is within the limit whatever its floor is.
[[nodiscard]] bool agrees_at_any_floor(NoiseLimit noise, const RowComparison& row,
                                       ScalarKind scalar);

struct Judgement {
  Verdict verdict = Verdict::gave_up;
  std::optional<double> ratio;  // difference / noise floor, where a floor is known
  bool gated = false;           // too ill-conditioned for this policy and scalar: not decided
  std::string_view note = {};   // why there is nothing to compare with
};

// `floor` may be missing where the policy does not need it; a noise policy without one gives up.
[[nodiscard]] Judgement judge(const Policy& policy, const RowComparison& row,
                              const std::optional<NoiseFloor>& floor, ScalarKind scalar);

}  // namespace kvcheck
