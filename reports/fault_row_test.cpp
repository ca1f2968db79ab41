// SPDX-License-Identifier: MIT
// The columns of faults.csv, what stands in them, and that the file reads back.
#include "reports/fault_row.h"

#include <gtest/gtest.h>

#include "engine/test_support.h"
#include "reports/csv_writer.h"
#include "reports/test_matrix.h"

namespace kvcheck {
namespace {

TEST(FaultRow, has_the_columns_of_the_contract) {
  EXPECT_EQ(csv_header(kFaultColumns),
            "fault,layer,onset,amount,model,check,outcome,first_failing,max_abs_difference,ratio,"
            "reproduce\n");
}

TEST(FaultRow, is_a_cell_of_the_matrix) {
  const ModelData model = matrix_model();
  std::string text;
  for (const FaultRow& row : fault_rows(matrix_row(model))) text += csv_line(kFaultColumns, row);
  EXPECT_EQ(text,
            "rope-key-raw,1,2,,chapter8,exact,inert,,0,,\n"
            "rope-key-raw,1,2,,chapter8,contract,not applicable,,,,\n"
            "rope-key-raw,1,2,,chapter8,noise,caught,prefix 3,0.5,1000,\"kvcheck repro "
            "kv1:check=noise,model=chapter8,sha256=0123abcd,engine=builtin,scalar=f32,"
            "arithmetic=matrix,cache=flat,policy=noise:30,seed=1,computed=alone,tokens=0.2.4,"
            "schedule=1+1+1,fault=rope-key-raw:layer1:onset2\"\n"
            "rope-key-raw,1,2,,chapter8,shapes,missed,,,,\n");
}

TEST(FaultRow, reads_back) {
  const TemporaryFolder folder;
  const ModelData model = matrix_model();
  const std::vector<FaultRow> rows = fault_rows(matrix_row(model));
  std::string text = csv_header(kFaultColumns);
  for (const FaultRow& row : rows) text += csv_line(kFaultColumns, row);
  write_bytes(folder / "faults.csv", text);
  std::vector<FaultRow> read;
  read_faults(folder / "faults.csv", [&](FaultRow row) { read.push_back(std::move(row)); });
  EXPECT_EQ(read, rows);
}

TEST(FirstFailing, is_a_prefix_or_an_operation) {
  CaseRecord record;
  record.subject.tokens = {0, 2, 4};
  EXPECT_EQ(first_failing(record), "prefix 3");
  record.subject = {};
  record.subject.operations = parse_operations("open.feed:0x3", "test");
  record.result.step = 1;
  EXPECT_EQ(first_failing(record), "operation 2");
}

}  // namespace
}  // namespace kvcheck
