// SPDX-License-Identifier: MIT
// The table of faults: those that real engines have shipped, class by class, and those that the
// questions of a cached step suggest. Adding a fault is adding a row to the file of its class.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "verify/fault.h"

namespace kvcheck {

// All rows, class by class. They live as long as the program does.
[[nodiscard]] const std::vector<Fault>& faults();
// Throws Error for an unknown id.
[[nodiscard]] const Fault& find_fault(std::string_view id, std::string_view where);
// The fault of a text as to_text() writes it. Throws Error for an unknown id and for parameters
// that the row does not have.
[[nodiscard]] FaultVariant parse_fault(std::string_view text, std::string_view where);

// The classes.
[[nodiscard]] std::span<const Fault> position_faults();
[[nodiscard]] std::span<const Fault> mask_faults();
[[nodiscard]] std::span<const Fault> window_faults();
[[nodiscard]] std::span<const Fault> storage_faults();
[[nodiscard]] std::span<const Fault> lifecycle_faults();
[[nodiscard]] std::span<const Fault> state_faults();
[[nodiscard]] std::span<const Fault> move_faults();
[[nodiscard]] std::span<const Fault> batch_faults();
[[nodiscard]] std::span<const Fault> format_faults();
[[nodiscard]] std::span<const Fault> paging_faults();
[[nodiscard]] std::span<const Fault> path_faults();

}  // namespace kvcheck
