// SPDX-License-Identifier: MIT
// junit.xml as a whole, and that a parser of XML accepts whatever stands in it.
#include "reports/junit.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include "engine/test_support.h"
#include "reports/test_records.h"
#include "verify/suite.h"

namespace kvcheck {
namespace {

CheckSummary check_of(const std::string& model, Verdict verdict) {
  CheckSummary summary = agreeing_check();
  summary.model = model;
  summary.verdict = verdict;
  summary.counts.undecided = verdict == Verdict::gave_up ? 9 : 0;
  return summary;
}

RunSummary summary_of(std::vector<CheckSummary> checks) {
  RunResult result;
  result.checks = std::move(checks);
  return run_summary(result);
}

CheckSummary broken_check() {
  CheckSummary summary = check_of("chapter8", Verdict::broken);
  summary.check = "causality";
  summary.arithmetic = Arithmetic::matrix;
  return summary;
}

TEST(Junit, has_a_suite_for_each_model_and_a_case_for_each_check) {
  FirstFailures failures;
  failures.add(broken_record(), "kvcheck repro kv1:y");
  failures.add(diverging_record(), "kvcheck repro kv1:x");
  const RunSummary summary =
      summary_of({diverging_check(), check_of("rotary", Verdict::agree), broken_check(),
                  check_of("rotary", Verdict::gave_up), check_of("rotary", Verdict::diverge)});
  const std::string diverging =
      "policy noise:30, worst difference 0.0312, worst ratio 1.25e+04; kvcheck repro kv1:x";
  const std::string broken = "policy exact; feed: no answer within 60 s; kvcheck repro kv1:y";
  EXPECT_EQ(junit_xml(summary, failures), R"xml(<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="kvcheck" tests="5" failures="2" errors="1" skipped="1" time="0.314">
  <testsuite name="chapter8" tests="2" failures="1" errors="1" skipped="0" time="0.266">
    <testcase classname="chapter8" name="all-prefixes (matrix f32)" time="0.250">
      <failure type="diverge" message=")xml" + diverging +
                                              "\">" + diverging + R"xml(</failure>
    </testcase>
    <testcase classname="chapter8" name="causality (matrix f32)" time="0.016">
      <error type="broken" message=")xml" + broken +
                                              "\">" + broken + R"xml(</error>
    </testcase>
  </testsuite>
  <testsuite name="rotary" tests="3" failures="1" errors="0" skipped="1" time="0.048">
    <testcase classname="rotary" name="corpus-prefixes (row f32)" time="0.016"/>
    <testcase classname="rotary" name="corpus-prefixes (row f32)" time="0.016">
      <skipped message="policy exact, undecided 9 of 11 cases"/>
    </testcase>
    <testcase classname="rotary" name="corpus-prefixes (row f32)" time="0.016">
      <failure type="diverge" message="policy exact">policy exact</failure>
    </testcase>
  </testsuite>
</testsuites>
)xml");
}

// Readers take two cases of one name for one.
TEST(Junit, names_are_unlike_where_only_the_kind_of_cache_or_the_policy_differs) {
  CheckSummary flat = operations_check();
  flat.cache_kind = {};
  CheckSummary on_ring = agreeing_check();
  on_ring.cache_kind = {.layout = CacheLayout::ring};
  CheckSummary stored = agreeing_check();
  stored.check = "stored";
  CheckSummary stored_otherwise = stored;
  stored_otherwise.policy = NoiseLimit{};
  const std::string xml = junit_xml(
      summary_of({operations_check(), flat, agreeing_check(), on_ring, stored, stored_otherwise}),
      {});
  for (const char* name : {"operations paged:2 (matrix f32)", "operations flat (matrix f32)",
                           "corpus-prefixes (row f32)", "corpus-prefixes ring (row f32)",
                           "stored (row f32, exact)", "stored (row f32, noise:30)"}) {
    EXPECT_NE(xml.find(std::string("name=\"") + name + "\""), xml.npos) << name << "\n" << xml;
  }
}

TEST(FirstFailures, tells_kinds_of_cache_apart_but_not_of_stored_cases) {
  FirstFailures failures;
  failures.add(operations_record(), "diverges");
  CheckSummary other = operations_check();
  EXPECT_NE(failures.find(summary_check(other)), nullptr);
  other.cache_kind = {};
  EXPECT_EQ(failures.find(summary_check(other)), nullptr);
  CaseRecord stored = operations_record();
  stored.reported_as = "stored";
  failures.add(stored, "diverges");
  other.check = "stored";  // its row of the summary has no kind
  EXPECT_NE(failures.find(summary_check(other)), nullptr);
}

TEST(Junit, a_run_without_checks_is_empty) {
  EXPECT_EQ(junit_xml(RunSummary{}, {}),
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"kvcheck\" tests=\"0\" "
            "failures=\"0\" errors=\"0\" skipped=\"0\" time=\"0.000\">\n</testsuites>\n");
}

TEST(Junit, an_interrupted_run_does_not_look_passed) {
  RunSummary summary = summary_of({agreeing_check()});
  summary.interrupted = true;
  const std::string xml = junit_xml(summary, {});
  EXPECT_NE(xml.find("tests=\"2\" failures=\"0\" errors=\"0\" skipped=\"1\""), xml.npos);
  EXPECT_NE(xml.find("<skipped message=\"interrupted: "), xml.npos);
}

TEST(FirstFailures, keeps_the_first_of_the_worst_cases) {
  CaseRecord record = diverging_record();
  FirstFailures failures;
  const auto found = [&] { return failures.find(summary_check(diverging_check())); };
  record.result.verdict = Verdict::agree;
  failures.add(record, "agrees");
  EXPECT_EQ(found(), nullptr);
  record.result.verdict = Verdict::broken;
  failures.add(record, "breaks");
  ASSERT_NE(found(), nullptr);
  EXPECT_EQ(found()->reproduce, "breaks");
  failures.add(diverging_record(), "diverges");
  failures.add(diverging_record(), "diverges again");
  failures.add(record, "breaks again");
  EXPECT_EQ(found()->reproduce, "diverges");
  EXPECT_EQ(failures.find(summary_check(agreeing_check())), nullptr);
}

TEST(FirstFailures, tells_models_and_ways_of_judging_apart) {
  FirstFailures failures;
  failures.add(diverging_record(), "diverges");
  CheckSummary other = diverging_check();
  other.arithmetic = Arithmetic::row;
  EXPECT_EQ(failures.find(summary_check(other)), nullptr);
  other = diverging_check();
  other.model = "rotary";
  EXPECT_EQ(failures.find(summary_check(other)), nullptr);
  other = diverging_check();
  other.scalar = ScalarKind::f64;
  EXPECT_EQ(failures.find(summary_check(other)), nullptr);
  other = diverging_check();
  other.policy = Exact{};
  EXPECT_EQ(failures.find(summary_check(other)), nullptr);
  EXPECT_NE(failures.find(summary_check(diverging_check())), nullptr);
}

TEST(FirstFailures, stand_under_the_check_that_ran_them) {
  CaseRecord record = diverging_record();
  record.reported_as = "stored";
  FirstFailures failures;
  failures.add(record, "diverges");
  CheckSummary stored = diverging_check();
  stored.check = "stored";
  EXPECT_NE(failures.find(summary_check(stored)), nullptr);
  EXPECT_EQ(failures.find(summary_check(diverging_check())), nullptr);
}

TEST(XmlText, escapes_what_has_a_meaning) {
  EXPECT_EQ(xml_text("<a b=\"c\" d='e'>&amp;"),
            "&lt;a b=&quot;c&quot; d=&apos;e&apos;&gt;&amp;amp;");
  EXPECT_EQ(xml_text("<bos> é 漢"), "&lt;bos&gt; é 漢");
}

TEST(XmlText, shows_what_xml_cannot_hold) {
  EXPECT_EQ(xml_text(std::string_view("a\0b\x1b\n\x7f", 6)), "a\\x00b\\x1b\\n\\x7f");
  EXPECT_EQ(xml_text("\xff\xed\xa0\x80"), "\\xff\\xed\\xa0\\x80");
  EXPECT_EQ(xml_text("a\xEF\xBF\xBE\xEF\xBF\xBF"), "a\xEF\xBF\xBD\xEF\xBF\xBD");
}

std::string output_of(const std::string& command) {
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot run " + command);
  std::string text;
  std::array<char, 256> part{};
  while (std::fgets(part.data(), static_cast<int>(part.size()), pipe) != nullptr) {
    text += part.data();
  }
  return ::pclose(pipe) == 0 ? text : "failed";
}

TEST(Junit, a_parser_accepts_every_byte) {
  ASSERT_EQ(std::system("python3 -c pass 2>/dev/null"), 0) << "there is no python3";
  CheckSummary check = check_of("", Verdict::diverge);
  for (int c = 0; c < 256; ++c) check.model += static_cast<char>(c);
  check.model += "\xEF\xBF\xBE]]>&#0;";
  CaseRecord record = diverging_record();
  record.subject.check = check.check;
  record.subject.model = check.model;
  record.subject.arithmetic = check.arithmetic;
  record.result.note = check.model;
  FirstFailures failures;
  failures.add(record, check.model);
  const TemporaryFolder folder;
  write_bytes(folder / "junit.xml", junit_xml(summary_of({check}), failures));
  EXPECT_EQ(output_of("python3 -c 'import sys, xml.etree.ElementTree as tree\n"
                      "root = tree.parse(sys.argv[1]).getroot()\n"
                      "print(root.tag, len(root), root[0][0][0].tag)' " +
                      (folder / "junit.xml").string()),
            "testsuites 1 failure\n");
}

}  // namespace
}  // namespace kvcheck
