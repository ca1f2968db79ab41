// SPDX-License-Identifier: MIT
// From a case's record to its row, and from the file back to rows.
#include "reports/prefix_row.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <utility>

#include "engine/echo.h"
#include "reports/csv_reader.h"

namespace kvcheck {

PrefixRow prefix_row(const CaseRecord& record, std::string_view reproduce) {
  const Case& subject = record.subject;
  const CaseResult& result = record.result;
  PrefixRow row;
  row.index = record.index;
  row.model = one_line(subject.model, std::numeric_limits<std::size_t>::max());
  row.engine = subject.engine;
  row.scalar = subject.scalar;
  row.arithmetic = subject.arithmetic;
  row.check = record.check();
  row.prefix_length = static_cast<std::int64_t>(subject.tokens.size());
  row.tokens = fmt::format("{}", fmt::join(subject.tokens, " "));
  if (!subject.schedule.empty()) row.schedule = to_text(subject.schedule);
  if (result.row) {
    row.position = result.position;
    row.max_abs_difference = result.row->max_abs_difference;
    row.token_at_max = result.row->token_at_max;
    row.uncached = result.row->uncached;
    row.cached = result.row->cached;
    row.ulps = result.row->ulps;
    row.argmax_uncached = result.row->argmax_uncached;
    row.argmax_cached = result.row->argmax_cached;
  }
  if (result.noise) {
    row.noise_floor = result.noise->floor;
    row.kappa = result.noise->kappa;
  }
  row.ratio = result.ratio;
  row.verdict = result.verdict;
  row.mark = result.mark;
  row.reproduce = reproduce;
  return row;
}

void read_prefixes(const std::filesystem::path& path, const std::function<void(PrefixRow)>& each) {
  CsvReader reader(path, kPrefixColumns);
  while (std::optional<PrefixRow> row = reader.next()) each(std::move(*row));
}

}  // namespace kvcheck
