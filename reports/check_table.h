// SPDX-License-Identifier: MIT
// The table that `kvcheck verify` prints: a line for each check, agreeing ones with how much room
// they left. A new column is a new row of the table in check_table.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "verify/case.h"

namespace kvcheck {

// A line holds every column in 150 characters as long as names are of the usual length.
inline constexpr std::size_t kPrefixTextMax = 20;

struct TableRow {
  std::string check;
  std::string model;
  std::string arithmetic;     // also names the scalar where it is not f32
  std::int64_t prefixes = 0;  // or sequences of operations
  std::int64_t logits = 0;
  std::optional<double> worst_difference;  // none: nothing was compared
  std::string prefix;                      // where that lies; empty where there is no difference
  std::optional<std::int64_t> position;
  std::optional<std::int64_t> token;
  std::optional<double> worst_ratio;
  std::optional<double> ratio_limit;  // of a policy that judges by the ratio
  std::optional<double> kappa;        // of the row with the worst difference, if there is one
  std::optional<InFloat64> float64;   // of its case
  std::int64_t gated = 0;
  double seconds = 0;
  Verdict verdict = Verdict::gave_up;
};

// `words` is [vocabulary], or empty where the model has none.
[[nodiscard]] TableRow table_row(const CheckSummary& summary, std::span<const std::string> words);

// Tokens as words joined by blanks, or as ids; a long text keeps its end.
[[nodiscard]] std::string prefix_text(std::span<const int> tokens,
                                      std::span<const std::string> words);

// Their end.
[[nodiscard]] std::string operations_text(const Operations& operations);

[[nodiscard]] std::string check_table(std::span<const TableRow> rows);

}  // namespace kvcheck
