// SPDX-License-Identifier: MIT
// Lists of whole numbers for people.
#pragma once

#include <string>
#include <vector>

namespace kvcheck {

// 0, 1, 2, 5 as "0-2,5"; a long one keeps its beginning.
[[nodiscard]] std::string runs_text(const std::vector<int>& numbers);

}  // namespace kvcheck
