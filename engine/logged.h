// SPDX-License-Identifier: MIT
// The oracle for sequences of which rows were dropped or renumbered. The text that is left does not
// say what the right logits are: its rows were computed while the dropped ones could still be seen.
// So the oracle replays a log that states, for every token, what it saw and where. As `uncached` it
// recomputes everything and shares nothing with the cached decoder but the pure operations of
// ops.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/block.h"
#include "engine/model.h"
#include "engine/ops.h"
#include "engine/rotary_tables.h"
#include "engine/site.h"
#include "engine/weights.h"

namespace kvcheck {

// A row that a query sees: which row of the log, and the position that its key had by then.
struct SeenRow {
  int row;
  int position;

  bool operator==(const SeenRow&) const = default;
};

// One token that was fed: its position when it was fed, and what it saw, in position order and
// itself last. Windows are the model's affair: a windowed layer takes of these rows what its window
// reaches.
struct LoggedRow {
  int token;
  int position;
  std::vector<SeenRow> sees;

  bool operator==(const LoggedRow&) const = default;
};

// The log of a sequence of which nothing was dropped: row i at position i sees rows 0 .. i.
[[nodiscard]] std::vector<LoggedRow> plain_log(std::span<const int> tokens);

template <Scalar T>
class Logged {
 public:
  Logged(Weights<T> weights, const Ops<T>& ops);

  // Logits of the last `answered` rows. A log may have more rows than the context, as long as no
  // position lies outside. Throws Error for a log that cannot have happened. The observer, if any,
  // sees every site with all rows of the log, the final norm and the logits with those that are
  // answered; keys are not yet rotated at their site, for they are rotated for each query anew.
  // The result stays valid until the next call. In row arithmetic a plain log gives Uncached's
  // bits.
  View<const T> logits(std::span<const LoggedRow> log, int answered,
                       const Observer<T>* observer = nullptr);

 private:
  void embed(std::span<const LoggedRow> log);
  void attention(int layer, std::span<const LoggedRow> log);
  void keep_rows();
  void attend(int layer, std::span<const LoggedRow> log);
  void attend_row(int layer, int row, std::span<const SeenRow> visible);
  void bias_and_cap(int position, std::span<const SeenRow> visible);
  void place_rows(int layer, std::span<const SeenRow> visible);
  void mlp(int layer);
  void observe(Site site, int layer, View<T> view) const;

  Weights<T> weights_;
  const Ops<T>& ops_;
  const RotaryTables<T> rotary_;
  const T epsilon_;
  const T scale_;
  const Vector<T> no_bias_;
  std::vector<int> kv_head_of_;  // [query heads]
  std::vector<T> slopes_;        // [query heads], ALiBi only
  const Observer<T>* observer_ = nullptr;

  // Work space, kept between calls.
  Block<T> x_, normed_, query_, key_, value_, attended_, projected_, gate_, up_, logits_;
  std::vector<int> positions_;      // [rows]
  AlignedVector<T> keys_, values_;  // of the layer at hand, not rotated: [row, kv_width]
  // Keys and values as the query at hand sees them: [visible key, kv_width].
  AlignedVector<T> seen_keys_, seen_values_;
  AlignedVector<T> query_row_, attended_row_;
  AlignedVector<T> scores_;              // [query head][visible key]
  std::vector<int> seen_;                // 0, 1, 2 ...
  std::vector<std::int64_t> distances_;  // [visible keys]
};

}  // namespace kvcheck
