// SPDX-License-Identifier: MIT
// As many threads as can be had, and no fewer.
#include "verify/threads.h"

#include <gtest/gtest.h>

namespace kvcheck {
namespace {

TEST(Threads, are_as_many_as_wanted_where_nothing_limits_them) {
  for (const int wanted : {1, 2, 5}) EXPECT_EQ(startable_threads(wanted), wanted);
}

}  // namespace
}  // namespace kvcheck
