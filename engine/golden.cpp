// SPDX-License-Identifier: MIT
// Reading stored logits.
#include "engine/golden.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "engine/echo.h"
#include "engine/error.h"
#include "engine/files.h"
#include "engine/sequences.h"

namespace kvcheck {

static_assert(std::endian::native == std::endian::little, "golden.f64 is read as it lies");

GoldenLogits::GoldenLogits(int vocabulary, int context, std::vector<double> values)
    : vocabulary_(vocabulary), values_(std::move(values)) {
  std::size_t of_length = 1;
  std::size_t first = 0;
  for (int n = 1; n <= context; ++n) {
    first_.push_back(first);
    of_length *= static_cast<std::size_t>(vocabulary);
    first += of_length;
  }
  require(values_.size() == first * static_cast<std::size_t>(vocabulary),
          "golden logits cover every prefix");
}

std::span<const double> GoldenLogits::row(std::span<const int> prefix) const {
  const auto vocabulary = static_cast<std::size_t>(vocabulary_);
  std::size_t index = 0;
  for (const int token : prefix) index = index * vocabulary + static_cast<std::size_t>(token);
  return std::span(values_).subspan((first_[prefix.size() - 1] + index) * vocabulary, vocabulary);
}

GoldenLogits read_golden(const std::filesystem::path& path, const Config& config) {
  const std::int64_t prefixes = count_all_prefixes(config.vocabulary, config.context);
  InputFile file(path, kBytesMax);
  const std::int64_t held = file.size();
  const std::int64_t row = config.vocabulary * std::int64_t{sizeof(double)};
  if (prefixes > kBytesMax / row || held != prefixes * row) {
    throw bad_input({path_text(path), "size",
                     fmt::format("{} rows of {} float64", prefixes, config.vocabulary),
                     fmt::format("{} bytes", held)});
  }
  std::vector<double> values(static_cast<std::size_t>(held) / sizeof(double));
  file.read(0, std::as_writable_bytes(std::span(values)));
  const auto wrong =
      std::ranges::find_if(values, [](double value) { return !std::isfinite(value); });
  if (wrong != values.end()) {
    throw bad_input({path_text(path), fmt::format("number {}", wrong - values.begin()),
                     "a finite number", fmt::format("{}", *wrong)});
  }
  return {config.vocabulary, config.context, std::move(values)};
}

}  // namespace kvcheck
