// SPDX-License-Identifier: MIT
// Ranks rows and lists the worst.
#include "reports/worst.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <string_view>
#include <tuple>

#include "engine/echo.h"
#include "reports/number_text.h"

namespace kvcheck {
namespace {

template <typename Row>
double badness(const Row& row) {
  constexpr double kWorst = std::numeric_limits<double>::infinity();
  // An infinite difference counts even where the ratio was computed from something else.
  for (const auto& number : {row.ratio, row.max_abs_difference}) {
    if (number && !std::isfinite(*number)) return kWorst;
  }
  return row.ratio.value_or(row.max_abs_difference.value_or(-kWorst));
}

std::string shown(std::string_view text) {
  return one_line(text, std::numeric_limits<std::size_t>::max());
}

std::string subject_text(const PrefixRow& row) {
  std::string text =
      fmt::format("{}  case {} of {} ({} {}), tokens {}", name(row.verdict), row.index,
                  shown(row.model), name(row.arithmetic), name(row.scalar), one_line(row.tokens));
  if (!row.schedule.empty()) text += fmt::format(" fed {}", one_line(row.schedule));
  if (row.mark != Mark::none) text += fmt::format(" [{}]", name(row.mark));
  return text;
}

std::string difference_text(const PrefixRow& row) {
  if (!row.max_abs_difference) return "";
  std::string text = fmt::format(": {}", three_digits(*row.max_abs_difference));
  if (row.position && row.token_at_max) {
    text += fmt::format(" at position {}, token {}", *row.position, *row.token_at_max);
  }
  if (row.ratio) text += fmt::format(", ratio {}", three_digits(*row.ratio));
  return text;
}

std::string subject_text(const OperationRow& row) {
  std::string text = fmt::format("{}  case {} of {} ({}, {} {}), {}", name(row.verdict), row.number,
                                 shown(row.model), shown(row.cache_kind), name(row.arithmetic),
                                 name(row.scalar), shown(row.operations));
  if (row.mark != Mark::none) text += fmt::format(" [{}]", name(row.mark));
  return text;
}

std::string difference_text(const OperationRow& row) {
  std::string text;
  if (row.max_abs_difference) text += fmt::format(": {}", three_digits(*row.max_abs_difference));
  if (row.step) text += fmt::format("{}operation {}", text.empty() ? ": " : " at ", *row.step);
  if (row.position) text += fmt::format(", position {}", *row.position);
  if (row.ratio) text += fmt::format(", ratio {}", three_digits(*row.ratio));
  return text;
}

auto rest_of(const PrefixRow& row) {
  return std::tie(row.index, row.model, row.arithmetic, row.scalar, row.schedule);
}

auto rest_of(const OperationRow& row) {
  return std::tie(row.number, row.model, row.cache_kind, row.arithmetic, row.scalar,
                  row.operations);
}

template <typename Row>
bool worse(const Row& a, const Row& b) {
  if (a.verdict != b.verdict) return a.verdict > b.verdict;
  if (badness(a) != badness(b)) return badness(a) > badness(b);
  return rest_of(a) < rest_of(b);
}

template <typename Row>
std::string listing(const std::vector<WorstOfCheck<Row>>& checks) {
  std::string text;
  for (const WorstOfCheck<Row>& check : checks) {
    text += fmt::format("{}: worst {} of {} cases\n", shown(check.check), check.rows.size(),
                        grouped(check.cases));
    for (const Row& row : check.rows) {
      text += fmt::format("  {}{}\n", subject_text(row), difference_text(row));
      if (!row.reproduce.empty()) text += fmt::format("    {}\n", shown(row.reproduce));
    }
  }
  return text;
}

}  // namespace

bool is_worse(const PrefixRow& a, const PrefixRow& b) { return worse(a, b); }
bool is_worse(const OperationRow& a, const OperationRow& b) { return worse(a, b); }

std::string worst_listing(const std::vector<WorstOfCheck<PrefixRow>>& checks) {
  return listing(checks);
}
std::string worst_listing(const std::vector<WorstOfCheck<OperationRow>>& checks) {
  return listing(checks);
}

}  // namespace kvcheck
