// SPDX-License-Identifier: MIT
// Cases as a user names them, and their tokens as a user reads them.
#pragma once

#include <string>
#include <vector>

#include "engine/model_file.h"
#include "verify/case.h"

namespace kvcheck {

// The case of a kv1:... token or of a case file. Throws Error for anything else.
[[nodiscard]] Case read_case(const std::string& subject);

// "0 2 4   (<bos> the cat)"
[[nodiscard]] std::string tokens_text(const ModelData& model, const std::vector<int>& tokens);

}  // namespace kvcheck
