// SPDX-License-Identifier: MIT
// A case as text: in one line for a shell, or as JSON. What is read is a case that can be run: of a
// known check, fed as that check feeds.
#pragma once

#include <string>
#include <string_view>

#include "verify/case.h"

namespace kvcheck {

// "kv1:check=...,model=...,..." without blanks or anything that a shell would touch; values that
// hold other characters are percent-encoded.
[[nodiscard]] std::string to_token(const Case& subject);
// Throws Error naming `where` for another version, an unknown, missing or repeated key, or a bad
// value.
[[nodiscard]] Case parse_token(std::string_view token, std::string_view where);

// The same fields as a JSON object, "version": 1 first; 64-bit seeds as strings. A value that JSON
// cannot hold, such as the bytes of a path in another encoding, is percent-encoded as in a token.
[[nodiscard]] std::string to_json(const Case& subject);
[[nodiscard]] Case parse_case_json(std::string_view text, std::string_view where);

// "kvcheck repro kv1:..."
[[nodiscard]] std::string repro_line(const Case& subject);

}  // namespace kvcheck
