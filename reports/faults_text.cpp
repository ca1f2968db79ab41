// SPDX-License-Identifier: MIT
// Tables of the kill matrix.
#include "reports/faults_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "engine/echo.h"
#include "engine/sequences.h"
#include "reports/fault_row.h"
#include "reports/number_text.h"
#include "verify/case_text.h"

namespace kvcheck {
namespace {

// Of a cell, in the order of Outcome.
constexpr std::string_view kSigns = "#.-= ";
constexpr std::string_view kLegend =
    "# caught   . missed   - inert   = equivalent   blank: not applicable; letters as below";

constexpr std::size_t kSmallestMax = 22;

char letter(std::size_t check) { return static_cast<char>('a' + check); }

std::string cut(const std::string& text, std::size_t most) {
  return text.size() <= most ? text : text.substr(0, most - 3) + "...";
}

std::int64_t count(const OutcomeCounts& counts, Outcome outcome) {
  return counts[static_cast<std::size_t>(outcome)];
}

// Own checks, a gap, replicas; `sign` gives the character of a column.
template <typename Sign>
std::string columns(const std::vector<CheckReport>& checks, Sign sign) {
  std::string text;
  for (std::size_t c = 0; c < checks.size(); ++c) {
    const bool gap = c > 0 && checks[c - 1].check.own && !checks[c].check.own;
    text += gap ? " " : "";
    text += sign(c);
  }
  return text;
}

// Of the variants that the fault could be planted as anywhere, those that came out as expected.
std::string as_expected(const FaultReport& fault) {
  std::int64_t planted = 0;
  for (const std::int64_t of_outcome : fault.variants) planted += of_outcome;
  planted -= count(fault.variants, Outcome::not_applicable);
  return fmt::format("{}/{}", planted - static_cast<std::int64_t>(fault.unexpected.size()),
                     planted);
}

std::string smallest_text(const FaultReport& fault) {
  if (!fault.smallest) {
    return fault.fault->expected == Expected::caught ? "-"
                                                     : std::string(name(fault.fault->expected));
  }
  const Case& subject = fault.smallest->subject;
  if (!subject.operations.empty()) return cut(to_text(subject.operations), kSmallestMax);
  const std::string tokens = join_tokens(subject.tokens);
  return cut(
      subject.schedule.empty() ? tokens : fmt::format("{} ({})", tokens, to_text(subject.schedule)),
      kSmallestMax);
}

// "tiny, 22 of 22", or the model's name where there is only one.
std::string seen_on(const FaultReport& fault) {
  std::string text = fault.seen_on_smallest ? "tiny" : "";
  if (fault.models == 0) return text;
  if (!text.empty()) text += ", ";
  if (fault.models == 1 && !fault.seen_on.empty()) return text + one_line(fault.seen_on.front());
  return text + fmt::format("{} of {}", fault.seen_on.size(), fault.models);
}

struct Line {
  std::string fault, variants, checks, first, largest, smallest, seen, stands_for;
};

std::string line_text(const Line& line, std::size_t checks) {
  std::string text = fmt::format("  {:<26} {:>7}  {:<{}}  {:<12} {:>9}  {:<{}}  {:<15} ",
                                 line.fault, line.variants, line.checks, checks, line.first,
                                 line.largest, line.smallest, kSmallestMax, line.seen);
  const std::size_t left = kFaultLineMax > text.size() + 8 ? kFaultLineMax - text.size() : 8;
  text += cut(line.stands_for, left);
  text.erase(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

Line fault_line(const FaultReport& fault, const std::vector<CheckReport>& checks) {
  return {
      .fault = std::string(fault.fault->id),
      .variants = as_expected(fault),
      .checks = columns(
          checks, [&](std::size_t c) { return kSigns[static_cast<std::size_t>(fault.checks[c])]; }),
      .first = fault.smallest ? first_failing(*fault.smallest) : "",
      .largest = fault.smallest ? three_digits(fault.max_abs_difference) : "",
      .smallest = smallest_text(fault),
      .seen = seen_on(fault),
      .stands_for = std::string(fault.fault->stands_for)};
}

std::string percent(std::optional<double> rate) {
  if (!rate) return "none";
  // Never 100 % unless it is: 99.96 is written as 99.9.
  return fmt::format("{:.1f} %", std::floor(*rate * 1000) / 10);
}

std::string kill_rates(const MatrixReport& report) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kSharp{{
      {"exact", "row arithmetic, to the last bit"},
      {"noise", "float32, within 30 noise floors"},
      {"noise-f64", "float64, within 30 noise floors"},
  }};
  std::string text;
  for (const auto& [id, how] : kSharp) {
    for (const CheckReport& check : report.checks) {
      if (check.check.id != id) continue;
      const std::int64_t caught = count(check.cells, Outcome::caught);
      text +=
          fmt::format("kill rate of {:<10} {:>8}  ({} of {}; {})\n", id, percent(check.kill_rate()),
                      grouped(caught), grouped(caught + count(check.cells, Outcome::missed)), how);
    }
  }
  return text;
}

}  // namespace

std::string matrix_table(const MatrixReport& report) {
  const std::vector<CheckReport>& checks = report.checks;
  const std::string letters = columns(checks, letter);
  std::string text = line_text({"fault", "as said", letters, "first failing", "largest",
                                "smallest case", "seen on", "stands for"},
                               letters.size());
  std::string_view question;
  for (const FaultReport& fault : report.faults) {
    if (fault.fault->question != question) {
      question = fault.fault->question;
      text += fmt::format("{}\n", question);
    }
    text += line_text(fault_line(fault, checks), letters.size());
  }
  return text + fmt::format("{}\n", kLegend);
}

std::string unexpected_text(const MatrixReport& report) {
  std::string text;
  for (const FaultReport& fault : report.faults) {
    for (const std::string& variant : fault.unexpected) text += fmt::format("  {}\n", variant);
  }
  return text.empty() ? text : "not as expected\n" + text;
}

std::string totals_table(const MatrixReport& report) {
  std::string text = fmt::format("  {:<18} {:>7} {:>7} {:>7} {:>11} {:>8} {:>7}\n", "check",
                                 "caught", "missed", "inert", "equivalent", "n.a.", "rate");
  bool own = true;
  for (std::size_t c = 0; c < report.checks.size(); ++c) {
    const CheckReport& check = report.checks[c];
    if (own && !check.check.own) text += "as other projects test\n";
    own = check.check.own;
    const auto cells = [&](Outcome outcome) { return grouped(count(check.cells, outcome)); };
    text +=
        fmt::format("{} {:<18} {:>7} {:>7} {:>7} {:>11} {:>8} {:>7}  {}", letter(c), check.check.id,
                    cells(Outcome::caught), cells(Outcome::missed), cells(Outcome::inert),
                    cells(Outcome::equivalent), cells(Outcome::not_applicable),
                    percent(check.kill_rate()), check.check.stands_for);
    text.erase(text.find_last_not_of(' ') + 1);
    text += "\n";
  }
  for (const std::string& alarm : report.false_alarms) {
    text += fmt::format("fails without a fault, and so is not counted: {}\n", one_line(alarm, 140));
  }
  return text + kill_rates(report);
}

std::string list_of_faults(std::span<const Fault* const> faults) {
  std::string text = fmt::format("{:<26} {:<12} {:<24} {:<10} {}\n", "fault", "cache", "needs",
                                 "expected", "what is wrong");
  std::string_view question;
  for (const Fault* fault : faults) {
    if (fault->question != question) {
      question = fault->question;
      text += fmt::format("{}\n", question);
    }
    text += fmt::format("  {:<24} {:<12} {:<24} {:<10} {}\n", fault->id, fault->cache,
                        to_text(fault->needs), name(fault->expected), fault->summary);
  }
  return text;
}

std::string explanation(const Fault& fault, const std::string& smallest, int layers) {
  std::string text = fmt::format("{}\n", fault.id);
  const auto add = [&](std::string_view what, std::string_view value) {
    text += fmt::format("  {:<14}{}\n", what, value);
  };
  add("question", fault.question);
  add("wrong", fault.summary);
  add("stands for", fault.stands_for);
  add("needs", fmt::format("a model with: {}; cache: {}", to_text(fault.needs), fault.cache));
  add("expected", name(fault.expected));
  if (!fault.reason.empty()) add("because", fault.reason);
  const std::vector<FaultVariant> all = variants(fault, layers);
  for (std::size_t v = 0; v < all.size(); ++v) add(v == 0 ? "variants" : "", to_text(all[v]));
  add("shown by", fmt::format("kvcheck faults {} --fault {}", smallest, fault.id));
  return text;
}

}  // namespace kvcheck
