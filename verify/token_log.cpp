// SPDX-License-Identifier: MIT
// Validity and meaning of every operation, in terms of tokens alone.
#include "verify/token_log.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/error.h"
#include "engine/random.h"

namespace kvcheck {
namespace {

using Reason = std::optional<std::string>;

bool has_repeats(const std::vector<int>& handles) {
  for (std::size_t i = 0; i < handles.size(); ++i) {
    if (std::find(handles.begin(), handles.begin() + static_cast<std::ptrdiff_t>(i), handles[i]) !=
        handles.begin() + static_cast<std::ptrdiff_t>(i)) {
      return true;
    }
  }
  return false;
}

}  // namespace

int own_token(int branch, int k, int vocabulary) {
  static const std::uint64_t kSeed = stream_of("operations");
  const std::uint64_t bits =
      hash(kSeed, static_cast<std::uint64_t>(branch), static_cast<std::uint64_t>(k));
  return static_cast<int>(bits % static_cast<std::uint64_t>(vocabulary));
}

bool renumbered(std::span<const LoggedRow> log) {
  return std::ranges::any_of(log, [&](const LoggedRow& row) {
    return std::ranges::any_of(row.sees, [&](const SeenRow& seen) {
      return seen.position != log[static_cast<std::size_t>(seen.row)].position;
    });
  });
}

TokenLog::TokenLog(const OperationLimits& limits) : limits_(limits), views_(1) {
  require(limits.vocabulary >= 1 && limits.context >= 1, "a model takes at least one token");
}

// ---- What is held

bool TokenLog::is_live(int handle) const {
  return 0 <= handle && handle < handles() && sequences_[static_cast<std::size_t>(handle)].live;
}

std::vector<int> TokenLog::live() const {
  std::vector<int> found;
  for (int handle = 0; handle < handles(); ++handle) {
    if (is_live(handle)) found.push_back(handle);
  }
  return found;
}

const TokenLog::View& TokenLog::view_of(Rows rows) const {
  return views_[static_cast<std::size_t>(rows.view)];
}

TokenLog::Rows TokenLog::held(int handle) const {
  require(is_live(handle), "only open sequences hold rows");
  return sequences_[static_cast<std::size_t>(handle)].held;
}

int TokenLog::next_position_of(Rows rows) const {
  if (rows.length == 0) return 0;
  return view_of(rows).rows[static_cast<std::size_t>(rows.length) - 1].position + 1;
}

bool TokenLog::plain(int handle) const {
  const Rows rows = held(handle);
  return rows.length <= view_of(rows).plain;
}

std::vector<int> TokenLog::tokens_of(Rows rows) const {
  std::vector<int> tokens;
  tokens.reserve(static_cast<std::size_t>(rows.length));
  for (int i = 0; i < rows.length; ++i) {
    const SeenRow& seen = view_of(rows).rows[static_cast<std::size_t>(i)];
    tokens.push_back(entries_[static_cast<std::size_t>(seen.row)].token);
  }
  return tokens;
}

std::vector<int> TokenLog::positions(int handle) const {
  const Rows rows = held(handle);
  std::vector<int> positions;
  positions.reserve(static_cast<std::size_t>(rows.length));
  for (int i = 0; i < rows.length; ++i) {
    positions.push_back(view_of(rows).rows[static_cast<std::size_t>(i)].position);
  }
  return positions;
}

int TokenLog::told_length(int handle) const {
  require(0 <= handle && handle < handles(), "only a handle that was made was told something");
  return sequences_[static_cast<std::size_t>(handle)].told.length;
}

std::vector<int> TokenLog::told(int handle) const {
  require(0 <= handle && handle < handles(), "only a handle that was made was told something");
  return tokens_of(sequences_[static_cast<std::size_t>(handle)].told);
}

// By entry: its row in the log of a sequence that holds these rows; -1: it has no part in it.
std::vector<int> TokenLog::numbers_in_log(Rows rows) const {
  std::vector<int> number(entries_.size(), -1);
  const auto need = [&](Rows of) {
    for (int i = 0; i < of.length; ++i) {
      number[static_cast<std::size_t>(view_of(of).rows[static_cast<std::size_t>(i)].row)] = 0;
    }
  };
  need(rows);
  // A row sees only earlier ones and itself: from the last one back, each is reached in time.
  for (std::size_t i = entries_.size(); i-- > 0;) {
    if (number[i] == 0) need(entries_[i].sees);
  }
  int next = 0;
  for (int& row : number) {
    if (row == 0) row = next++;
  }
  return number;
}

std::vector<LoggedRow> TokenLog::log(int handle) const {
  const std::vector<int> number = numbers_in_log(held(handle));
  std::vector<LoggedRow> rows;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (number[i] < 0) continue;
    const Entry& entry = entries_[i];
    rows.push_back({entry.token, entry.position, {}});
    for (int k = 0; k < entry.sees.length; ++k) {
      const SeenRow& seen = view_of(entry.sees).rows[static_cast<std::size_t>(k)];
      rows.back().sees.push_back({number[static_cast<std::size_t>(seen.row)], seen.position});
    }
  }
  return rows;
}

