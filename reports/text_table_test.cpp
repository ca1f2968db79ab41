// SPDX-License-Identifier: MIT
// Columns and their widths.
#include "reports/text_table.h"

#include <gtest/gtest.h>

namespace kvcheck {
namespace {

TEST(TextTable, columns_are_as_wide_as_their_cells) {
  TextTable table;
  table.add({"what", "n", "bytes"});
  table.add({"a", "1,000", ""});
  table.add({"a longer line that stands alone"});
  table.add({"rows", "", "16"});
  EXPECT_EQ(table.text(),
            "  what      n  bytes\n"
            "  a     1,000\n"
            "  a longer line that stands alone\n"
            "  rows            16\n");
}

TEST(TextTable, several_columns_may_stand_to_the_left) {
  TextTable table(2, "");
  table.add({"a", "bb", "c"});
  table.add({"aa", "b", "10"});
  EXPECT_EQ(table.text(), "a   bb   c\naa  b   10\n");
}

}  // namespace
}  // namespace kvcheck
