// SPDX-License-Identifier: MIT
// Which faults and checks the options of `kvcheck faults` name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "verify/fault.h"

namespace kvcheck {

// Whether ID or GLOB (of * and ?) is the fault's id or the variant's whole name.
[[nodiscard]] bool names_fault(const std::string& pattern, const FaultVariant& variant);

// Ids of matrix_checks() from a list joined by commas; "own" and "replicas" stand for all of
// theirs. Throws Error for anything else.
[[nodiscard]] std::vector<std::string_view> checks_of_list(std::string_view list);

}  // namespace kvcheck
