// SPDX-License-Identifier: MIT
// Each replica passes on the right engine, fails on some wrong one, and is blind where its original
// is.
#include "verify/replicas.h"

#include <gtest/gtest.h>

#include <array>

#include "verify/faults.h"
#include "verify/kill_matrix.h"
#include "verify/models.h"

namespace kvcheck {
namespace {

const Replica& replica(std::string_view id) {
  for (const Replica& found : replicas()) {
    if (found.id == id) return found;
  }
  throw std::out_of_range(std::string(id));
}

struct Planted {
  std::shared_ptr<FaultTrace> trace = std::make_shared<FaultTrace>();
  ReplicaBench bench;

  Planted(const ModelData& model, const FaultVariant& variant, std::string_view cache = "flat")
      : bench(make_replica_bench(model, cache_kind(cache, "test"), 1, variant, trace)) {}
};

TEST(Replicas, pass_on_the_right_engine) {
  for (const std::string name : {"tiny:learned:1", "tiny:rotary:1", "tiny:rotary+window:1",
                                 "gen:plain:1", "gen:single-context:1", "gen:one-token:1"}) {
    const ModelData model = load_model(name);
    for (const CacheKind& cache : cache_kinds()) {
      Planted right(model, {&no_fault(), {}}, kvcheck::name(cache));
      for (const Replica& test : replicas()) {
        const ReplicaResult result = run_replica(test, right.bench);
        EXPECT_TRUE(result.passed) << test.id << " " << name << " " << kvcheck::name(cache);
        EXPECT_EQ(result.note, "");
      }
      EXPECT_EQ(right.trace->changes(), 0);
    }
  }
}

// Nothing but the embedding's output of cached tokens.
constexpr Fault kEmbedding{
    "embedding",
    "embedding",
    "entries count double",
    "test",
    {},
    "flat",
    {},
    at_sites(SiteSet().with(Site::embedding), [](const auto& tensor, const FaultStep& step) {
      for (int r = 0; r < tensor.rows; ++r) {
        for (int c = 0; c < tensor.columns && step.warm(r); ++c) {
          tensor.at(r, c) *= 2;
        }
      }
    })};

TEST(Replicas, fail_on_some_wrong_engine) {
  struct Failing {
    std::string_view replica, fault;
  };
  constexpr std::array kFailing{Failing{"argmax", "pos-decode-reset:onset1"},
                                Failing{"greedy-tokens", "pos-decode-reset:onset2"},
                                Failing{"last-position", "pos-decode-reset:onset1"},
                                Failing{"one-split", "pos-multi-constant"},
                                Failing{"nmse-1e-5", "pos-count-prompt-twice"},
                                Failing{"allclose-0.4", "pos-decode-reset:onset1"},
                                Failing{"abs-1e-3", "pos-decode-reset:onset1"},
                                Failing{"every-prefix", "pos-decode-offset:onset1:amount1"}};
  EXPECT_EQ(kFailing.size() + 2, replicas().size()) << "the others have tests of their own";
  const ModelData model = load_model("tiny:positions:1");
  for (const Failing& failing : kFailing) {
    Planted wrong(model, parse_fault(failing.fault, "test"));
    EXPECT_FALSE(run_replica(replica(failing.replica), wrong.bench).passed) << failing.replica;
  }
  Planted embedding(model, {&kEmbedding, {}});
  EXPECT_FALSE(run_replica(replica("embedding"), embedding.bench).passed);
}

TEST(Replicas, shapes_sees_a_wrong_number_of_rows) {
  const ModelData model = load_model("tiny:positions:1");
  Planted wrong(model, {&no_fault(), {}});
  Hooks hooks;
  hooks.held = [](const Engine& inner, SequenceId sequence) {
    Held held = inner.held(sequence);
    ++held.rows;
    return held;
  };
  wrong.bench.engine =
      std::make_unique<HookedEngine>(std::move(wrong.bench.engine), std::move(hooks));
  EXPECT_FALSE(run_replica(replica("shapes"), wrong.bench).passed);
}

// What such tests are worth: all positions may be wrong.
TEST(Replicas, shapes_and_embedding_are_blind_to_positions) {
  const ModelData model = load_model("tiny:rotary:1");
  for (const char* fault : {"pos-decode-reset:onset1", "pos-frozen:onset1", "rope-key-raw:onset1",
                            "rope-on-read-again"}) {
    for (const char* blind : {"shapes", "embedding"}) {
      Planted wrong(model, parse_fault(fault, "test"));
      EXPECT_TRUE(run_replica(replica(blind), wrong.bench).passed) << blind << " " << fault;
      EXPECT_GT(wrong.trace->changes(), 0) << blind << " " << fault;
    }
  }
}

TEST(Replicas, that_end_with_an_exception_have_failed) {
  const ModelData model = load_model("tiny:positions:1");
  Planted wrong(model, {&no_fault(), {}});
  Hooks hooks;
  hooks.feed = [](Engine&, std::span<const Feed>, Rows, Logits&) { throw EngineError("no more"); };
  wrong.bench.engine =
      std::make_unique<HookedEngine>(std::move(wrong.bench.engine), std::move(hooks));
  const ReplicaResult result = run_replica(replica("argmax"), wrong.bench);
  EXPECT_FALSE(result.passed);
  EXPECT_EQ(result.note, "no more");
}

}  // namespace
}  // namespace kvcheck
