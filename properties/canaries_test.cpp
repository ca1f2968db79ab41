// SPDX-License-Identifier: MIT
// The check of operations finds faults that are planted in caches: the first random sequences of a
// run meet each of them, shrinking leads to the smallest sequence that does, and walking through
// all short ones meets it no later.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>

#include "properties/operations_gen.h"
#include "verify/assignments.h"
#include "verify/operation_run.h"
#include "verify/smaller.h"
#include "verify/test_canaries.h"
#include "verify/test_faults.h"

namespace kvcheck {
namespace {

// As many as a run draws when nothing else is asked for.
constexpr std::uint64_t kSequences = 16;
// Most reorderings are seen by the numbers of rows, so few sequences get as far as wrong logits;
// equal blocks behind different tokens come by chance, or by dropping what stood before them; and
// few sequences come back to a prompt after its memory was used up.
constexpr std::uint64_t kManySequences = 64;
constexpr int kDepth = 5;
constexpr std::uint64_t kSeed = 1;

struct Found {
  std::string_view id;
  Tells tells;
  std::string_view smallest;
  int depth;  // of the walk that meets it first; 0: of none that is tried
  std::uint64_t sequences = kSequences;
};

void PrintTo(const Found& found, std::ostream* out) { *out << found.id; }

bool fails(const CaseResult& result) {
  return result.verdict == Verdict::diverge || result.verdict == Verdict::broken;
}

// Of an engine that tells nothing else only wrong logits count, its own or those of a copy: that it
// holds too few rows would be seen without any.
bool counts(Tells tells, const CaseResult& result) {
  const bool by_logits = (result.row && result.note.empty()) ||
                         result.note.starts_with("invariant others-untouched violated");
  return fails(result) && (tells == Tells::all || by_logits);
}

class Canaries : public ::testing::TestWithParam<Found> {
 protected:
  const Found found_ = GetParam();
  const ModelData model_ = two_window_model();
  const Canary canary_ = canary(found_.id, found_.tells);
  Case subject_ = operations_case(model_, canary_.cache, "open");
};

TEST_P(Canaries, are_met_by_random_sequences_and_made_small) {
  OperationRunner runner = runner_of(subject_, model_, canary_.factory);
  std::optional<CaseResult> met;
  for (std::uint64_t index = 0; index < found_.sequences && !met; ++index) {
    subject_.operations = random_operations(runner.space(), kSeed, index);
    const CaseResult result = runner.run(subject_.operations);
    if (counts(found_.tells, result)) met = result;
  }
  ASSERT_TRUE(met);
  const SmallerCase smaller = make_smaller(subject_, *met, model_, canary_.factory);
  EXPECT_EQ(to_text(smaller.subject.operations), found_.smallest);
  EXPECT_TRUE(smaller.complete);
  EXPECT_TRUE(same_class(subject_, *met, smaller.subject, smaller.result));
  for (const Case& subject : {subject_, smaller.subject}) {
    const CaseResult again = run_case(subject, model_, canary_.factory).result;
    EXPECT_EQ(again.verdict, met->verdict);
    const CaseResult right = run_case(subject, model_, builtin_engine).result;
    EXPECT_EQ(right.verdict, Verdict::agree) << to_text(subject.operations) << ": " << right.note;
  }
}

TEST_P(Canaries, are_met_by_the_walk_at_this_depth) {
  OperationRunner runner = runner_of(subject_, model_, canary_.factory);
  OperationSpace space = runner.space();
  space.live_max = 2;
  std::string first;
  int depth = 0;
  while (first.empty() && depth < kDepth) {
    ++depth;
    each_longest(space, depth, 0, count_longest(space, depth), [&](const Operations& operations) {
      if (!first.empty() || !counts(found_.tells, runner.run(operations))) return;
      first = to_text(operations);
    });
  }
  EXPECT_EQ(first.empty() ? 0 : depth, found_.depth) << first;
}

INSTANTIATE_TEST_SUITE_P(
    All, Canaries,
    ::testing::Values(
        Found{"truncate-keeps-a-layer", Tells::all, "open.feed:0x2.truncate:0x1", 3},
        Found{"truncate-keeps-a-layer", Tells::logits, "open.feed:0x2.truncate:0x1.feed:0x1", 4},
        Found{"fork-shares-the-last-block", Tells::all,
              "open.feed:0x1.fork:0.feed:0x4.batch:1x1-0x1", 5},
        Found{"fork-shares-the-last-block", Tells::logits,
              "open.feed:0x1.fork:0.feed:1x1.truncate:0x0", 5},
        Found{"reorder-ignored", Tells::all, "open.open.feed:1x1.reorder:1-0@0-0", 4},
        Found{"reorder-ignored", Tells::logits,
              "open.feed:0x1.open.feed:1x1.reorder:0-1@0-0.feed:1x1", 0, kManySequences},
        Found{"ring-wraps-early", Tells::all, "open.feed:0x4", 3},
        Found{"ring-wraps-early", Tells::logits, "open.feed:0x4", 3},
        Found{"load-one-row-short", Tells::all, "open.feed:0x1.save:0.load:0", 4},
        Found{"load-one-row-short", Tells::logits, "open.feed:0x1.save:0.load:0.fork:1", 5},
        Found{"growth-forgets-a-layer", Tells::all, "open.feed:0x1.feed:0x1", 3},
        Found{"growth-forgets-a-layer", Tells::logits, "open.feed:0x1.fork:0.feed:1x1", 3},
        Found{"chunk-sees-the-oldest", Tells::logits, "open.feed:0x1.feed:0x2", 3},
        Found{"chunk-in-one-position", Tells::all, "open.feed:0x1.feed:0x2", 3},
        Found{"chunk-in-one-position", Tells::logits, "open.feed:0x1.feed:0x2", 3},
        Found{"fork-is-the-original", Tells::all, "open.fork:0.batch:1x3-0x14", 3},
        Found{"shift-rotates-a-layer-less", Tells::logits,
              "open.open.feed:1x2.shift:1x0-1.truncate:0x0", 4},
        Found{"evict-one-row-late", Tells::logits, "open.feed:0x2.fork:0.evict:1x0-1.close:0", 5},
        Found{"blocks-known-by-their-own-tokens", Tells::logits,
              "open.open.feed:1x1.truncate:1x0.open.feed:2x6.feed:1x2.reorder:2-1@1-0.truncate:2x0."
              "prompt:2@2x2+1",
              0, kManySequences},
        Found{"blocks-known-by-few-bits", Tells::logits, "open.feed:0x5.reset:0.prompt:0@0x5+0", 5},
        Found{"blocks-known-before-full", Tells::logits, "open.feed:0x1.open.prompt:1@0x1+2", 4},
        Found{"blocks-in-the-order-of-memory", Tells::logits,
              "open.feed:0x2.reset:0.prompt:0@0x2+1", 4},
        Found{"prompt-goes-on-in-the-next-block", Tells::logits,
              "open.open.feed:0x2.prompt:1@0x2+1.feed:1x1", 5},
        Found{"block-numbers-of-two-bits", Tells::logits, "open.feed:0x2.reset:0.prompt:0@0x2+7",
              5},
        Found{"block-free-while-held", Tells::logits,
              "open.feed:0x3.fork:0.shift:1x0-1.truncate:0x0.feed:0x1", 4},
        Found{"block-found-when-taken", Tells::logits,
              "open.open.feed:1x1.feed:0x1.fork:0.truncate:0x0.prompt:0@0x1+2", 0, kManySequences},
        Found{"prompt-taken-whole", Tells::all, "open.feed:0x2.truncate:0x0.prompt:0@0x2+0", 0}),
    [](const auto& param) {
      std::string text(param.param.id);
      std::ranges::replace(text, '-', '_');
      return text + (param.param.tells == Tells::all ? "" : "_by_logits");
    });

}  // namespace
}  // namespace kvcheck
