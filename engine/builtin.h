// SPDX-License-Identifier: MIT
// The built-in engine behind the port: the two decoders, and a pool of caches, of one
// kind, for the sequences.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/cache_pool.h"
#include "engine/cached.h"
#include "engine/port.h"
#include "engine/uncached.h"
#include "engine/weights.h"

namespace kvcheck {

template <Scalar T>
class Builtin final : public Engine {
 public:
  Builtin(HeldModel model, Arithmetic arithmetic, const CacheKind& kind = {});
  // In the arithmetic of `beside`, with sequences of its own in the paged memory of `beside`, as
  // two models or adapters that one server runs. Throws Error unless that is paged and the model's
  // rows fit it: layers, K/V width and context. Sequences left open hold their blocks as long as
  // the memory lives. Both are used from one thread.
  Builtin(HeldModel model, Builtin& beside);
  Builtin(const Builtin&) = delete;
  Builtin& operator=(const Builtin&) = delete;

  [[nodiscard]] const Hello& hello() const override { return hello_; }
  // Where rows are stored in fewer bits, those of the full forward are rounded just so: the loss is
  // no fault of the cache.
  void full(const TokenBlock& block, Rows rows, Logits& out) override;
  [[nodiscard]] SequenceId open() override;
  void close(SequenceId sequence) override;
  void feed(SequenceId sequence, std::span<const int> tokens, Rows rows, Logits& out) override;
  void batch(std::span<const Feed> feeds, Rows rows, Logits& out) override;
  void truncate(SequenceId sequence, int length) override;
  [[nodiscard]] SequenceId fork(SequenceId sequence) override;
  void reorder(std::span<const SequenceId> sequences, std::span<const int> from) override;
  [[nodiscard]] State save(SequenceId sequence) override;
  [[nodiscard]] SequenceId load(std::span<const std::byte> state) override;
  void shift(SequenceId sequence, int from, int to) override;
  void evict(SequenceId sequence, int keep, int drop) override;
  [[nodiscard]] int lookup(std::span<const int> tokens) override;
  [[nodiscard]] Held held(SequenceId sequence) const override;
  [[nodiscard]] Places places(SequenceId sequence) const override;
  [[nodiscard]] std::uint64_t fingerprint(SequenceId sequence) const override;

  // Seams for tracing, experiments and faults; empty ones cost nothing. They see the cached decoder
  // only.
  void observe_cached(Observer<T> observer) { observer_ = std::move(observer); }
  // After the observer that is there already.
  void also_observe_cached(Observer<T> observer) {
    observer_ = both(std::move(observer_), std::move(observer));
  }
  void rewrite_plans(PlanRewrite rewrite) { cached_.rewrite_plans(std::move(rewrite)); }
  // What was planted so far: whoever comes later calls it first.
  [[nodiscard]] const Observer<T>& observer() const { return observer_; }
  [[nodiscard]] const PlanRewrite& plan_rewrite() const { return cached_.plan_rewrite(); }
  [[nodiscard]] const StepPlan& plan() const { return cached_.plan(); }
  // Before the first feed, and of all engines that share the memory; Unsupported unless it is
  // paged.
  void reuse_rules(ReuseRules rules);
  [[nodiscard]] KvCache<T>& cache(SequenceId sequence);

 private:
  Builtin(HeldModel model, Arithmetic arithmetic, const CacheKind& kind,
          std::shared_ptr<CachePool<T>> pool);
  [[nodiscard]] const KvCache<T>& cache(SequenceId sequence) const;
  void check_guards(SequenceId sequence) const;
  [[nodiscard]] std::uint64_t identity();
  void drop(std::string_view verb, SequenceId sequence, int first, int count);

  struct Sequence {
    KvCache<T>* cache;
    bool open = true;
    int next_position = 0;        // one past the last planned one
    std::int64_t last_batch = 0;  // the last one that asked for it
  };
  [[nodiscard]] Sequence& sequence_of(SequenceId sequence);

  Hello hello_;
  const std::shared_ptr<const Model<T>> model_;
  const Arithmetic arithmetic_;
  const CacheKind kind_;
  std::int64_t batches_ = 0;    // so far
  const RotaryTables<T> back_;  // negative angles
  Uncached<T> uncached_;
  Observer<T> round_;  // of the full forward's keys and values; empty if nothing is rounded
  Cached<T> cached_;
  Observer<T> observer_;
  std::shared_ptr<CachePool<T>> pool_;
  std::vector<Sequence> sequences_;  // kept, empty, when closed
  std::vector<SequenceId> free_;
  std::vector<CacheFeed<T>> feeds_;
  // Of the model, the scalar and the kind of cache; once anybody asks.
  std::optional<std::uint64_t> identity_;
};

// What it offers with a kind of cache.
[[nodiscard]] Capabilities builtin_capabilities(const Config& config, const CacheKind& kind);

[[nodiscard]] std::unique_ptr<Engine> make_builtin(HeldModel model, ScalarKind scalar,
                                                   Arithmetic arithmetic,
                                                   const CacheKind& kind = {});

}  // namespace kvcheck
