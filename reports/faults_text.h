// SPDX-License-Identifier: MIT
// What `kvcheck faults` prints: the kill matrix, a line for each fault, and what each check is
// worth.
#pragma once

#include <span>
#include <string>

#include "verify/faults.h"
#include "verify/kill_matrix.h"

namespace kvcheck {

// A line holds every column in 150 characters as long as names are of the usual length.
inline constexpr std::size_t kFaultLineMax = 150;

// A line for each fault below the question that it answers wrongly, a letter for each check.
[[nodiscard]] std::string matrix_table(const MatrixReport& report);
// Faults that are not as the table expects, a line each; empty where there are none.
[[nodiscard]] std::string unexpected_text(const MatrixReport& report);
// A line for each check with its letter, and the kill rates that say how sharp kvcheck is.
[[nodiscard]] std::string totals_table(const MatrixReport& report);

// A line for each row of the table of faults.
[[nodiscard]] std::string list_of_faults(std::span<const Fault* const> faults);
// All that the table says of a fault; `smallest` is the model that shows it.
[[nodiscard]] std::string explanation(const Fault& fault, const std::string& smallest, int layers);

}  // namespace kvcheck
