// SPDX-License-Identifier: MIT
// Ranks rows and lists the worst.
#include "reports/worst.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <tuple>
#include <utility>

#include "engine/echo.h"
#include "reports/number_text.h"

namespace kvcheck {
namespace {

double badness(const PrefixRow& row) {
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

}  // namespace

bool is_worse(const PrefixRow& a, const PrefixRow& b) {
  if (a.verdict != b.verdict) return a.verdict > b.verdict;
  if (badness(a) != badness(b)) return badness(a) > badness(b);
  const auto rest = [](const PrefixRow& row) {
    return std::tie(row.index, row.model, row.arithmetic, row.scalar, row.schedule);
  };
  return rest(a) < rest(b);
}

void WorstRows::add(PrefixRow row) {
  auto check = std::find_if(checks_.begin(), checks_.end(),
                            [&](const WorstOfCheck& of) { return of.check == row.check; });
  if (check == checks_.end()) check = checks_.insert(check, WorstOfCheck{row.check, 0, {}});
  ++check->cases;
  std::vector<PrefixRow>& rows = check->rows;
  rows.insert(std::upper_bound(rows.begin(), rows.end(), row, is_worse), std::move(row));
  if (rows.size() > shown_) rows.pop_back();
}

std::string worst_listing(const std::vector<WorstOfCheck>& checks) {
  std::string text;
  for (const WorstOfCheck& check : checks) {
    text += fmt::format("{}: worst {} of {} cases\n", shown(check.check), check.rows.size(),
                        grouped(check.cases));
    for (const PrefixRow& row : check.rows) {
      text += fmt::format("  {}{}\n", subject_text(row), difference_text(row));
      if (!row.reproduce.empty()) text += fmt::format("    {}\n", shown(row.reproduce));
    }
  }
  return text;
}

}  // namespace kvcheck
