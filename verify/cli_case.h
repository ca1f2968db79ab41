// SPDX-License-Identifier: MIT
// Cases as a user names them, and their tokens as a user reads them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/model_file.h"
#include "verify/case.h"

namespace kvcheck {

// Whether it has the form of a kv1:... token, or is a file.
[[nodiscard]] bool names_case(const std::string& subject);
// The case of a kv1:... token or of a case file. Throws Error for anything else.
[[nodiscard]] Case read_case(const std::string& subject);

// The one sequence that the text of an option holds, as ids or words of the model: separated by
// blanks or, where there are none, by commas. Throws Error naming the option for anything else.
[[nodiscard]] std::vector<int> one_sequence(const std::string& text, std::string_view option,
                                            const ModelData& model);
// How `length` tokens are fed: as `text`, the value of --schedule, says, or one at a time.
[[nodiscard]] std::vector<int> schedule_of(int length, const std::string& text);

// Throws Error naming the option where the path is of anything at all: nothing is overwritten.
void require_new_file(const std::string& path, std::string_view option);

// "0 2 4   (<bos> the cat)"
[[nodiscard]] std::string tokens_text(const ModelData& model, const std::vector<int>& tokens);

}  // namespace kvcheck
