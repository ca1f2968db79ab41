// SPDX-License-Identifier: MIT
// junit.xml, which continuous integration shows: a test suite for each model, a test case for each
// check in one arithmetic.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tuple>

#include "reports/summary_json.h"
#include "verify/case.h"

namespace kvcheck {

// The first of a check's worst cases: what a reader would run again.
struct FirstFailure {
  Verdict verdict = Verdict::gave_up;
  std::string note;
  std::string reproduce;
};

class FirstFailures {
 public:
  // Looks only at cases that diverge or are broken; the first one stays, unless a worse one comes.
  void add(const CaseRecord& record, std::string_view reproduce);
  // Null where no case of the check failed.
  [[nodiscard]] const FirstFailure* find(const SummaryCheck& check) const;

 private:
  // Model, check, arithmetic, scalar (that the case was to be run in, whatever it was decided in),
  // policy and kind of cache.
  using Key =
      std::tuple<std::string, std::string, Arithmetic, ScalarKind, std::string, std::string>;
  std::map<Key, FirstFailure> first_;
};

// diverge is a failure, broken an error, gave-up skipped.
[[nodiscard]] std::string junit_xml(const RunSummary& summary, const FirstFailures& failures);

// Text for an attribute or an element: what XML 1.0 cannot hold, such as control characters and
// broken UTF-8, is shown as \x1b.
[[nodiscard]] std::string xml_text(std::string_view text);

}  // namespace kvcheck
