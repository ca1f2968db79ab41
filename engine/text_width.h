// SPDX-License-Identifier: MIT
// Columns of text on a terminal: a character of UTF-8, of however many bytes, takes one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace kvcheck {

[[nodiscard]] std::size_t text_width(std::string_view text);

// With blanks behind, or before it, up to `width`; a longer text stays as it is.
[[nodiscard]] std::string padded_right(std::string_view text, std::size_t width);
[[nodiscard]] std::string padded_left(std::string_view text, std::size_t width);

}  // namespace kvcheck
