// SPDX-License-Identifier: MIT
// What was fed, written down row by row, so that any row can be computed again without a cache.
#pragma once

#include <vector>

namespace kvcheck {

// A row that a query sees, and the position at which its key stood then: a shift moves it later.
struct SeenRow {
  int row;  // index into the log
  int position;

  bool operator==(const SeenRow&) const = default;
};

// One fed token. `sees` lists, by rising position, the rows held when it was computed; itself last.
struct LoggedRow {
  int token;
  int position;
  std::vector<SeenRow> sees;

  bool operator==(const LoggedRow&) const = default;
};

}  // namespace kvcheck
