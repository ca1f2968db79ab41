// SPDX-License-Identifier: MIT
// The worst cases of a run, found again in its prefixes.csv and operations.csv.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "reports/operation_row.h"
#include "reports/prefix_row.h"

namespace kvcheck {

inline constexpr std::size_t kWorstShown = 10;  // of each check: about a screen

// By verdict, then by ratio or, where there is none, difference; what is not finite comes before
// every number. Equal ones by case, then by what else tells them apart.
[[nodiscard]] bool is_worse(const PrefixRow& a, const PrefixRow& b);
[[nodiscard]] bool is_worse(const OperationRow& a, const OperationRow& b);

template <typename Row>
struct WorstOfCheck {
  std::string check;
  std::int64_t cases = 0;  // rows that the check has in the file
  std::vector<Row> rows;   // the worst first
};

// Reads rows one by one, so that a file of any length takes little memory.
template <typename Row>
class WorstRows {
 public:
  explicit WorstRows(std::size_t shown = kWorstShown) : shown_(shown) {}

  void add(Row row) {
    WorstOfCheck<Row>& check = of(row.check);
    ++check.cases;
    std::vector<Row>& rows = check.rows;
    const auto worse = [](const Row& a, const Row& b) { return is_worse(a, b); };
    rows.insert(std::upper_bound(rows.begin(), rows.end(), row, worse), std::move(row));
    if (rows.size() > shown_) rows.pop_back();
  }
  // In the order in which the checks first come.
  [[nodiscard]] const std::vector<WorstOfCheck<Row>>& checks() const { return checks_; }

 private:
  WorstOfCheck<Row>& of(const std::string& name) {
    for (WorstOfCheck<Row>& check : checks_) {
      if (check.check == name) return check;
    }
    return checks_.emplace_back(WorstOfCheck<Row>{name, 0, {}});
  }

  std::size_t shown_;
  std::vector<WorstOfCheck<Row>> checks_;
};

// Two lines for each case, the second of which runs it again.
[[nodiscard]] std::string worst_listing(const std::vector<WorstOfCheck<PrefixRow>>& checks);
[[nodiscard]] std::string worst_listing(const std::vector<WorstOfCheck<OperationRow>>& checks);

}  // namespace kvcheck
