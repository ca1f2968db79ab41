// SPDX-License-Identifier: MIT
// What any engine offers to the checks: the one run-time seam between the question and what it is
// asked of. The built-in engine stands behind it as every other engine does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/block.h"
#include "engine/error.h"
#include "engine/scalar.h"
#include "engine/tokens.h"

namespace kvcheck {

using SequenceId = int;
using Logits = LogitRows<double>;  // exact for float and double engines

// Verbs beyond full, open, feed and close that an engine has.
struct Capabilities {
  bool truncate = false;
  bool fork = false;
  bool batch = false;
  bool reorder = false;
  bool state = false;  // save and load
  bool shift = false;
  bool evict = false;
  bool reuse = false;        // lookup; feeds that are asked for their last rows may take known rows
  bool places = false;       // says where rows lie
  bool fingerprint = false;  // of the bytes that a sequence holds
};

// What an engine says of itself, once, before anything else.
struct Hello {
  std::string name;
  int vocabulary = 0;
  int context = 0;
  ScalarKind compute = ScalarKind::f32;
  Capabilities can = {};
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

// Where the rows of a sequence lie, oldest first.
struct Places {
  std::vector<int> positions;  // [rows]
  std::vector<int> slots;      // [rows], in layers without a ring
  std::vector<int> blocks;     // that the slots belong to, or the lane of a batch; else empty
};

using State = std::vector<std::byte>;  // of a sequence, opaque

// A verb that the engine does not have.
struct Unsupported : Error {
  using Error::Error;
};

// Every verb throws Error when the request is refused (a feed past the context, an id outside the
// vocabulary, an empty feed, a roll back to rows that are gone): all sequences are then as they
// were. It throws EngineError when the engine itself fails. Verbs that hello().can does not name
// throw Unsupported.
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
  // Feeds several sequences in one step; logits feed after feed.
  virtual void batch(std::span<const Feed> feeds, Rows rows, Logits& out);
  // Rolls back to `length` rows, at most as many as are held. May be refused, except for 0.
  virtual void truncate(SequenceId sequence, int length);
  // A new sequence that holds the same rows.
  [[nodiscard]] virtual SequenceId fork(SequenceId sequence);
  // sequences[i] gets the rows that sequences[from[i]] held before; the same one may be named more
  // than once.
  virtual void reorder(std::span<const SequenceId> sequences, std::span<const int> from);
  [[nodiscard]] virtual State save(SequenceId sequence);
  // A new sequence that holds what was saved.
  [[nodiscard]] virtual SequenceId load(std::span<const std::byte> state);
  // Drops rows [from, to); the later ones move up: their positions fall by to - from, and their
  // keys are rotated back by as much.
  virtual void shift(SequenceId sequence, int from, int to);
  // Drops rows [keep, keep + drop); the later ones keep their positions.
  virtual void evict(SequenceId sequence, int keep, int drop);
  // Rows that a prompt would find already computed.
  [[nodiscard]] virtual int lookup(std::span<const int> tokens);
  [[nodiscard]] virtual Held held(SequenceId sequence) const = 0;
  [[nodiscard]] virtual Places places(SequenceId sequence) const;
  [[nodiscard]] virtual std::uint64_t fingerprint(SequenceId sequence) const;

 protected:
  [[noreturn]] void unsupported(std::string_view verb) const;
};

// Throws EngineError unless an answer has as many rows as were asked for, of the engine's
// vocabulary.
void require_rows(const Engine& engine, const Logits& logits, std::size_t rows);

}  // namespace kvcheck
