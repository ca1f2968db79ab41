// SPDX-License-Identifier: MIT
// Public reports of broken caches, planted and fed as they say: where each first shows.
#include <gtest/gtest.h>

#include <array>
#include <cctype>
#include <memory>
#include <ostream>
#include <string>

#include "verify/faults.h"
#include "verify/models.h"
#include "verify/replay.h"
#include "verify/test_faults.h"

namespace kvcheck {
namespace {

struct Report {
  std::string_view name;
  std::string_view model;
  std::string_view fault;
  std::string_view agrees;    // the longest schedule that still agrees
  std::string_view diverges;  // goes on by what shows the fault
  int position;               // of the first row that differs
};

void PrintTo(const Report& report, std::ostream* out) { *out << report.name; }

constexpr std::array kReports{
    // Prefill 3, decode 1: the basic fault.
    Report{"mlx-vlm 1983", "tiny:rotary:1", "pos-decode-reset:onset1", "3", "3+1", 3},
    // Prefill 3, decode 1: keys are rotated when they are read, and were already.
    Report{"shainet 110", "tiny:rotary:1", "rope-on-read-again", "3", "3+1", 3},
};

class KnownReport : public ::testing::TestWithParam<Report> {
 protected:
  // In row arithmetic to the last bit.
  static CaseResult run(std::string_view schedule) {
    const ModelData model = load_model(GetParam().model);
    Case subject{.check = "schedules",
                 .model = model.name,
                 .model_hash = short_hash(model),
                 .arithmetic = Arithmetic::row,
                 .policy = Exact{},
                 .schedule = parse_schedule(schedule, "test")};
    int length = 0;
    for (const int feed : subject.schedule) length += feed;
    subject.tokens = random_sequence(model.weights.config, 1, 0);
    subject.tokens.resize(static_cast<std::size_t>(length));
    const auto trace = std::make_shared<FaultTrace>();
    return run_case(subject, model, faulty_engine(parse_fault(GetParam().fault, "test"), trace))
        .result;
  }
};

TEST_P(KnownReport, shows_first_where_the_report_says) {
  const CaseResult before = run(GetParam().agrees);
  EXPECT_EQ(before.verdict, Verdict::agree) << describe(before);
  EXPECT_GT(before.rows_compared, 0);
  const CaseResult after = run(GetParam().diverges);
  EXPECT_EQ(after.verdict, Verdict::diverge) << describe(after);
  EXPECT_EQ(after.position, GetParam().position);
}

std::string test_name(const ::testing::TestParamInfo<Report>& info) {
  std::string text(info.param.name);
  for (char& c : text) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return text;
}

INSTANTIATE_TEST_SUITE_P(Public, KnownReport, ::testing::ValuesIn(kReports), test_name);

}  // namespace
}  // namespace kvcheck
