// SPDX-License-Identifier: MIT
// The wording of complaints about bad input.
#include "engine/error.h"

#include <fmt/format.h>

#include "engine/echo.h"

namespace kvcheck {

Error bad_input(const Complaint& complaint) {
  return Error(fmt::format("{}: {}, expected {}, got {}", complaint.where, complaint.what,
                           complaint.expected, one_line(complaint.got)));
}

}  // namespace kvcheck
