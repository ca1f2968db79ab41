// SPDX-License-Identifier: MIT
// Faults that only operations show, each by the sequence that shows it first, and by the nearest
// one that does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>

#include "verify/faults.h"
#include "verify/replay.h"
#include "verify/test_canaries.h"
#include "verify/test_faults.h"

namespace kvcheck {
namespace {

struct Shown {
  std::string_view fault;
  std::string_view by;      // the last step is the one that differs
  int position;             // that differs; -1: it is one more row of a copy that does
  std::string_view not_by;  // empty: every other one shows it too
};

void PrintTo(const Shown& shown, std::ostream* out) { *out << shown.fault; }

class FaultsOfOperations : public ::testing::TestWithParam<Shown> {
 protected:
  const ModelData model_ = two_window_model();
  const FaultVariant variant_ = parse_fault(GetParam().fault, "test");

  CaseResult run(std::string_view operations, const EngineFactory& factory) {
    const CacheKind cache = cache_kind(variant_.fault->cache, "test");
    return run_case(operations_case(model_, cache, operations), model_, factory).result;
  }
};

TEST_P(FaultsOfOperations, are_seen_by_the_logits_of_the_row_or_copy_that_they_are_about) {
  const Shown& shown = GetParam();
  const EngineFactory wrong =
      faulty_engine(variant_, std::make_shared<FaultTrace>(), Tells::logits);
  const CaseResult right = run(shown.by, builtin_engine);
  EXPECT_EQ(right.verdict, Verdict::agree) << right.note;
  const CaseResult result = run(shown.by, wrong);
  EXPECT_EQ(result.verdict, Verdict::diverge);
  EXPECT_EQ(result.step, static_cast<int>(std::ranges::count(shown.by, '.')));
  if (shown.position < 0) {
    EXPECT_THAT(result.note, testing::StartsWith("invariant others-untouched violated"));
  } else {
    EXPECT_EQ(result.note, "");
    EXPECT_EQ(result.position, shown.position);
  }
  if (shown.not_by.empty()) return;
  const CaseResult other = run(shown.not_by, wrong);
  EXPECT_EQ(other.verdict, Verdict::agree) << other.note;
}

INSTANTIATE_TEST_SUITE_P(
    All, FaultsOfOperations,
    ::testing::Values(
        Shown{"reset-skipped", "open.feed:0x1.reset:0.feed:0x1", 0, "open.reset:0.feed:0x1"},
        Shown{"truncate-detached", "open.feed:0x2.truncate:0x1.feed:0x1", 1,
              "open.feed:0x2.reset:0.feed:0x1"},
        Shown{"reset-layer-stale:layer1", "open.feed:0x1.reset:0.feed:0x1", 0,
              "open.feed:0x2.truncate:0x1.feed:0x1"},
        // The copy reads what the original has written in its place.
        Shown{"fork-shares-memory", "open.feed:0x1.fork:0.feed:1x1.feed:0x1", -1,
              "open.feed:0x1.fork:0.feed:1x2"},
        Shown{"fork-drops-the-gap", "open.feed:0x2.evict:0x0-1.fork:0", -1,
              "open.feed:0x2.fork:0.feed:0x1"},
        Shown{"load-drops-the-gap", "open.feed:0x2.evict:0x0-1.save:0.load:0.feed:1x1", 2,
              "open.feed:0x2.save:0.load:0.feed:1x1"},
        Shown{"load-position-off:amount1", "open.feed:0x1.save:0.load:0.feed:1x1", 1,
              "open.save:0.load:0.feed:1x1"},
        // The first shift has still to turn the keys that the second one moves again; a feed
        // between them turns them.
        Shown{"shift-delta-overwrite", "open.feed:0x4.shift:0x0-1.shift:0x0-1.feed:0x1", 2,
              "open.feed:0x4.shift:0x0-1.feed:0x1.shift:0x0-1.feed:0x1"},
        Shown{"shift-misses-the-last-row", "open.feed:0x2.shift:0x0-1.feed:0x1", 1,
              "open.feed:0x2.shift:0x1-2.feed:0x1"},
        Shown{"batch-meta-stale", "open.open.feed:0x2.feed:1x1.close:0", -1,
              "open.open.feed:0x2.feed:1x1.close:1.feed:0x1"}),
    [](const auto& param) {
      std::string text(param.param.fault.substr(0, param.param.fault.find(':')));
      std::ranges::replace(text, '-', '_');
      return text;
    });

}  // namespace
}  // namespace kvcheck
