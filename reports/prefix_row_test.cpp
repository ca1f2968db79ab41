// SPDX-License-Identifier: MIT
// The columns of prefixes.csv and what stands in them.
#include "reports/prefix_row.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "engine/test_support.h"
#include "reports/csv_writer.h"
#include "reports/test_records.h"

namespace kvcheck {
namespace {

TEST(PrefixRow, has_the_columns_of_the_contract) {
  EXPECT_EQ(csv_header(kPrefixColumns),
            "case,model,engine,scalar,arithmetic,check,prefix_length,tokens,schedule,position,"
            "max_abs_difference,token_at_max,uncached,cached,ulps,noise_floor,ratio,kappa,"
            "argmax_uncached,argmax_cached,verdict,mark,reproduce\n");
}

TEST(PrefixRow, tells_everything_about_a_comparison) {
  EXPECT_EQ(csv_line(kPrefixColumns, prefix_row(diverging_record(), "kvcheck repro kv1:x")),
            "7,chapter8,builtin,f32,matrix,all-prefixes,3,0 2 4,2+1,2,0.03125,5,1.5,1.53125,"
            "262144,2.5e-06,12500,3.5,5,6,diverge,,kvcheck repro kv1:x\n");
}

TEST(PrefixRow, leaves_empty_what_does_not_apply) {
  EXPECT_EQ(csv_line(kPrefixColumns, prefix_row(broken_record(), "kvcheck repro kv1:y")),
            "8,chapter8,\"exec:./engine, fast\",f32,matrix,causality,1,0,,,,,,,,,,,,,broken,"
            "crash,kvcheck repro kv1:y\n");
}

TEST(PrefixRow, has_no_control_characters_of_a_models_name) {
  CaseRecord record = diverging_record();
  record.subject.model = "m\x1b[31m\xff" + std::string(100, 'x');
  EXPECT_EQ(prefix_row(record, "").model, "m\\x1b[31m\\xff" + std::string(100, 'x'));
}

TEST(PrefixRow, stands_under_the_check_that_ran_the_case) {
  CaseRecord record = diverging_record();
  record.reported_as = "stored";
  EXPECT_EQ(prefix_row(record, "").check, "stored");
}

TEST(PrefixRow, is_read_back_as_it_was) {
  CaseRecord infinite = diverging_record();
  infinite.subject.scalar = ScalarKind::f64;
  infinite.result.row->max_abs_difference = std::numeric_limits<double>::infinity();
  infinite.result.row->ulps = std::numeric_limits<std::uint64_t>::max();
  const std::vector<PrefixRow> rows{prefix_row(diverging_record(), "kvcheck repro kv1:x"),
                                    prefix_row(broken_record(), "a \"b\""),
                                    prefix_row(infinite, "")};
  std::string text = csv_header(kPrefixColumns);
  for (const PrefixRow& row : rows) text += csv_line(kPrefixColumns, row);
  const TemporaryFolder folder;
  write_bytes(folder / "prefixes.csv", text);
  std::vector<PrefixRow> back;
  read_prefixes(folder / "prefixes.csv", [&](PrefixRow row) { back.push_back(std::move(row)); });
  EXPECT_EQ(back, rows);
}

}  // namespace
}  // namespace kvcheck
