// SPDX-License-Identifier: MIT
// Lays out cached rows.
#include "reports/cache_rows_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>

#include "reports/number_text.h"
#include "reports/text_table.h"

namespace kvcheck {
namespace {

std::string numbers_text(std::span<const double> numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (!kShownNumbers.shows(i, numbers.size())) continue;
    const bool gap = i > 0 && !kShownNumbers.shows(i - 1, numbers.size());
    text += fmt::format("{}{:>10.4g}", gap ? " ..." : "", numbers[i]);
  }
  return text;
}

void add_row(const Config& config, const CachedRow& row, int step, TextTable& table) {
  const auto size = static_cast<std::size_t>(config.head_size);
  const auto heads = static_cast<std::size_t>(config.kv_heads);
  for (std::size_t head = 0; head < heads; ++head) {
    if (!kShownHeads.shows(head, heads)) {
      if (head == kShownHeads.first) {
        table.add({"", "", "", "", left_out_text(kShownHeads.left_out(heads), "head"), ""});
      }
      continue;
    }
    const bool first = head == 0;
    const auto of_head = [&](const std::vector<double>& numbers) {
      return numbers_text(std::span(numbers).subspan(head * size, size));
    };
    const std::string by =
        fmt::format("layer {} in step {}{}", row.written_by_layer, row.written_in_step + 1,
                    row.written_in_step == step ? ", new" : "");
    table.add({first ? fmt::format("{}", row.layer) : "", first ? fmt::format("{}", row.slot) : "",
               first ? fmt::format("{}", row.position) : "", first ? by : "",
               fmt::format("{}", head), of_head(row.key), of_head(row.value)});
  }
}

std::string table_text(const Config& config, const CacheStep& step) {
  TextTable table(7);
  table.add({"layer", "slot", "position", "written by", "head", "       key", "     value"});
  const auto layers = static_cast<std::size_t>(config.layers);
  auto at = step.rows.begin();
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const auto end = std::find_if(at, step.rows.end(), [&](const CachedRow& row) {
      return row.layer != static_cast<int>(layer);
    });
    if (!kShownLayers.shows(layer, layers)) {
      if (layer == kShownLayers.first) {
        table.add({left_out_text(kShownLayers.left_out(layers), "layer")});
      }
      at = end;
      continue;
    }
    const auto rows = static_cast<std::size_t>(end - at);
    for (std::size_t r = 0; r < rows; ++r, ++at) {
      if (kShownRows.shows(r, rows)) {
        add_row(config, *at, step.step, table);
      } else if (r == kShownRows.first) {
        table.add({"", left_out_text(kShownRows.left_out(rows), "row"), ""});
      }
    }
  }
  return table.text();
}

std::string size_text(const Config& config, const CacheStep& step) {
  const std::vector<int>& rows = step.rows_of_layer;
  const std::int64_t all = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  const bool alike = std::ranges::adjacent_find(rows, std::not_equal_to<>()) == rows.end();
  const std::string of_layers = alike
                                    ? fmt::format("rows {} x layers {}", rows.front(), rows.size())
                                    : fmt::format("rows {} in {} layers", all, rows.size());
  return fmt::format("  {} x 2 (key, value) x K/V heads {} x head size {} = {} numbers, {} bytes\n",
                     of_layers, config.kv_heads, config.head_size,
                     grouped(all * 2 * config.kv_width()), grouped(step.bytes));
}

}  // namespace

std::string cache_step_text(const Config& config, const CacheStep& step, const std::string& fed) {
  return fmt::format("\nafter step {}: tokens {}\n", step.step + 1, fed) +
         table_text(config, step) + size_text(config, step);
}

}  // namespace kvcheck
