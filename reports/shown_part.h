// SPDX-License-Identifier: MIT
// Which part of a long list is shown to people, and what is said of the rest.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace kvcheck {

// Of longer lists the first ones and the last ones are shown.
struct ShownPart {
  std::size_t first;
  std::size_t last;

  [[nodiscard]] bool shows(std::size_t index, std::size_t count) const {
    return count <= first + last || index < first || index >= count - last;
  }
  [[nodiscard]] std::size_t left_out(std::size_t count) const {
    return count <= first + last ? 0 : count - first - last;
  }
};
// "... 28 layers ..."
[[nodiscard]] std::string left_out_text(std::size_t count, std::string_view what);

}  // namespace kvcheck