std::vector<SeenRow> TokenLog::held_rows(int handle) const {
  const Rows rows = held(handle);
  const std::vector<int> number = numbers_in_log(rows);
  std::vector<SeenRow> found;
  for (int i = 0; i < rows.length; ++i) {
    const SeenRow& seen = view_of(rows).rows[static_cast<std::size_t>(i)];
    found.push_back({number[static_cast<std::size_t>(seen.row)], seen.position});
  }
  return found;
}

// ---- What is valid

Reason TokenLog::why_not(const Operation& o) const {
  if (!well_formed(o)) return fmt::format("{} takes other arguments", name(o.verb));
  if (!limits_.allows(o.verb)) return fmt::format("{} is not offered", name(o.verb));
  if (Reason reason = why_not_sequences(o)) return reason;
  return why_not_numbers(o);
}

Reason TokenLog::why_not_sequences(const Operation& o) const {
  const bool prompts = o.verb == Verb::prompt;  // what it copies from may be closed
  for (std::size_t i = 0; i < (prompts ? 1 : o.sequences.size()); ++i) {
    if (!is_live(o.sequences[i])) return fmt::format("sequence {} is not open", o.sequences[i]);
  }
  if (prompts && o.sequences[1] >= handles()) {
    return fmt::format("sequence {} was never open", o.sequences[1]);
  }
  if (!prompts && has_repeats(o.sequences)) return "a sequence is named twice";
  return std::nullopt;
}

Reason TokenLog::why_not_feed(int handle, int count) const {
  if (count < 1) return "a feed needs at least one token";
  if (count <= room(handle)) return std::nullopt;
  return fmt::format("{} tokens at position {} go past the context of {}", count,
                     next_position(handle), limits_.context);
}

Reason TokenLog::why_not_prompt(const Operation& o) const {
  const int copied = o.numbers[0];
  const int own = o.numbers[1];
  if (length(o.sequences[0]) != 0) return fmt::format("sequence {} is not empty", o.sequences[0]);
  if (copied < 1) return "a prompt shares at least one token";
  if (copied > told_length(o.sequences[1])) {
    return fmt::format("sequence {} was told {} tokens", o.sequences[1],
                       told_length(o.sequences[1]));
  }
  if (own <= limits_.context - copied) return std::nullopt;
  return fmt::format("{} tokens go past the context of {}", std::int64_t{copied} + own,
                     limits_.context);
}

// Rows must be left behind the dropped ones: without them it would be a truncation, and the next
// position would not follow from what is held.
Reason TokenLog::why_not_drop(int handle, int from, int count) const {
  if (count < 1) return "no row to drop";
  if (from < length(handle) && count < length(handle) - from) return std::nullopt;
  return fmt::format("dropping {} rows from {} leaves none of {} behind them", count, from,
                     length(handle));
}

Reason TokenLog::why_not_numbers(const Operation& o) const {
  const std::vector<int>& n = o.numbers;
  switch (o.verb) {
    case Verb::feed:
    case Verb::batch:
      for (std::size_t i = 0; i < o.sequences.size(); ++i) {
        if (Reason reason = why_not_feed(o.sequences[i], n[i])) return reason;
      }
      return std::nullopt;
    case Verb::prompt:
      return why_not_prompt(o);
    case Verb::truncate:
      if (n[0] <= length(o.sequences[0])) return std::nullopt;
      return fmt::format("sequence {} holds {} rows", o.sequences[0], length(o.sequences[0]));
    case Verb::reorder:
      for (const int from : n) {
        if (from >= static_cast<int>(n.size())) return fmt::format("no source {}", from);
      }
      return std::nullopt;
    case Verb::load:
      if (n[0] < saved()) return std::nullopt;
      return fmt::format("state {} was never saved", n[0]);
    case Verb::shift:
      return why_not_drop(o.sequences[0], n[0], n[1] - n[0]);
    case Verb::evict:
      return why_not_drop(o.sequences[0], n[0], n[1]);
    default:
      return std::nullopt;
  }
}

