// SPDX-License-Identifier: MIT
// What kvcheck says of a case, a check or a run.
#pragma once

#include <algorithm>
#include <string_view>

namespace kvcheck {

// From good to bad, so that merging takes the largest.
enum class Verdict {
  agree,    // compared, and within the policy
  gave_up,  // nothing could be decided
  broken,   // the engine or its protocol failed: no statement about the cache
  diverge,  // the two computations disagree
};

[[nodiscard]] constexpr Verdict worst(Verdict a, Verdict b) { return std::max(a, b); }

[[nodiscard]] constexpr std::string_view name(Verdict verdict) {
  switch (verdict) {
    case Verdict::agree:
      return "agree";
    case Verdict::gave_up:
      return "gave-up";
    case Verdict::broken:
      return "broken";
    case Verdict::diverge:
      return "diverge";
  }
  return "?";
}

// What is remarkable about a case besides its verdict.
enum class Mark {
  none,
  flaky,    // diverged, and did not when run again
  crash,    // the engine failed
  refused,  // the engine declined, which the contract allows
  widened,  // too ill-conditioned for float32, decided in float64
  gated,    // too ill-conditioned, and nothing wider to decide in
  tie,      // agrees, but rounding decided which token follows
};

[[nodiscard]] constexpr std::string_view name(Mark mark) {
  switch (mark) {
    case Mark::none:
      return "";
    case Mark::flaky:
      return "flaky";
    case Mark::crash:
      return "crash";
    case Mark::refused:
      return "refused";
    case Mark::widened:
      return "widened";
    case Mark::gated:
      return "gated";
    case Mark::tie:
      return "tie";
  }
  return "?";
}

}  // namespace kvcheck
