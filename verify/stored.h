// SPDX-License-Identifier: MIT
// Failures that outlive a run: kept in the working folder, run first the next time.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/model_file.h"
#include "verify/case.h"

namespace kvcheck {

// .kvcheck/failures in the working folder.
[[nodiscard]] std::filesystem::path stored_failures_folder();

// Writes the case to FOLDER/<model hash>-<engine>/<hash of the token>.json, whole or not at all; a
// case that is there already is left alone.
void store_failure(const std::filesystem::path& folder, const Case& subject);

// The stored failures of this model and engine, in the order of their file names. Throws Error for
// a file that does not hold a case of this model.
[[nodiscard]] std::vector<Case> load_stored(const std::filesystem::path& folder,
                                            const ModelData& model, const std::string& engine);

}  // namespace kvcheck
