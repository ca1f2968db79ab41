// SPDX-License-Identifier: MIT
// Words for what is not shown.
#include "reports/shown_part.h"

#include <fmt/format.h>

namespace kvcheck {

std::string left_out_text(std::size_t count, std::string_view what) {
  return fmt::format("... {} {}{} ...", count, what, count == 1 ? "" : "s");
}

}  // namespace kvcheck
