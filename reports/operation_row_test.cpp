// SPDX-License-Identifier: MIT
// The columns of operations.csv and what stands in them.
#include "reports/operation_row.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <limits>
#include <vector>

#include "engine/test_support.h"
#include "reports/csv_writer.h"
#include "reports/test_records.h"

namespace kvcheck {
namespace {

TEST(OperationRow, has_the_columns_of_the_contract) {
  EXPECT_EQ(csv_header(kOperationColumns),
            "case,model,engine,cache_kind,scalar,arithmetic,check,index,operations,step,position,"
            "max_abs_difference,ratio,verdict,mark,reproduce\n");
}

TEST(OperationRow, tells_everything_about_a_comparison) {
  EXPECT_EQ(csv_line(kOperationColumns, operation_row(operations_record(), "kvcheck repro kv1:x")),
            "3,gen:plain:1,builtin,paged:2,f32,matrix,operations,18446744073709551615,"
            "open.feed:0x3,2,2,0.03125,12500,diverge,,kvcheck repro kv1:x\n");
}

TEST(OperationRow, leaves_empty_what_does_not_apply) {
  CaseRecord record = operations_record();
  record.number.reset();
  record.result = {.verdict = Verdict::broken, .mark = Mark::crash};
  EXPECT_EQ(csv_line(kOperationColumns, operation_row(record, "")),
            "3,gen:plain:1,builtin,paged:2,f32,matrix,operations,,open.feed:0x3,,,,,broken,crash,"
            "\n");
}

TEST(OperationRow, stands_under_the_check_that_ran_the_case) {
  CaseRecord record = operations_record();
  record.reported_as = "stored";
  EXPECT_EQ(operation_row(record, "").check, "stored");
}

// ---- Every row there can be

std::optional<double> any_number() {
  return *rc::gen::map(rc::gen::resize(100, rc::gen::arbitrary<std::uint64_t>()),
                       [](std::uint64_t bits) -> std::optional<double> {
                         // What calculation does not give, and empty cells, often enough.
                         constexpr double kInfinity = std::numeric_limits<double>::infinity();
                         constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
                         if (bits % 8 == 0) return std::nullopt;
                         if (bits % 8 == 1) return kInfinity;
                         if (bits % 8 == 2) return kNan;
                         if (bits % 8 == 3) return -0.0;
                         const double value = std::bit_cast<double>(bits);
                         return value == value ? value : kNan;  // one NaN is as good as another
                       });
}

template <typename Number>
std::optional<Number> any_count() {
  if (*rc::gen::arbitrary<bool>()) return std::nullopt;
  return static_cast<Number>(*rc::gen::resize(100, rc::gen::arbitrary<std::uint64_t>()) >>
                             (std::is_signed_v<Number> ? 1 : 0));
}

OperationRow any_row() {
  OperationRow row;
  row.number = any_count<std::int64_t>().value_or(0);
  row.model = *rc::gen::element<std::string>("chapter8", "a, \"b\"", "gr\xc3\xbc\xc3\x9f");
  row.engine = *rc::gen::element<std::string>("builtin", "exec:./engine, fast");
  row.cache_kind = *rc::gen::element<std::string>("flat", "paged:2", "int8");
  row.scalar = *rc::gen::element(ScalarKind::f32, ScalarKind::f64);
  row.arithmetic = *rc::gen::element(Arithmetic::row, Arithmetic::matrix);
  row.check = *rc::gen::element<std::string>("operations", "stored");
  row.index = any_count<std::uint64_t>();
  row.operations = *rc::gen::element<std::string>("open", "open.feed:0x3.reorder:0-0@0-0");
  row.step = any_count<std::int64_t>();
  row.position = any_count<std::int64_t>();
  row.max_abs_difference = any_number();
  row.ratio = any_number();
  row.verdict =
      *rc::gen::element(Verdict::agree, Verdict::gave_up, Verdict::broken, Verdict::diverge);
  row.mark = *rc::gen::element(Mark::none, Mark::flaky, Mark::crash, Mark::refused, Mark::widened,
                               Mark::gated);
  row.reproduce = *rc::gen::element<std::string>("", "kvcheck repro kv1:x,y");
  return row;
}

std::optional<std::uint64_t> bits_of(const std::optional<double>& number) {
  if (!number) return std::nullopt;
  return std::bit_cast<std::uint64_t>(*number);
}

// NaN is unlike itself: its bits are compared instead.
OperationRow without_numbers(OperationRow row) {
  row.max_abs_difference.reset();
  row.ratio.reset();
  return row;
}

RC_GTEST_PROP(OperationRow, is_read_back_to_the_last_bit, ()) {
  const auto count = *rc::gen::inRange(1, 5);
  std::vector<OperationRow> rows;
  std::string text = csv_header(kOperationColumns);
  for (int i = 0; i < count; ++i) {
    rows.push_back(any_row());
    text += csv_line(kOperationColumns, rows.back());
  }
  const TemporaryFolder folder;
  write_bytes(folder / "operations.csv", text);
  std::vector<OperationRow> back;
  read_operations(folder / "operations.csv",
                  [&](OperationRow row) { back.push_back(std::move(row)); });
  RC_ASSERT(back.size() == rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    RC_ASSERT(without_numbers(back[i]) == without_numbers(rows[i]));
    RC_ASSERT(bits_of(back[i].max_abs_difference) == bits_of(rows[i].max_abs_difference));
    RC_ASSERT(bits_of(back[i].ratio) == bits_of(rows[i].ratio));
  }
}

}  // namespace
}  // namespace kvcheck
