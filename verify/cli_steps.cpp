// SPDX-License-Identifier: MIT
// Lays out the steps of a sequence of operations.
#include "verify/cli_steps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "verify/runs.h"

namespace kvcheck {
namespace {

constexpr std::size_t kOperationWidth = 34;   // longer ones push their line to the right
constexpr std::size_t kOperationMinimum = 9;  // of the word above them

bool counts_up(const std::vector<int>& numbers) {
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] != static_cast<int>(i)) return false;
  }
  return true;
}

// Slot = row needs no words; the slots of pages are those of their blocks.
std::string places_text(const Places& places, const CacheKind& kind) {
  std::vector<std::string> parts;
  if (!counts_up(places.positions)) parts.push_back("positions " + runs_text(places.positions));
  if (kind.layout == CacheLayout::paged) {
    if (!places.blocks.empty()) parts.push_back("blocks " + runs_text(places.blocks));
  } else {
    for (const int lane : places.blocks) parts.push_back(fmt::format("lane {}", lane));
    if (!counts_up(places.slots)) parts.push_back("slots " + runs_text(places.slots));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string compared_text(const ShownStep& step) {
  if (step.rows == 0) return "";
  std::string text = fmt::format("{} row{} compared", step.rows, step.rows == 1 ? "" : "s");
  if (!step.position) return text + ", same bits";
  return text +
         fmt::format(", largest difference {:.3g} at position {}", step.largest, *step.position);
}

std::string join_parts(std::initializer_list<std::string> parts) {
  std::string text;
  for (const std::string& part : parts) {
    if (part.empty()) continue;
    text += (text.empty() ? "" : "; ") + part;
  }
  return text;
}

class StepTable {
 public:
  StepTable(const Operations& operations, const CacheKind& kind) : kind_(kind) {
    for (const Operation& operation : operations) {
      width_ = std::max(width_, to_text(operation).size());
    }
    width_ = std::min(width_, kOperationWidth);
    add("step", "operation", "sequence", "rows", "next", "");
  }

  void add(const Operation& operation, const ShownStep& step) {
    std::string number = fmt::format("{}", step.step + 1);
    std::string what = to_text(operation);
    std::string compared = compared_text(step);
    for (const SeenStep::Sequence& of : step.changed) {
      add(number, what, fmt::format("{}", of.handle), fmt::format("{}", of.held.rows),
          fmt::format("{}", of.held.next_position),
          join_parts({places_text(of.places, kind_), compared}));
      number = what = compared = "";
    }
    if (step.changed.empty()) add(number, what, "", "", "", compared);
    if (!step.note.empty()) add_remark(step.note);
  }

  // An operation that came to nothing.
  void add(int step, const Operation& operation, std::string_view why) {
    add(fmt::format("{}", step + 1), to_text(operation), "", "", "", why);
  }

  void add_left_out(std::size_t count) { add_remark(fmt::format("... {} steps ...", count)); }

  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  void add(std::string_view number, std::string_view what, std::string_view sequence,
           std::string_view rows, std::string_view next, std::string_view rest) {
    text_ += fmt::format("{:>4}  {:<{}}  {:>8}  {:>4}  {:>4}  {}", number, what, width_, sequence,
                         rows, next, rest);
    text_.erase(text_.find_last_not_of(' ') + 1);
    text_ += '\n';
  }

  void add_remark(std::string_view remark) { text_ += fmt::format("      {}\n", remark); }

  const CacheKind& kind_;
  std::size_t width_ = kOperationMinimum;
  std::string text_;
};

// What became of an operation that nothing was seen of.
std::string_view why_unseen(int step, const CaseResult& result, std::size_t last_seen) {
  if (result.step == step) return result.verdict == Verdict::broken ? "engine failed" : "refused";
  return static_cast<std::size_t>(step) < last_seen ? "left out: not valid after the refusal"
                                                    : "not run";
}

}  // namespace

void Steps::add(const SeenStep& seen) {
  if (seen.step == 0) shown_.clear();
  ShownStep& step =
      shown_.emplace_back(ShownStep{seen.step, seen.changed, seen.rows.size(), 0, {}, seen.note});
  for (const MeasuredRow& row : seen.rows) {
    const double difference = row.comparison.max_abs_difference;
    // Written so that a NaN is larger than everything, and stays.
    if (row.comparison.same_bits || difference <= step.largest || std::isnan(step.largest)) {
      continue;
    }
    step.largest = difference;
    step.position = row.position;
  }
}

std::string steps_text(const Operations& operations, const std::vector<ShownStep>& steps,
                       const CacheKind& kind, const CaseResult& result) {
  StepTable table(operations, kind);
  const auto last_seen = static_cast<std::size_t>(steps.empty() ? 0 : steps.back().step);
  // What follows the end of the run is told in one line.
  const auto failed = static_cast<std::size_t>(result.step.value_or(0));
  const std::size_t end =
      std::min(operations.size(),
               std::max(steps.empty() ? 0 : last_seen + 1, result.note.empty() ? 0 : failed + 1));
  const bool cut = end > kFirstSteps + kLastSteps + 1;
  auto seen = steps.begin();
  for (std::size_t i = 0; i < end; ++i) {
    while (seen != steps.end() && seen->step < static_cast<int>(i)) ++seen;
    if (cut && i == kFirstSteps) table.add_left_out(end - kFirstSteps - kLastSteps);
    if (cut && i >= kFirstSteps && i < end - kLastSteps) continue;
    if (seen != steps.end() && seen->step == static_cast<int>(i)) {
      table.add(operations[i], *seen);
    } else {
      table.add(static_cast<int>(i), operations[i],
                why_unseen(static_cast<int>(i), result, last_seen));
    }
  }
  std::string text = table.text();
  if (end < operations.size()) {
    text += fmt::format("      {} further operation{} not run\n", operations.size() - end,
                        operations.size() - end == 1 ? "" : "s");
  }
  return text;
}

}  // namespace kvcheck
