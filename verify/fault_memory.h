// SPDX-License-Identifier: MIT
// What a fault remembers of each sequence, over the verbs that make, copy and end sequences. It
// wraps whatever hooks are there already; the fault's own hooks on feeds come after it.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "verify/fault.h"

namespace kvcheck {

template <typename Value>
class SequenceMemory {
 public:
  // Of a sequence that was opened and of one that was rolled back to no rows: Value().
  Value& of(SequenceId sequence) { return values_[sequence]; }

  // Keeps the memory right through open, fork, reorder, load and a roll back to nothing.
  static std::shared_ptr<SequenceMemory> attach(Hooks& hooks) {
    auto memory = std::make_shared<SequenceMemory>();
    hooks.open = [memory](Engine& inner) {
      const SequenceId sequence = inner.open();
      memory->values_.erase(sequence);
      return sequence;
    };
    hooks.fork = [memory](Engine& inner, SequenceId from) {
      const SequenceId copy = inner.fork(from);
      memory->values_[copy] = memory->values_[from];
      return copy;
    };
    hooks.truncate = [memory](Engine& inner, SequenceId sequence, int length) {
      inner.truncate(sequence, length);
      if (length == 0) memory->values_.erase(sequence);
    };
    hooks.load = [memory](Engine& inner, std::span<const std::byte> state) {
      const SequenceId sequence = inner.load(state);
      memory->values_.erase(sequence);
      return sequence;
    };
    hooks.reorder = [memory](Engine& inner, std::span<const SequenceId> sequences,
                             std::span<const int> from) {
      inner.reorder(sequences, from);
      memory->reorder(sequences, from);
    };
    return memory;
  }

 private:
  void reorder(std::span<const SequenceId> sequences, std::span<const int> from) {
    std::vector<Value> moved;
    for (const int source : from) {
      moved.push_back(values_[sequences[static_cast<std::size_t>(source)]]);
    }
    for (std::size_t i = 0; i < sequences.size(); ++i) values_[sequences[i]] = std::move(moved[i]);
  }

  std::map<SequenceId, Value> values_;
};

}  // namespace kvcheck
