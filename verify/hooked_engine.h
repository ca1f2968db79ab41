// SPDX-License-Identifier: MIT
// An engine of which some verbs do something else: what is wrong with it is said in one place, and
// the engine inside knows nothing of it.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "verify/probes.h"

namespace kvcheck {

// Called instead of a verb of the engine inside, but for the first; an empty one leaves the verb as
// it is.
struct Hooks {
  std::function<void()> before_step = {};  // before full, feed and batch, whatever they do
  std::function<SequenceId(Engine&)> open = {};
  std::function<void(Engine&, SequenceId)> close = {};
  std::function<void(Engine&, const TokenBlock&, Rows, Logits&)> full = {};
  std::function<void(Engine&, std::span<const Feed>, Rows, Logits&)> feed = {};  // and batch
  std::function<void(Engine&, SequenceId, int)> truncate = {};
  std::function<SequenceId(Engine&, SequenceId)> fork = {};
  std::function<void(Engine&, std::span<const SequenceId>, std::span<const int>)> reorder = {};
  std::function<State(Engine&, SequenceId)> save = {};
  std::function<SequenceId(Engine&, std::span<const std::byte>)> load = {};
  std::function<void(Engine&, SequenceId, int, int)> shift = {};
  std::function<void(Engine&, SequenceId, int, int)> evict = {};
  std::function<int(Engine&, std::span<const int>)> lookup = {};
  std::function<Held(const Engine&, SequenceId)> held = {};
  std::function<Places(const Engine&, SequenceId)> places = {};
  std::function<void(Capabilities&)> can = {};  // what it says of itself
};

class HookedEngine final : public Engine {
 public:
  HookedEngine(std::unique_ptr<Engine> inner, Hooks hooks)
      : inner_(std::move(inner)), hooks_(std::move(hooks)), hello_(inner_->hello()) {
    if (hooks_.can) hooks_.can(hello_.can);
  }

  // Without the hooks.
  [[nodiscard]] Engine& inner() { return *inner_; }

  [[nodiscard]] const Hello& hello() const override { return hello_; }
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
  [[nodiscard]] int lookup(std::span<const int> tokens) override {
    return hooks_.lookup ? hooks_.lookup(*inner_, tokens) : inner_->lookup(tokens);
  }
  [[nodiscard]] Held held(SequenceId sequence) const override;
  [[nodiscard]] Places places(SequenceId sequence) const override {
    return hooks_.places ? hooks_.places(*inner_, sequence) : inner_->places(sequence);
  }
  [[nodiscard]] std::uint64_t fingerprint(SequenceId sequence) const override {
    return inner_->fingerprint(sequence);
  }

 private:
  void before_step() const {
    if (hooks_.before_step) hooks_.before_step();
  }

  std::unique_ptr<Engine> inner_;
  Hooks hooks_;
  Hello hello_;
};

// An engine with these hooks around it.
[[nodiscard]] EngineFactory hooked(Hooks hooks, EngineFactory inside = builtin_engine);

}  // namespace kvcheck
