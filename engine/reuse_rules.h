// SPDX-License-Identifier: MIT
// What paging and prefix reuse decide, as a plain value: the questions that a common store of
// blocks must answer. The pool asks them and decides none of them itself, so a wrong answer here is
// a wrong cache. The defaults are the right answers.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace kvcheck {

// A prompt that begins like an earlier one.
struct Hit {
  int known;   // rows of its first blocks that are remembered, whole blocks
  int tokens;  // of the prompt
  int block;   // rows of a block
};

// A row that a step adds to a sequence.
struct FedRow {
  int row;     // of the sequence, from 0
  int reused;  // rows that prefix reuse gave the sequence in this step
  int block;   // rows of a block
};

// What of a remembered block must be as in the prompt, besides the key.
enum class Compared { nothing, tokens, tokens_and_parent };
// When a block of a prompt becomes one that others can take.
enum class Remembered { once_reserved, once_written };

// The right answers.
[[nodiscard]] std::uint64_t key_before_first(std::uint64_t identity);
[[nodiscard]] std::uint64_t key_of_block(std::uint64_t parent, std::span<const int> tokens);
[[nodiscard]] int rows_provided(const Hit& hit);

struct ReuseRules {
  // What stands in for a block before the first one, from the identity of the model.
  std::function<std::uint64_t(std::uint64_t)> first_parent = key_before_first;
  // Of a block, from the key of the block before it and its own tokens.
  std::function<std::uint64_t(std::uint64_t, std::span<const int>)> key = key_of_block;
  Compared compared = Compared::tokens_and_parent;
  // From how many rows on a block is remembered, by their tokens; 0: when it is full.
  int remembered_from = 0;
  Remembered remembered = Remembered::once_written;
  // Rows that a prompt takes, from 0 to the known ones. The default leaves a token to be computed:
  // somebody wants its logits.
  std::function<int(const Hit&)> provided = rows_provided;
  // The blocks that it takes, from those that are known, in the order of their rows.
  std::function<std::vector<int>(std::vector<int>)> taken = [](std::vector<int> known) {
    return known;
  };
  // Where a row goes, counted in rows from the beginning of the sequence's first block.
  std::function<int(const FedRow&)> place = [](const FedRow& fed) { return fed.row; };
  // What the table of a sequence holds for a block.
  std::function<int(int)> stored = [](int block) { return block; };
  // A block that others hold as well and that is not full is copied before one of them goes on in
  // it.
  bool copies_unfilled = true;
  // Holders that a block has left when it becomes free.
  int free_at = 0;
  // A block that is taken for other rows is no longer found by what it held.
  bool forgets_taken = true;
};

}  // namespace kvcheck
