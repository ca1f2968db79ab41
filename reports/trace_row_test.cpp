// SPDX-License-Identifier: MIT
// The columns of a trace, and a file read back.
#include "reports/trace_row.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "engine/test_support.h"
#include "reports/csv_writer.h"

namespace kvcheck {
namespace {

const AuditValue kScore{.sequence = 1,
                        .at = {.row = 3, .key = 2, .head = 0},
                        .uncached = 0.25,
                        .cached = 0.1,
                        .ulps = 7,
                        .floor = 1e-7,
                        .ratio = 1.5e6};
const AuditValue kLogit{.at = {.row = 3, .column = 5},
                        .uncached = -1,
                        .cached = std::numeric_limits<double>::quiet_NaN(),
                        .ulps = std::numeric_limits<std::uint64_t>::max()};

TEST(TraceRow, has_a_column_for_each_index_and_leaves_empty_what_a_site_has_not) {
  EXPECT_EQ(csv_header(kTraceColumns),
            "step,sequence,layer,site,row,key,head,column,uncached,cached,ulps,floor,ratio\n");
  EXPECT_EQ(csv_line(kTraceColumns, trace_row(0, Site::scores, 1, kScore)),
            "1,1,1,scores,3,2,0,,0.25,0.1,7,1e-07,1500000\n");
  EXPECT_EQ(csv_line(kTraceColumns, trace_row(4, Site::logits, -1, kLogit)),
            "5,0,,logits,3,,,5,-1,nan,18446744073709551615,,\n");
}

TEST(TraceWriter, writes_what_is_read_back_and_nothing_without_commit) {
  const TemporaryFolder folder;
  const TraceRow score = trace_row(0, Site::scores, 1, kScore);
  TraceRow logit = trace_row(4, Site::logits, -1, kLogit);
  {
    TraceWriter writer(folder / "trace.csv");
    writer.add(score);
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "trace.csv"));
  TraceWriter writer(folder / "trace.csv");
  writer.add(score);
  writer.add(logit);
  writer.commit();
  std::vector<TraceRow> rows;
  read_trace(folder / "trace.csv", [&](TraceRow row) { rows.push_back(std::move(row)); });
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0], score);
  EXPECT_TRUE(std::isnan(rows[1].cached.value()));
  rows[1].cached = logit.cached = 0;
  EXPECT_EQ(rows[1], logit);
}

}  // namespace
}  // namespace kvcheck
