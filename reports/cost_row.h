// SPDX-License-Identifier: MIT
// cost.csv: the work of each phase by layer, a row for each layer and one for what lies outside of
// them. No times.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "reports/csv_column.h"
#include "verify/cost_report.h"

namespace kvcheck {

// Counts are digits, since they may have more than 64 bits.
struct CostRow {
  std::string phase;                  // prefill, decode or uncached
  std::int64_t length = 0;            // tokens of each sequence afterwards
  std::int64_t sequences = 0;         // side by side
  std::optional<std::int64_t> layer;  // none outside the layers
  std::string projections;            // multiply-adds
  std::string attention;              // likewise
  std::string mlp;                    // likewise
  std::string output;                 // likewise
  std::string other_operations;       // single ones; empty where there are no weights
  std::string counted;                // equal or different; empty: not counted

  bool operator==(const CostRow&) const = default;
};

inline constexpr auto kCostColumns = std::to_array<Column<CostRow>>({
    {"phase", &CostRow::phase},
    {"length", &CostRow::length},
    {"sequences", &CostRow::sequences},
    {"layer", &CostRow::layer},
    {"projections", &CostRow::projections},
    {"attention", &CostRow::attention},
    {"mlp", &CostRow::mlp},
    {"output", &CostRow::output},
    {"other_operations", &CostRow::other_operations},
    {"counted", &CostRow::counted},
});

[[nodiscard]] std::vector<CostRow> cost_rows(const CostReport& report);
void write_cost_csv(const std::filesystem::path& path, const CostReport& report);

}  // namespace kvcheck
