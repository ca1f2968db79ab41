// SPDX-License-Identifier: MIT
// Cached rows as `kvcheck inspect --rows` prints them. What is large is cut, and says so.
#pragma once

#include <string>

#include "engine/config.h"
#include "reports/shown_part.h"
#include "verify/cache_rows.h"

namespace kvcheck {

inline constexpr ShownPart kShownSteps{8, 4};
inline constexpr ShownPart kShownLayers{3, 1};
inline constexpr ShownPart kShownRows{4, 8};  // of a layer
inline constexpr ShownPart kShownHeads{3, 1};
inline constexpr ShownPart kShownNumbers{5, 1};  // of a head's row

// `fed` are the tokens of the step as a user reads them.
[[nodiscard]] std::string cache_step_text(const Config& config, const CacheStep& step,
                                          const std::string& fed);

}  // namespace kvcheck
