// SPDX-License-Identifier: MIT
// What is claimed of any model, prefix and schedule, as functions from a case to a complaint. A
// property fails with the complaint, which ends in the line that runs the very case again.
#pragma once

#include <optional>
#include <string>

#include "verify/replay.h"

namespace kvcheck {

// Runs the case; nothing if it agrees, else what differs and the `kvcheck repro` line. A model that
// has no name is saved first, in the folder for temporary files, so that the line can name it.
[[nodiscard]] std::optional<std::string> complaint_about(Case subject, const ModelData& model,
                                                         const EngineFactory& factory);

}  // namespace kvcheck
