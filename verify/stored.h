// SPDX-License-Identifier: MIT
// Failures that outlive a run: kept in the working folder, run first the next time.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model_file.h"
#include "verify/case.h"

namespace kvcheck {

// .kvcheck/failures in the working folder.
[[nodiscard]] std::filesystem::path stored_failures_folder();

// Names the case's file: the same for the same case, whoever wrote it.
[[nodiscard]] std::string case_id(const Case& subject);

// A planted fault is no failure of the engine, and runs that meet stored cases know no faults.
// Throws Error for a case that has one.
void require_no_fault(const Case& subject, std::string_view where);

// Writes the case to FOLDER/<model hash>-<engine>/<hash of the token>.json, whole or not at all; a
// case that is there already is left alone. Throws Error for a case with a fault, as
// promote_case() and load_stored() do.
void store_failure(const std::filesystem::path& folder, const Case& subject);

// Removes the case; whether it was there.
bool forget_failure(const std::filesystem::path& folder, const Case& subject);

// fixtures/regressions in the working folder: cases that the tests run again for ever.
[[nodiscard]] std::filesystem::path regressions_folder();

// Writes the case to FOLDER/<case_id>.json, gives the path; a case that is there already is left
// alone. Throws Error without such a folder, for a model that only this machine has, and where the
// name is another case's.
std::filesystem::path promote_case(const std::filesystem::path& folder, const Case& subject);
// The errors of promote_case() that can be known before the case is run.
void require_promotable(const std::filesystem::path& folder, const std::string& model);

// The stored failures of this model and engine, in the order of their file names. Throws Error for
// a file that does not hold a case of this model.
[[nodiscard]] std::vector<Case> load_stored(const std::filesystem::path& folder,
                                            const ModelData& model, const std::string& engine);

}  // namespace kvcheck
