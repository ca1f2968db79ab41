// SPDX-License-Identifier: MIT
// Numbers that follow one another become one part.
#include "verify/runs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kvcheck {
namespace {

constexpr std::size_t kRunsShown = 8;

}  // namespace

std::string runs_text(const std::vector<int>& numbers) {
  std::vector<std::string> runs;
  for (std::size_t first = 0; first < numbers.size();) {
    std::size_t last = first;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (runs.size() == kRunsShown) {
      runs.emplace_back("...");
      break;
    }
    runs.push_back(first == last ? fmt::format("{}", numbers[first])
                                 : fmt::format("{}-{}", numbers[first], numbers[last]));
    first = last + 1;
  }
  return fmt::format("{}", fmt::join(runs, ","));
}

}  // namespace kvcheck
