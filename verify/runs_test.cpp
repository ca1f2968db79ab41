// SPDX-License-Identifier: MIT
// Lists of numbers as a reader wants them.
#include "verify/runs.h"

#include <gtest/gtest.h>

namespace kvcheck {
namespace {

TEST(RunsText, joins_what_follows_one_another) {
  EXPECT_EQ(runs_text({}), "");
  EXPECT_EQ(runs_text({4}), "4");
  EXPECT_EQ(runs_text({0, 1, 2, 5, 4, 5}), "0-2,5,4-5");
  EXPECT_EQ(runs_text({9, 7, 5, 3, 1, 9, 7, 5, 3, 1}), "9,7,5,3,1,9,7,5,...");
}

}  // namespace
}  // namespace kvcheck
