// SPDX-License-Identifier: MIT
// Checks of several models as if of one, for a table that need not name twenty generated models.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "verify/case.h"

namespace kvcheck {

// Sums counts and seconds, takes the worst of everything else; check, arithmetic, scalar and policy
// are those of the first. `summaries` must not be empty.
[[nodiscard]] CheckSummary merge(std::span<const CheckSummary> summaries, const std::string& model);

// One for each check, arithmetic, scalar and policy, in the order in which they first come.
// Of whatever models: the same check in the same arithmetic and scalar, under the same policy and
// on the same kind of cache.
[[nodiscard]] bool same_check(const CheckSummary& a, const CheckSummary& b);

[[nodiscard]] std::vector<CheckSummary> merge_by_check(std::span<const CheckSummary> summaries,
                                                       const std::string& model);

}  // namespace kvcheck
