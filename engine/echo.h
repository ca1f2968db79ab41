// SPDX-License-Identifier: MIT
// Text from outside, made fit to stand in a message or a command of one line.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace kvcheck {

// Enough of a wrong value to recognise it; a hostile file must not flood the terminal.
inline constexpr std::size_t kEchoMax = 60;

// Control characters and broken UTF-8 as \n, \t, \r or \x1b; cut after about `most` bytes with
// "...".
[[nodiscard]] std::string one_line(std::string_view text, std::size_t most = kEchoMax);

// one_line in double quotes.
[[nodiscard]] std::string in_quotes(std::string_view text);

// How a message names a file: in full, since a cut path is no use to anybody.
[[nodiscard]] std::string path_text(const std::filesystem::path& path);

// What a shell reads back as one argument of just these bytes, in printable characters.
[[nodiscard]] std::string shell_word(std::string_view text);

}  // namespace kvcheck
