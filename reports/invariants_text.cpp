// SPDX-License-Identifier: MIT
// Invariants for people.
#include "reports/invariants_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "reports/number_text.h"

namespace kvcheck {
namespace {

constexpr std::size_t kLineMax = 118;

// Words joined by commas, on lines of their own that are not too long.
std::string paragraph(const std::string& head, const std::vector<std::string>& words) {
  if (words.empty()) return "";
  std::string text;
  std::string line = head;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string word = words[i] + (i + 1 < words.size() ? "," : "");
    if (line.size() + 1 + word.size() > kLineMax) {
      text += line + "\n";
      line = " ";
    }
    line += " " + word;
  }
  return text + line + "\n";
}

}  // namespace

std::string invariants_text(const InvariantCounts& counts) {
  const auto rows = invariants();
  std::vector<std::string> held;
  std::vector<std::string> unseen;
  std::string violated;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string id(rows[i].id);
    if (counts.failed[i] > 0) {
      violated += fmt::format("invariant {} violated {} of {} times: {}\n", id,
                              grouped(counts.failed[i]), grouped(counts.checked[i]), rows[i].claim);
    } else if (counts.checked[i] > 0) {
      held.push_back(fmt::format("{} {}", id, grouped(counts.checked[i])));
    } else {
      unseen.push_back(id);
    }
  }
  if (unseen.size() == rows.size()) return "invariants: none is looked at by these checks\n";
  const std::string head = fmt::format("invariants: {} hold, checked so often:", held.size());
  return violated + paragraph(head, held) + paragraph("not looked at:", unseen);
}

std::string invariants_list() {
  std::size_t width = 0;
  for (const InvariantRow& row : invariants()) width = std::max(width, row.id.size());
  std::string text;
  for (const InvariantRow& row : invariants()) {
    text +=
        fmt::format("{:<{}}  {}\n{:<{}}    {}\n", row.id, width, row.claim, "", width, row.checks);
  }
  return text;
}

}  // namespace kvcheck
