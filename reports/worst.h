// SPDX-License-Identifier: MIT
// The worst cases of a run, found again in its prefixes.csv.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "reports/prefix_row.h"

namespace kvcheck {

inline constexpr std::size_t kWorstShown = 10;  // of each check: about a screen

struct WorstOfCheck {
  std::string check;
  std::int64_t cases = 0;       // rows that the check has in the file
  std::vector<PrefixRow> rows;  // the worst first
};

// Reads rows one by one, so that a file of any length takes little memory.
class WorstRows {
 public:
  explicit WorstRows(std::size_t shown = kWorstShown) : shown_(shown) {}

  void add(PrefixRow row);
  // In the order in which the checks first come.
  [[nodiscard]] const std::vector<WorstOfCheck>& checks() const { return checks_; }

 private:
  std::size_t shown_;
  std::vector<WorstOfCheck> checks_;
};

// By verdict, then by ratio or, where there is none, difference; what is not finite comes before
// every number. Equal ones by case, then by what else tells them apart.
[[nodiscard]] bool is_worse(const PrefixRow& a, const PrefixRow& b);

// Two lines for each case, the second of which runs it again.
[[nodiscard]] std::string worst_listing(const std::vector<WorstOfCheck>& checks);

}  // namespace kvcheck
