// SPDX-License-Identifier: MIT
// From a generation to rows, and from the file back to rows.
#include "reports/generation_row.h"

#include <utility>

#include "engine/files.h"
#include "engine/sequences.h"
#include "reports/csv_reader.h"
#include "reports/csv_writer.h"

namespace kvcheck {
namespace {

std::string fed_text(const Generation& generation, const GenerationStep& step) {
  const auto end = static_cast<std::size_t>(step.consumed);
  const auto fed = static_cast<std::size_t>(step.fed);
  return join_tokens(std::span<const int>(generation.tokens).subspan(end - fed, fed));
}

}  // namespace

std::vector<GenerationRow> generation_rows(int request, GenerationRun run,
                                           const Generation& generation) {
  std::vector<GenerationRow> rows;
  for (const GenerationStep& step : generation.steps) {
    GenerationRow row;
    row.request = request + 1;
    row.run = run == GenerationRun::cached ? "cached" : "uncached";
    row.step = step.step + 1;
    row.fed = fed_text(generation, step);
    row.consumed = step.consumed;
    row.returned = step.returned;
    row.position = step.position;
    if (step.cache_length) row.cache_length = *step.cache_length;
    if (step.next_position) row.next_position = *step.next_position;
    row.remaining = step.remaining;
    row.token = step.token;
    row.logit = step.logit;
    row.probability = step.probability;
    row.drawn_with = step.drawn_with;
    rows.push_back(std::move(row));
  }
  if (!rows.empty()) rows.back().stop = name(generation.stop);
  return rows;
}

void write_generations(const std::filesystem::path& path, const std::vector<GenerationRow>& rows) {
  OutputFile file(path);
  file.write(csv_header(kGenerationColumns));
  for (const GenerationRow& row : rows) file.write(csv_line(kGenerationColumns, row));
  file.finish();
  file.commit();
}

void read_generations(const std::filesystem::path& path,
                      const std::function<void(GenerationRow)>& each) {
  CsvReader reader(path, kGenerationColumns);
  while (std::optional<GenerationRow> row = reader.next()) each(std::move(*row));
}

}  // namespace kvcheck
