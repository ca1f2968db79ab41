// SPDX-License-Identifier: MIT
// The built-in engine behind the port: the two decoders, and a pool of caches for the sequences.
#pragma once

#include <memory>
#include <vector>

#include "engine/cached.h"
#include "engine/kv_cache.h"
#include "engine/port.h"
#include "engine/uncached.h"

namespace kvcheck {

template <Scalar T>
class Builtin final : public Engine {
 public:
  Builtin(const Model<float>& model, Arithmetic arithmetic);
  // The decoders refer to the model inside.
  Builtin(const Builtin&) = delete;
  Builtin& operator=(const Builtin&) = delete;

  [[nodiscard]] const Hello& hello() const override { return hello_; }
  void full(const TokenBlock& block, Rows rows, Logits& out) override;
  [[nodiscard]] SequenceId open() override;
  void close(SequenceId sequence) override;
  void feed(SequenceId sequence, std::span<const int> tokens, Rows rows, Logits& out) override;
  void batch(std::span<const Feed> feeds, Rows rows, Logits& out) override;
  void truncate(SequenceId sequence, int length) override;
  [[nodiscard]] SequenceId fork(SequenceId sequence) override;
  [[nodiscard]] Held held(SequenceId sequence) const override;

  // Seams for tracing, experiments and faults; empty ones cost nothing. They see the cached decoder
  // only.
  void observe_cached(Observer<T> observer) { observer_ = std::move(observer); }
  void rewrite_plans(PlanRewrite rewrite) { cached_.rewrite_plans(std::move(rewrite)); }
  [[nodiscard]] const StepPlan& plan() const { return cached_.plan(); }
  [[nodiscard]] KvCache<T>& cache(SequenceId sequence);

 private:
  [[nodiscard]] const KvCache<T>& cache(SequenceId sequence) const;
  void check_guards(SequenceId sequence) const;

  Hello hello_;
  const Model<T> model_;
  Uncached<T> uncached_;
  Cached<T> cached_;
  Observer<T> observer_;
  std::vector<std::unique_ptr<KvCache<T>>> caches_;  // [sequence]; kept, poisoned, when closed
  std::vector<bool> open_;                           // [sequence]
  std::vector<int> next_position_;                   // [sequence]: one past the last planned one
  std::vector<SequenceId> free_;
  std::vector<CacheFeed<T>> feeds_;
};

[[nodiscard]] std::unique_ptr<Engine> make_builtin(const Model<float>& model, ScalarKind scalar,
                                                   Arithmetic arithmetic);

}  // namespace kvcheck