// ---- What happens

OperationStep TokenLog::apply(const Operation& o) {
  require(!why_not(o), "only valid operations are applied");
  OperationStep step;
  const std::vector<int>& n = o.numbers;
  Sequence* const first =
      o.sequences.empty() ? nullptr : &sequences_[static_cast<std::size_t>(o.sequences[0])];
  switch (o.verb) {
    case Verb::open:
      add({}, step);
      break;
    case Verb::fork:
      add({.held = first->held, .told = first->told}, step);
      break;
    case Verb::load: {
      const Rows rows = saved_[static_cast<std::size_t>(n[0])];
      add({.held = rows, .told = rows}, step);
      break;
    }
    case Verb::feed:
    case Verb::batch:
      for (std::size_t i = 0; i < n.size(); ++i) feed(o.sequences[i], 0, 0, n[i], step);
      break;
    case Verb::prompt:
      step.last_row_only = true;
      feed(o.sequences[0], o.sequences[1], n[0], n[1], step);
      break;
    case Verb::truncate:
      first->held.length = n[0];
      break;
    case Verb::reorder:
      reorder(o);
      break;
    case Verb::reset:
      first->held = {};
      first->branch = branches_++;
      first->fed = 0;
      break;
    case Verb::close:
      first->live = false;
      return step;
    case Verb::save:
      step.saved = saved();
      saved_.push_back(first->held);
      return step;
    case Verb::shift:
      first->held = without(first->held, n[0], n[1], n[1] - n[0]);
      break;
    case Verb::evict:
      first->held = without(first->held, n[0], n[0] + n[1], 0);
      break;
  }
  if (step.changed.empty()) step.changed = o.sequences;
  return step;
}

void TokenLog::add(Sequence sequence, OperationStep& step) {
  step.created = handles();
  step.changed = {handles()};
  sequence.branch = branches_++;
  sequences_.push_back(sequence);
}

void TokenLog::feed(int handle, int copied_from, int copied, int own, OperationStep& step) {
  std::vector<int> tokens;
  if (copied > 0) {
    tokens = told(copied_from);
    tokens.resize(static_cast<std::size_t>(copied));
  }
  Sequence& sequence = sequences_[static_cast<std::size_t>(handle)];
  for (int i = 0; i < own; ++i) {
    tokens.push_back(own_token(sequence.branch, sequence.fed++, limits_.vocabulary));
  }
  sequence.held = append(sequence.held, tokens);
  sequence.told = sequence.held;
  step.changed.push_back(handle);
  step.feeds.push_back({handle, std::move(tokens)});
}

void TokenLog::reorder(const Operation& o) {
  std::vector<Sequence> before;
  for (const int handle : o.sequences) {
    before.push_back(sequences_[static_cast<std::size_t>(handle)]);
  }
  for (std::size_t i = 0; i < before.size(); ++i) {
    const Sequence& source = before[static_cast<std::size_t>(o.numbers[i])];
    Sequence& sequence = sequences_[static_cast<std::size_t>(o.sequences[i])];
    sequence.held = source.held;
    sequence.told = source.told;
  }
}

TokenLog::Rows TokenLog::append(Rows rows, const std::vector<int>& tokens) {
  if (rows.length != static_cast<int>(view_of(rows).rows.size())) {
    rows = without(rows, rows.length, rows.length, 0);
  }
  View& view = views_[static_cast<std::size_t>(rows.view)];
  for (const int token : tokens) {
    const int position = next_position_of(rows);
    if (view.plain == rows.length) ++view.plain;
    view.rows.push_back({static_cast<int>(entries_.size()), position});
    ++rows.length;
    entries_.push_back({token, position, rows});
  }
  return rows;
}

// A view of its own: the rows before `from` as they are, and those from `to` on, moved down.
TokenLog::Rows TokenLog::without(Rows rows, int from, int to, int moved) {
  View view;
  const std::vector<SeenRow>& all = view_of(rows).rows;
  view.rows.assign(all.begin(), all.begin() + from);
  for (int i = to; i < rows.length; ++i) {
    const SeenRow& seen = all[static_cast<std::size_t>(i)];
    view.rows.push_back({seen.row, seen.position - moved});
  }
  view.plain = std::min(view_of(rows).plain, from);
  const int length = static_cast<int>(view.rows.size());
  views_.push_back(std::move(view));
  return {static_cast<int>(views_.size()) - 1, length};
}

}  // namespace kvcheck
