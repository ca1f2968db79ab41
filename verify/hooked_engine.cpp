// SPDX-License-Identifier: MIT
// Every verb: the hook, where there is one, else the engine inside.
#include "verify/hooked_engine.h"

namespace kvcheck {

SequenceId HookedEngine::open() { return hooks_.open ? hooks_.open(*inner_) : inner_->open(); }

void HookedEngine::close(SequenceId sequence) {
  if (!hooks_.close) return inner_->close(sequence);
  hooks_.close(*inner_, sequence);
}

void HookedEngine::full(const TokenBlock& block, Rows rows, Logits& out) {
  before_step();
  if (!hooks_.full) return inner_->full(block, rows, out);
  hooks_.full(*inner_, block, rows, out);
}

void HookedEngine::feed(SequenceId sequence, std::span<const int> tokens, Rows rows, Logits& out) {
  before_step();
  if (!hooks_.feed) return inner_->feed(sequence, tokens, rows, out);
  const Feed one{sequence, tokens};
  hooks_.feed(*inner_, std::span(&one, 1), rows, out);
}

void HookedEngine::batch(std::span<const Feed> feeds, Rows rows, Logits& out) {
  before_step();
  if (!hooks_.feed) return inner_->batch(feeds, rows, out);
  hooks_.feed(*inner_, feeds, rows, out);
}

void HookedEngine::truncate(SequenceId sequence, int length) {
  if (!hooks_.truncate) return inner_->truncate(sequence, length);
  hooks_.truncate(*inner_, sequence, length);
}

SequenceId HookedEngine::fork(SequenceId sequence) {
  return hooks_.fork ? hooks_.fork(*inner_, sequence) : inner_->fork(sequence);
}

void HookedEngine::reorder(std::span<const SequenceId> sequences, std::span<const int> from) {
  if (!hooks_.reorder) return inner_->reorder(sequences, from);
  hooks_.reorder(*inner_, sequences, from);
}

State HookedEngine::save(SequenceId sequence) {
  return hooks_.save ? hooks_.save(*inner_, sequence) : inner_->save(sequence);
}

SequenceId HookedEngine::load(std::span<const std::byte> state) {
  return hooks_.load ? hooks_.load(*inner_, state) : inner_->load(state);
}

void HookedEngine::shift(SequenceId sequence, int from, int to) {
  if (!hooks_.shift) return inner_->shift(sequence, from, to);
  hooks_.shift(*inner_, sequence, from, to);
}

void HookedEngine::evict(SequenceId sequence, int keep, int drop) {
  if (!hooks_.evict) return inner_->evict(sequence, keep, drop);
  hooks_.evict(*inner_, sequence, keep, drop);
}

Held HookedEngine::held(SequenceId sequence) const {
  return hooks_.held ? hooks_.held(*inner_, sequence) : inner_->held(sequence);
}

EngineFactory hooked(Hooks hooks, EngineFactory inside) {
  return [hooks = std::move(hooks), inside = std::move(inside)](const ModelData& model,
                                                                const EngineSetup& setup) {
    return std::make_unique<HookedEngine>(inside(model, setup), hooks);
  };
}

}  // namespace kvcheck
