// SPDX-License-Identifier: MIT
// What any engine offers to the checks: the one run-time seam between the question and what it is
// asked of. The built-in engine stands behind it as every other engine does.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/block.h"
#include "engine/scalar.h"
#include "engine/tokens.h"

namespace kvcheck {

using SequenceId = int;
using Logits = LogitRows<double>;  // exact for float and double engines

// What an engine says of itself, once, before anything else.
struct Hello {
  std::string name;
  int vocabulary = 0;
  int context = 0;
  ScalarKind compute = ScalarKind::f32;
  bool fork = false;   // copies sequences
  bool batch = false;  // feeds several sequences in one step
};

struct Feed {
  SequenceId sequence;
  std::span<const int> tokens;
};

// What a sequence holds, for the accounting.
struct Held {
  int rows = 0;            // length: K/V rows in every layer
  int next_position = 0;   // of the token that would be fed next
  std::int64_t bytes = 0;  // of those rows, all layers, keys and values
};

// Every verb throws Error when the request is refused (a feed past the context, an id outside the
// vocabulary, an empty feed): the sequence is then as it was. It throws EngineError when the engine
// itself fails.
class Engine {
 public:
  virtual ~Engine() = default;

  [[nodiscard]] virtual const Hello& hello() const = 0;
  // Logits without a cache: of row t * sequences + b, or of each sequence's last row.
  virtual void full(const TokenBlock& block, Rows rows, Logits& out) = 0;

  [[nodiscard]] virtual SequenceId open() = 0;
  virtual void close(SequenceId sequence) = 0;
  // Appends tokens: a prefill to an empty sequence, else a decode or a further chunk. Logits of the
  // fed rows.
  virtual void feed(SequenceId sequence, std::span<const int> tokens, Rows rows, Logits& out) = 0;
  // Feeds several sequences in one step; logits feed after feed. Only if hello().batch.
  virtual void batch(std::span<const Feed> feeds, Rows rows, Logits& out) = 0;
  // Rolls back to `length` rows, at most as many as are held.
  virtual void truncate(SequenceId sequence, int length) = 0;
  // A new sequence that holds the same rows. Only if hello().fork.
  [[nodiscard]] virtual SequenceId fork(SequenceId sequence) = 0;
  [[nodiscard]] virtual Held held(SequenceId sequence) const = 0;
};

}  // namespace kvcheck
