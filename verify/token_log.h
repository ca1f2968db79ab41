// SPDX-License-Identifier: MIT
// The model of what sequences hold: which tokens were fed to them, in which order, at which
// positions, and what each row could see. It knows no keys, no values and no engine.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/logged.h"
#include "verify/operation_space.h"
#include "verify/operations.h"

namespace kvcheck {

struct FedTokens {
  int handle;
  std::vector<int> tokens;

  bool operator==(const FedTokens&) const = default;
};

// What one operation came to.
struct OperationStep {
  std::vector<FedTokens> feeds;  // in the operation's order
  bool last_row_only = false;    // only the last row is answered
  std::vector<int> changed;      // open handles that hold other rows than before, new ones included
  std::optional<int> created;    // the new handle
  std::optional<int> saved;      // the new saved state
};

// The k-th own token of a branch: a fixed function, so that no two sequences hold equal suffixes
// except on purpose. Every open, fork, load and reset begins a new branch.
[[nodiscard]] int own_token(int branch, int k, int vocabulary);

// Whether some row saw a key at another position than it was fed at.
[[nodiscard]] bool renumbered(std::span<const LoggedRow> log);

class TokenLog {
 public:
  explicit TokenLog(const OperationLimits& limits);

  // Why the operation is not valid here; none if it is.
  [[nodiscard]] std::optional<std::string> why_not(const Operation& operation) const;
  // Throws InternalError unless it is valid.
  OperationStep apply(const Operation& operation);

  [[nodiscard]] const OperationLimits& limits() const { return limits_; }
  [[nodiscard]] int handles() const { return static_cast<int>(sequences_.size()); }  // ever made
  [[nodiscard]] int saved() const { return static_cast<int>(saved_.size()); }
  [[nodiscard]] bool is_live(int handle) const;
  [[nodiscard]] std::vector<int> live() const;

  // Of an open handle.
  [[nodiscard]] int length(int handle) const { return held(handle).length; }
  // One after the last held row's, 0 if there is none.
  [[nodiscard]] int next_position(int handle) const { return next_position_of(held(handle)); }
  // Tokens that still fit.
  [[nodiscard]] int room(int handle) const { return limits_.context - next_position(handle); }
  // Every held row lies at its own index and has seen just the rows before it: what is held is what
  // feeding tokens() to an empty sequence gives.
  [[nodiscard]] bool plain(int handle) const;
  [[nodiscard]] std::vector<int> tokens(int handle) const { return tokens_of(held(handle)); }
  [[nodiscard]] std::vector<int> positions(int handle) const;
  // The held rows and all that they were computed from, in the order in which they were fed. After
  // a feed the fed rows are the last ones.
  [[nodiscard]] std::vector<LoggedRow> log(int handle) const;
  // The held rows, oldest first: which rows of log() they are, and their positions by now.
  [[nodiscard]] std::vector<SeenRow> held_rows(int handle) const;

  // Of any handle ever made: the tokens that it held after its last feed, or after that of the
  // sequence it was copied from. What was truncated, reset or closed since then counts.
  [[nodiscard]] std::vector<int> told(int handle) const;
  [[nodiscard]] int told_length(int handle) const;

 private:
  // Rows are kept in views, which only ever grow: a sequence holds the first rows of one. Whatever
  // continues otherwise than the view does begins a view of its own, so copying a sequence is
  // copying two numbers, and what a row saw stays readable.
  struct View {
    std::vector<SeenRow> rows;
    int plain = 0;  // leading rows that are as plain() says
  };
  struct Rows {
    int view = 0;
    int length = 0;
  };
  struct Entry {
    int token;
    int position;
    Rows sees;
  };
  struct Sequence {
    bool live = true;
    Rows held;
    Rows told;
    int branch = 0;
    int fed = 0;  // own tokens
  };

  [[nodiscard]] const View& view_of(Rows rows) const;
  [[nodiscard]] Rows held(int handle) const;
  [[nodiscard]] int next_position_of(Rows rows) const;
  [[nodiscard]] std::vector<int> tokens_of(Rows rows) const;
  [[nodiscard]] std::vector<int> numbers_in_log(Rows rows) const;

  [[nodiscard]] std::optional<std::string> why_not_sequences(const Operation& operation) const;
  [[nodiscard]] std::optional<std::string> why_not_numbers(const Operation& operation) const;
  [[nodiscard]] std::optional<std::string> why_not_feed(int handle, int count) const;
  [[nodiscard]] std::optional<std::string> why_not_prompt(const Operation& operation) const;
  [[nodiscard]] std::optional<std::string> why_not_drop(int handle, int from, int count) const;

  void add(Sequence sequence, OperationStep& step);
  void feed(int handle, int copied_from, int copied, int own, OperationStep& step);
  void reorder(const Operation& operation);
  [[nodiscard]] Rows append(Rows rows, const std::vector<int>& tokens);
  [[nodiscard]] Rows without(Rows rows, int from, int to, int moved);

  OperationLimits limits_;
  std::vector<View> views_;
  std::vector<Entry> entries_;
  std::vector<Sequence> sequences_;  // by handle
  std::vector<Rows> saved_;
  int branches_ = 0;
};

}  // namespace kvcheck
