// SPDX-License-Identifier: MIT
// The file of `kvcheck generate --csv`: one row for each step of each run. Requests and steps count
// from 1, positions from 0.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/generate.h"
#include "reports/csv_column.h"

namespace kvcheck {

struct GenerationRow {
  std::int64_t request = 0;
  std::string run;  // cached, uncached
  std::int64_t step = 0;
  std::string fed;  // ids joined by blanks
  std::int64_t consumed = 0;
  std::int64_t returned = 0;
  std::int64_t position = 0;
  std::optional<std::int64_t> cache_length;   // none without a cache
  std::optional<std::int64_t> next_position;  // likewise
  std::int64_t remaining = 0;
  std::int64_t token = 0;
  std::optional<double> logit;
  std::optional<double> probability;
  std::optional<double> drawn_with;
  std::string stop;  // of the last step: eos, context, steps

  bool operator==(const GenerationRow&) const = default;
};

inline constexpr auto kGenerationColumns = std::to_array<Column<GenerationRow>>({
    {"request", &GenerationRow::request},
    {"run", &GenerationRow::run},
    {"step", &GenerationRow::step},
    {"fed", &GenerationRow::fed},
    {"consumed", &GenerationRow::consumed},
    {"returned", &GenerationRow::returned},
    {"position", &GenerationRow::position},
    {"cache_length", &GenerationRow::cache_length},
    {"next_position", &GenerationRow::next_position},
    {"remaining", &GenerationRow::remaining},
    {"token", &GenerationRow::token},
    {"logit", &GenerationRow::logit},
    {"probability", &GenerationRow::probability},
    {"drawn_with", &GenerationRow::drawn_with},
    {"stop", &GenerationRow::stop},
});

enum class GenerationRun { uncached, cached };

// `request`: from 0.
[[nodiscard]] std::vector<GenerationRow> generation_rows(int request, GenerationRun run,
                                                         const Generation& generation);

// The file appears complete or not at all. Throws Error if it cannot be written.
void write_generations(const std::filesystem::path& path, const std::vector<GenerationRow>& rows);
// Gives the rows in the order of the file. Throws Error naming file and line.
void read_generations(const std::filesystem::path& path,
                      const std::function<void(GenerationRow)>& each);

}  // namespace kvcheck
