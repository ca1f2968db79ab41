// SPDX-License-Identifier: MIT
// summary.json of a run of faults: what the kill matrix came to, for programs.
#pragma once

#include <string>

#include "verify/kill_matrix.h"

namespace kvcheck {

// verdict ("agree": all is as the table expects, else "diverge"), interrupted, rows, models,
// checks[] {id, own, caught, missed, inert, equivalent, not_applicable, kill_rate}, faults[] {id,
// expected, caught, missed, inert, equivalent, not_applicable (numbers of variants), models,
// seen_on[], unexpected[], smallest (command that runs the smallest case)}, false_alarms[].
[[nodiscard]] std::string faults_json(const MatrixReport& report);

}  // namespace kvcheck
