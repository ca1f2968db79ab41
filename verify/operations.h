// SPDX-License-Identifier: MIT
// Sequences of cache operations as plain values, and as one line of text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvcheck {

// Sequences are named by handles: every open, fork and load makes the next number from 0 on, which
// is never used again. Every save makes the next number of a saved state.
enum class Verb : std::uint8_t {
  open,
  feed,      // own tokens, at least one; every row is answered
  prompt,    // to an empty sequence: the first tokens of what another one was told, then own
             // tokens; only the last row is answered, so that a prefix cache may skip the others
  batch,     // feeds several sequences in one step
  truncate,  // keep the first rows
  fork,
  reorder,  // each sequence takes what a listed one held before; repeats allowed
  reset,    // drop all rows, stay open
  close,
  save,
  load,   // opens a sequence that holds a saved state
  shift,  // drop rows [from, to); the later ones move down by to - from positions
  evict,  // drop rows [keep, keep + drop); the later ones keep their positions
};
inline constexpr int kVerbs = 13;

[[nodiscard]] std::string_view name(Verb verb);
[[nodiscard]] constexpr bool makes_handle(Verb verb) {
  return verb == Verb::open || verb == Verb::fork || verb == Verb::load;
}

// verb      sequences   numbers             text
// open                                      open
// feed      h           n                   feed:0x3
// prompt    h, g        n of g, m own       prompt:1@0x4+2
// batch     h...        n of each           batch:0x1-1x2
// truncate  h           length              truncate:0x2
// fork      h                               fork:0
// reorder   h...        index of a source   reorder:0-1@1-1    hs[i] takes hs[from[i]]
// reset     h                               reset:0
// close     h                               close:0
// save      h                               save:0
// load                  saved state         load:0
// shift     h           from, to            shift:0x1-2
// evict     h           keep, drop          evict:0x1-2
struct Operation {
  Verb verb = Verb::open;
  std::vector<int> sequences;
  std::vector<int> numbers;

  bool operator==(const Operation&) const = default;
};
using Operations = std::vector<Operation>;

// As many sequences and numbers as the verb takes, none of them negative.
[[nodiscard]] bool well_formed(const Operation& operation);

// "open.feed:0x3.fork:0": shell-safe, without blanks, "=" and ",".
[[nodiscard]] std::string to_text(const Operation& operation);
[[nodiscard]] std::string to_text(const Operations& operations);

// More are not taken from a text, whoever wrote it.
inline constexpr int kOperationsMax = 1000;
// Throws Error naming `where` and the word for anything that to_text() does not write.
[[nodiscard]] Operations parse_operations(std::string_view text, std::string_view where);

}  // namespace kvcheck
