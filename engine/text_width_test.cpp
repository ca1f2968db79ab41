// SPDX-License-Identifier: MIT
// Characters are counted, not bytes.
#include "engine/text_width.h"

#include <gtest/gtest.h>

namespace kvcheck {
namespace {

TEST(TextWidth, counts_characters_of_any_number_of_bytes) {
  EXPECT_EQ(text_width(""), 0U);
  EXPECT_EQ(text_width("the"), 3U);
  EXPECT_EQ(text_width("\u2581the"), 4U);
  EXPECT_EQ(text_width("\u00e9\u4e2d\U0001F600"), 3U);
}

TEST(TextWidth, blanks_fill_a_column_on_either_side) {
  EXPECT_EQ(padded_right("\u2581a", 4), "\u2581a  ");
  EXPECT_EQ(padded_left("\u2581a", 4), "  \u2581a");
  EXPECT_EQ(padded_right("the", 2), "the");
  EXPECT_EQ(padded_left("the", 2), "the");
}

}  // namespace
}  // namespace kvcheck
