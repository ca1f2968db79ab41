// SPDX-License-Identifier: MIT
// Builds the XML text.
#include "reports/junit.h"

#include <fmt/format.h>

#include <iterator>
#include <limits>
#include <vector>

#include "engine/echo.h"
#include "reports/number_text.h"

namespace kvcheck {
namespace {

struct Totals {
  int tests = 0;
  int failures = 0;
  int errors = 0;
  int skipped = 0;
  double seconds = 0;

  void add(const SummaryCheck& check) {
    ++tests;
    failures += check.verdict == Verdict::diverge ? 1 : 0;
    errors += check.verdict == Verdict::broken ? 1 : 0;
    skipped += check.verdict == Verdict::gave_up ? 1 : 0;
    seconds += check.seconds;
  }

  [[nodiscard]] std::string attributes() const {
    return fmt::format(R"(tests="{}" failures="{}" errors="{}" skipped="{}" time="{:.3f}")", tests,
                       failures, errors, skipped, seconds);
  }
};

struct Suite {
  std::string model;
  std::vector<const SummaryCheck*> checks;
};

std::vector<Suite> suites_of(const RunSummary& summary) {
  std::vector<Suite> suites;
  for (const SummaryCheck& check : summary.checks) {
    auto suite = suites.begin();
    while (suite != suites.end() && suite->model != check.model) ++suite;
    if (suite == suites.end()) suite = suites.insert(suite, Suite{check.model, {}});
    suite->checks.push_back(&check);
  }
  return suites;
}

// What is to be read about a check that does not agree.
std::string details(const SummaryCheck& check, const FirstFailure* failure) {
  std::string text = fmt::format("policy {}", check.policy);
  if (check.worst_abs) text += fmt::format(", worst difference {}", three_digits(*check.worst_abs));
  if (check.worst_ratio) text += fmt::format(", worst ratio {}", three_digits(*check.worst_ratio));
  if (check.verdict == Verdict::gave_up) {
    text += fmt::format(", undecided {} of {} cases", grouped(check.gave_up), grouped(check.cases));
  }
  if (failure == nullptr) return text;
  if (!failure->note.empty()) text += "; " + failure->note;
  if (!failure->reproduce.empty()) text += "; " + failure->reproduce;
  return text;
}

std::string_view element_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::agree:
      return "";
    case Verdict::gave_up:
      return "skipped";
    case Verdict::broken:
      return "error";
    case Verdict::diverge:
      return "failure";
  }
  return "error";
}

// Unlike that of every other check of the model: one is run on each kind of cache, another under
// each policy that a stored failure was judged by.
std::string test_name(const SummaryCheck& check) {
  const bool on_kinds = check.id == kOperationsCheck || check.cache_kind != "flat";
  const bool by_policy = check.id == "stored";
  return fmt::format("{}{} ({} {}{})", check.id, on_kinds ? " " + check.cache_kind : "",
                     name(check.arithmetic), name(check.scalar),
                     by_policy ? ", " + check.policy : "");
}

std::string test_case(const SummaryCheck& check, const FirstFailure* failure) {
  const std::string head =
      fmt::format("    <testcase classname=\"{}\" name=\"{}\" time=\"{:.3f}\"",
                  xml_text(check.model), xml_text(test_name(check)), check.seconds);
  const std::string_view element = element_of(check.verdict);
  if (element.empty()) return head + "/>\n";
  const std::string text = xml_text(details(check, failure));
  // Some readers show the attribute, others the element's text.
  const std::string outcome = element == "skipped"
                                  ? fmt::format(R"(<skipped message="{}"/>)", text)
                                  : fmt::format(R"(<{0} type="{1}" message="{2}">{2}</{0}>)",
                                                element, name(check.verdict), text);
  return fmt::format("{}>\n      {}\n    </testcase>\n", head, outcome);
}

// An interrupted run whose checks agree so far must not look like a passed one.
constexpr std::string_view kInterruptedSuite =
    R"(  <testsuite name="kvcheck" tests="1" failures="0" errors="0" skipped="1" time="0.000">
    <testcase classname="kvcheck" name="run to the end" time="0.000">
      <skipped message="interrupted: not every case was run"/>
    </testcase>
  </testsuite>
)";

std::string test_suite(const Suite& suite, const FirstFailures& failures) {
  Totals totals;
  std::string cases;
  for (const SummaryCheck* check : suite.checks) {
    totals.add(*check);
    cases += test_case(*check, failures.find(*check));
  }
  return fmt::format("  <testsuite name=\"{}\" {}>\n{}  </testsuite>\n", xml_text(suite.model),
                     totals.attributes(), cases);
}

// Stored failures that were judged alike stand together, whatever their kinds of cache.
std::string kind_of(const CaseRecord& record) {
  return name(record.reported_as.empty() ? record.subject.cache_kind : CacheKind{});
}

std::string_view entity_of(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&apos;";
    default:
      return "";
  }
}

}  // namespace

void FirstFailures::add(const CaseRecord& record, std::string_view reproduce) {
  const Verdict verdict = record.result.verdict;
  if (verdict != Verdict::diverge && verdict != Verdict::broken) return;
  const Case& subject = record.subject;
  FirstFailure& first = first_[Key(subject.model, record.check(), subject.arithmetic,
                                   subject.scalar, to_text(subject.policy), kind_of(record))];
  if (first.verdict >= verdict) return;
  first = FirstFailure{verdict, record.result.note, std::string(reproduce)};
}

const FirstFailure* FirstFailures::find(const SummaryCheck& check) const {
  const auto found = first_.find(
      Key(check.model, check.id, check.arithmetic, check.scalar, check.policy, check.cache_kind));
  return found == first_.end() ? nullptr : &found->second;
}

std::string junit_xml(const RunSummary& summary, const FirstFailures& failures) {
  Totals totals;
  for (const SummaryCheck& check : summary.checks) totals.add(check);
  std::string suites;
  for (const Suite& suite : suites_of(summary)) suites += test_suite(suite, failures);
  if (summary.interrupted) {
    ++totals.tests;
    ++totals.skipped;
    suites += kInterruptedSuite;
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"kvcheck\" {}>\n{}"
      "</testsuites>\n",
      totals.attributes(), suites);
}

std::string xml_text(std::string_view text) {
  std::string escaped;
  std::string line = one_line(text, std::numeric_limits<std::size_t>::max());
  // UTF-8, and yet no characters of XML: U+FFFE and U+FFFF.
  for (const std::string_view bytes : {"\xEF\xBF\xBE", "\xEF\xBF\xBF"}) {
    for (std::size_t at = line.find(bytes); at != line.npos; at = line.find(bytes)) {
      line.replace(at, bytes.size(), "\xEF\xBF\xBD");
    }
  }
  for (const char c : line) {
    const std::string_view entity = entity_of(c);
    escaped += entity.empty() ? std::string_view(&c, 1) : entity;
  }
  return escaped;
}

}  // namespace kvcheck
