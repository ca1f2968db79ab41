// SPDX-License-Identifier: MIT
// Counts characters.
#include "engine/text_width.h"

#include <algorithm>

namespace kvcheck {
namespace {

std::string blanks(std::string_view text, std::size_t width) {
  return std::string(width - std::min(width, text_width(text)), ' ');
}

}  // namespace

// Bytes that do not continue a character.
std::size_t text_width(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80; }));
}

std::string padded_right(std::string_view text, std::size_t width) {
  return std::string(text) + blanks(text, width);
}

std::string padded_left(std::string_view text, std::size_t width) {
  return blanks(text, width).append(text);
}

}  // namespace kvcheck
