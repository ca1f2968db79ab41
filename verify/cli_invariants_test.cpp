// SPDX-License-Identifier: MIT
// What `kvcheck verify` says of the invariants, and that each is checked by default.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/summary_json.h"
#include "verify/cli.h"
#include "verify/test_command.h"

namespace kvcheck {
namespace {

using testing::HasSubstr;

// The default set holds this model: what is checked on it is checked in a default run.
TEST(CliInvariants, are_each_checked_by_default) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult run = kvcheck.run("verify chapter8-rotary --out run");
  EXPECT_EQ(run.exit_code, kExitAgree);
  EXPECT_THAT(run.out, HasSubstr("\ninvariants: 28 hold, checked so often: rows-answered "));
  const RunSummary summary = read_summary(kvcheck / "run/summary.json");
  ASSERT_EQ(summary.invariants.size(), invariants().size());
  for (const SummaryInvariant& invariant : summary.invariants) {
    EXPECT_GT(invariant.checked, 0) << invariant.id << " was never checked";
    EXPECT_EQ(invariant.failed, 0) << invariant.id;
  }
}

TEST(CliInvariants, are_listed_without_a_run) {
  const TestCommand kvcheck(KVCHECK_BINARY);
  const CommandResult list = kvcheck.run("verify --invariants");
  EXPECT_EQ(list.exit_code, kExitAgree);
  EXPECT_THAT(list.out, HasSubstr("layers-hold-alike        every layer holds a key and a value"));
  EXPECT_THAT(files_in(kvcheck / "kvcheck-runs"), testing::IsEmpty());
}

}  // namespace
}  // namespace kvcheck
