// SPDX-License-Identifier: MIT
// Escapes and shortens text from outside.
#include "engine/echo.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace kvcheck {
namespace {

unsigned byte_at(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

// Bytes of the printable character that begins at `i`; 0 if there is none. A second byte below
// 0xa0 after 0xc2 is a control character too: terminals obey some of them.
std::size_t printable_length(std::string_view text, std::size_t i) {
  const unsigned first = byte_at(text, i);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  const std::size_t length = first < 0xc2   ? 0
                             : first < 0xe0 ? 2
                             : first < 0xf0 ? 3
                             : first < 0xf5 ? 4
                                            : 0;
  if (length == 0 || i + length > text.size()) return 0;
  for (std::size_t k = 1; k < length; ++k) {
    if ((byte_at(text, i + k) & 0xc0U) != 0x80) return 0;
  }
  const unsigned second = byte_at(text, i + 1);
  const bool control = first == 0xc2 && second < 0xa0;
  const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool no_character = (first == 0xed && second >= 0xa0) || (first == 0xf4 && second >= 0x90);
  return control || overlong || no_character ? 0 : length;
}

std::string escaped(char c) {
  switch (c) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
}

}  // namespace

std::string one_line(std::string_view text, std::size_t most) {
  std::string line;
  std::size_t i = 0;
  while (i < text.size()) {
    if (line.size() >= most) return line + "...";
    const std::size_t length = printable_length(text, i);
    line += length == 0 ? escaped(text[i]) : std::string(text.substr(i, length));
    i += length == 0 ? 1 : length;
  }
  return line;
}

std::string in_quotes(std::string_view text) { return '"' + one_line(text) + '"'; }

std::string path_text(const std::filesystem::path& path) {
  return one_line(path.string(), std::numeric_limits<std::size_t>::max());
}

std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+:/,=@-";
  const auto plain = [&](char c) { return kPlain.find(c) != kPlain.npos; };
  if (!text.empty() && std::ranges::all_of(text, plain)) return std::string(text);
  const bool printable = one_line(text, std::numeric_limits<std::size_t>::max()) == text;
  std::string word;
  for (const char c : text) {
    if (!printable && !plain(c)) {  // octal numbers are what every printf knows
      word += fmt::format("\\{:03o}", static_cast<unsigned char>(c));
    } else {
      word += c == '\'' ? std::string("'\\''") : std::string(1, c);
    }
  }
  return printable ? fmt::format("'{}'", word) : fmt::format("\"$(printf '{}')\"", word);
}

}  // namespace kvcheck
