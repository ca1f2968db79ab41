// SPDX-License-Identifier: MIT
// The wording of complaints about bad input.
#include "engine/error.h"

#include <fmt/format.h>

#include "engine/echo.h"

namespace kvcheck {
namespace {

// Longer than what callers cut themselves, or a SHA-256; a hostile value still stays on one line.
constexpr std::size_t kGotMax = 200;
// A path is named in full.
constexpr std::size_t kWhereMax = 8192;

}  // namespace

Error bad_input(const Complaint& complaint) {
  return Error(fmt::format("{}: {}, expected {}, got {}", one_line(complaint.where, kWhereMax),
                           one_line(complaint.what, kGotMax), complaint.expected,
                           one_line(complaint.got, kGotMax)));
}

}  // namespace kvcheck
