// SPDX-License-Identifier: MIT
// Lays out the table of checks.
#include "reports/check_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>
#include <variant>

#include "engine/echo.h"
#include "engine/text_width.h"
#include "reports/number_text.h"

namespace kvcheck {
namespace {

enum class Align { left, right };

struct TableColumn {
  std::string_view header;
  Align align;
  std::string (*cell)(const TableRow&);
};

constexpr std::string_view kNotApplicable = "-";

std::string or_dash(const std::string& text) {
  return text.empty() ? std::string(kNotApplicable)
                      : one_line(text, std::numeric_limits<std::size_t>::max());
}

std::string or_dash(const std::optional<double>& number) {
  return number ? three_digits(*number) : std::string(kNotApplicable);
}

std::string or_dash(const std::optional<std::int64_t>& number) {
  return number ? grouped(*number) : std::string(kNotApplicable);
}

std::string ratio_cell(const TableRow& row) {
  std::string ratio = or_dash(row.worst_ratio);
  if (!row.worst_ratio || !row.ratio_limit) return ratio;
  return fmt::format("{} of {}", ratio, three_digits(*row.ratio_limit));
}

// A number alone agrees.
std::string float64_cell(const TableRow& row) {
  if (!row.float64) return std::string(kNotApplicable);
  const std::string difference = three_digits(row.float64->difference);
  if (row.float64->verdict == Verdict::agree) return difference;
  return fmt::format("{} {}", difference, name(row.float64->verdict));
}

std::string verdict_cell(const TableRow& row) {
  if (row.gated == 0) return std::string(name(row.verdict));
  return fmt::format("{}, {} gated", name(row.verdict), grouped(row.gated));
}

constexpr auto kColumns = std::to_array<TableColumn>({
    {"check", Align::left, [](const TableRow& row) { return or_dash(row.check); }},
    {"model", Align::left, [](const TableRow& row) { return or_dash(row.model); }},
    {"arithmetic", Align::left, [](const TableRow& row) { return or_dash(row.arithmetic); }},
    {"prefixes", Align::right, [](const TableRow& row) { return grouped(row.prefixes); }},
    {"logits", Align::right, [](const TableRow& row) { return grouped(row.logits); }},
    {"worst", Align::right, [](const TableRow& row) { return or_dash(row.worst_difference); }},
    {"in prefix", Align::left, [](const TableRow& row) { return or_dash(row.prefix); }},
    {"pos", Align::right, [](const TableRow& row) { return or_dash(row.position); }},
    {"token", Align::right, [](const TableRow& row) { return or_dash(row.token); }},
    {"ratio", Align::right, ratio_cell},
    {"kappa", Align::right, [](const TableRow& row) { return or_dash(row.kappa); }},
    {"float64", Align::right, float64_cell},
    {"time", Align::right, [](const TableRow& row) { return duration_text(row.seconds); }},
    {"verdict", Align::left, verdict_cell},
});

using Line = std::array<std::string, kColumns.size()>;

std::vector<Line> lines_of(std::span<const TableRow> rows) {
  std::vector<Line> lines(rows.size() + 1);
  for (std::size_t c = 0; c < kColumns.size(); ++c) {
    lines[0][c] = kColumns[c].header;
    for (std::size_t r = 0; r < rows.size(); ++r) lines[r + 1][c] = kColumns[c].cell(rows[r]);
  }
  return lines;
}

std::optional<double> ratio_limit(const Policy& policy) {
  const auto* noise = std::get_if<NoiseLimit>(&policy);
  return noise ? std::optional(noise->limit) : std::nullopt;
}

std::string word_of(int token, std::span<const std::string> words) {
  const bool known = token >= 0 && static_cast<std::size_t>(token) < words.size();
  return known ? one_line(words[static_cast<std::size_t>(token)]) : fmt::format("{}", token);
}

}  // namespace

std::string prefix_text(std::span<const int> tokens, std::span<const std::string> words) {
  constexpr std::string_view kCut = "... ";
  std::string text;
  for (std::size_t i = tokens.size(); i > 0; --i) {
    const std::string word = word_of(tokens[i - 1], words);
    const std::size_t before = i == 1 ? 0 : kCut.size();  // further words would be cut
    const bool fits = text_width(word) + 1 + text_width(text) + before <= kPrefixTextMax;
    // The last token is shown however long it is.
    if (!text.empty() && !fits) return std::string(kCut) + text;
    text.insert(0, text.empty() ? word : word + ' ');
  }
  return text;
}

std::string operations_text(const Operations& operations) {
  const std::string text = to_text(operations);
  if (text.size() <= kPrefixTextMax) return text;
  constexpr std::string_view kCut = "...";
  return std::string(kCut) + text.substr(text.size() - kPrefixTextMax + kCut.size());
}

TableRow table_row(const CheckSummary& summary, std::span<const std::string> words) {
  TableRow row;
  row.check = summary.check;
  if (summary.coverage) row.check += fmt::format(" {}", name(summary.cache_kind));
  row.model = summary.model;
  row.arithmetic = name(summary.arithmetic);
  if (summary.scalar != ScalarKind::f32) row.arithmetic += fmt::format(" {}", name(summary.scalar));
  row.prefixes = summary.coverage ? summary.counts.cases : summary.counts.prefixes;
  row.logits = summary.counts.logits;
  const std::optional<CaseRecord>& worst = summary.worst_difference;
  if (worst && worst->result.row) {
    row.worst_difference = worst->result.row->max_abs_difference;
    if (*row.worst_difference != 0) {
      row.prefix = worst->subject.operations.empty() ? prefix_text(worst->subject.tokens, words)
                                                     : operations_text(worst->subject.operations);
      row.position = worst->result.position;
      row.token = worst->result.row->token_at_max;
      if (worst->result.noise) row.kappa = worst->result.noise->kappa;
      row.float64 = summary.in_float64;
    }
  }
  row.worst_ratio = summary.worst_ratio;
  row.ratio_limit = ratio_limit(summary.policy);
  row.gated = summary.counts.gated;
  row.seconds = summary.seconds;
  row.verdict = summary.verdict;
  return row;
}

std::string check_table(std::span<const TableRow> rows) {
  const std::vector<Line> lines = lines_of(rows);
  std::array<std::size_t, kColumns.size()> widths{};
  for (const Line& line : lines) {
    for (std::size_t c = 0; c < widths.size(); ++c) {
      widths[c] = std::max(widths[c], text_width(line[c]));
    }
  }
  std::string text;
  for (const Line& line : lines) {
    for (std::size_t c = 0; c < widths.size(); ++c) {
      if (c > 0) text += "  ";
      const auto pad = kColumns[c].align == Align::left ? padded_right : padded_left;
      text += pad(line[c], widths[c]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text;
}

}  // namespace kvcheck
