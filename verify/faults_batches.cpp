// SPDX-License-Identifier: MIT
// Wrong answers to: which sequence does a row of a step belong to, and which answer?
#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>

#include "verify/fault_caches.h"
#include "verify/faults.h"

namespace kvcheck {
namespace {

constexpr std::string_view kReorder = "rows after a reorder";
constexpr std::string_view kSequence = "sequence of a row";
constexpr std::string_view kAnswer = "row that is answered";
constexpr std::string_view kPadding = "padding of a batch";
constexpr std::string_view kMembers = "sequences of a batch";

// ---- Reordering

// wrong(sources) are taken instead.
template <typename Wrong>
void plant_reorder(const auto& planting, Wrong wrong) {
  planting.hooks.reorder = [wrong, trace = planting.trace](Engine& inner,
                                                           std::span<const SequenceId> sequences,
                                                           std::span<const int> from) {
    const std::vector<int> right(from.begin(), from.end());
    const std::vector<int> other = wrong(right);
    if (!std::ranges::equal(other, from)) trace->changed();
    inner.reorder(sequences, other);
  };
}

std::vector<int> identity(std::size_t count) {
  std::vector<int> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

// Each sequence is copied in its turn, also from one that was overwritten before.
std::vector<int> in_place(const std::vector<int>& from) {
  std::vector<int> holds = identity(from.size());  // [sequences]: whose rows they hold by now
  for (std::size_t i = 0; i < from.size(); ++i) holds[i] = holds[static_cast<std::size_t>(from[i])];
  return holds;
}

// Where rows go is taken for where they come from; of several the last counts.
std::vector<int> inverse(const std::vector<int>& from) {
  std::vector<int> to = identity(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    to[static_cast<std::size_t>(from[i])] = static_cast<int>(i);
  }
  return to;
}

// keep(stored, old) decides what a row of the planting's layers has of the one that was there.
template <Scalar T, typename Keep>
void plant_kept_in_reorder(const Planting<T>& planting, Keep keep) {
  planting.hooks.reorder = [keep, planting](Engine& inner, std::span<const SequenceId> sequences,
                                            std::span<const int> from) {
    using Layers = std::vector<std::vector<StoredRow<T>>>;
    std::vector<Layers> old;  // [sequences]
    for (const SequenceId sequence : sequences) {
      const KvCache<T>& cache = planting.engine.cache(sequence);
      Layers& layers = old.emplace_back();
      for (int l = 0; l < planting.config.layers; ++l) {
        layers.push_back(rows_of(cache, l, 0, cache.length()));
      }
    }
    inner.reorder(sequences, from);
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      KvCache<T>& cache = planting.engine.cache(sequences[i]);
      for (int l = 0; l < planting.config.layers; ++l) {
        const std::vector<StoredRow<T>>& was = old[i][static_cast<std::size_t>(l)];
        const int both = std::min(cache.length(), static_cast<int>(was.size()));
        for (int row = 0; row < both && planting.in_layer(l); ++row) {
          StoredRow<T> stored = row_of(cache, l, row);
          keep(stored, was[static_cast<std::size_t>(row)]);
          if (put_row(cache, l, row, stored)) planting.trace->changed();
        }
      }
    }
  };
}

template <Scalar T>
void plant_layer_not_reordered(const Planting<T>& planting) {
  plant_kept_in_reorder(planting, [](StoredRow<T>& row, const StoredRow<T>& old) { row = old; });
}

template <Scalar T>
void plant_values_not_reordered(const Planting<T>& planting) {
  plant_kept_in_reorder(planting,
                        [](StoredRow<T>& row, const StoredRow<T>& old) { row.value = old.value; });
}

// ---- Rows of a step

// The first row of each feed among all rows of the step, and their number at the end.
std::vector<int> first_rows(PlannedFeeds feeds) {
  std::vector<int> first{0};
  for (const PlannedFeed& feed : feeds) first.push_back(first.back() + feed.tokens);
  return first;
}

// Exchanges the last rows of the first two sequences of a batch.
void exchange_rows(const auto& tensor, const FaultStep& step) {
  if (step.feeds.size() < 2 || !step.in_layer(tensor.layer)) return;
  const std::vector<int> first = first_rows(step.feeds);
  for (int c = 0; c < tensor.columns; ++c) {
    std::swap(tensor.at(first[1] - 1, c), tensor.at(first[2] - 1, c));
  }
}

// Sequence b begins b rows behind the first row of all, as if every feed had one token.
void stride_of_one(const auto& tensor, const FaultStep& step) {
  if (step.feeds.size() < 2 || !step.in_layer(tensor.layer)) return;
  for (int c = 0; c < tensor.columns; ++c) {
    std::vector<std::remove_cvref_t<decltype(tensor.at(0, 0))>> right;
    for (int r = 0; r < tensor.rows; ++r) right.push_back(tensor.at(r, c));
    for (int r = 0; r < tensor.rows; ++r) {
      const int from = step.plan.rows[static_cast<std::size_t>(r)].sequence + step.place(r);
      tensor.at(r, c) = right[static_cast<std::size_t>(from)];
    }
  }
}

// ---- Answers

// source(row, first rows of the feeds) of each row of an answer is the row that is given instead.
template <typename Source>
void plant_answers(const auto& planting, Source source) {
  planting.hooks.feed = [source, trace = planting.trace](Engine& inner, std::span<const Feed> feeds,
                                                         Rows rows, Logits& out) {
    inner.batch(feeds, rows, out);
    if (feeds.size() < 2) return;
    std::vector<int> first{0};
    for (const Feed& feed : feeds) {
      first.push_back(first.back() +
                      (rows == Rows::last ? 1 : static_cast<int>(feed.tokens.size())));
    }
    const Logits right = out;
    out.values.clear();
    for (int r = 0; r < right.rows(); ++r) {
      const std::span<const double> given = right.row(source(r, first));
      out.values.insert(out.values.end(), given.begin(), given.end());
    }
    if (out.values != right.values) trace->changed();
  };
}

int feed_of(int row, const std::vector<int>& first) {
  return static_cast<int>(std::ranges::upper_bound(first, row) - first.begin()) - 1;
}

int rows_of_feed(int feed, const std::vector<int>& first) {
  const auto f = static_cast<std::size_t>(feed);
  return first[f + 1] - first[f];
}

bool is_last_of_feed(int row, const std::vector<int>& first) {
  return std::ranges::binary_search(first, row + 1);
}

// The first of those that have the most rows.
int longest_feed(const std::vector<int>& first) {
  int longest = 0;
  for (int f = 1; f + 1 < static_cast<int>(first.size()); ++f) {
    if (rows_of_feed(f, first) > rows_of_feed(longest, first)) longest = f;
  }
  return longest;
}

int last_of_longest(int row, const std::vector<int>& first) {
  if (!is_last_of_feed(row, first)) return row;
  return first[static_cast<std::size_t>(longest_feed(first)) + 1] - 1;
}

// The last column of the batch, which in a shorter feed is padding: what comes behind it in memory.
int last_column(int row, const std::vector<int>& first) {
  if (!is_last_of_feed(row, first)) return row;
  const int columns = rows_of_feed(longest_feed(first), first);
  const int begin = first[static_cast<std::size_t>(feed_of(row, first))];
  return std::min(begin + columns, first.back()) - 1;
}

// Feeds are answered longest first.
int sorted_by_length(int row, const std::vector<int>& first) {
  std::vector<int> order = identity(first.size() - 1);
  std::ranges::stable_sort(
      order, [&](int a, int b) { return rows_of_feed(a, first) > rows_of_feed(b, first); });
  for (const int feed : order) {
    const int rows = rows_of_feed(feed, first);
    if (row < rows) return first[static_cast<std::size_t>(feed)] + row;
    row -= rows;
  }
  return row;
}

int next_feed(int row, const std::vector<int>& first) {
  if (!is_last_of_feed(row, first)) return row;
  const auto next = static_cast<std::size_t>(feed_of(row, first)) + 2;
  return (next < first.size() ? first[next] : first[1]) - 1;
}

// ---- Padding

// Columns of padding among those that a row of a sequence lies behind, itself included.
int padding_before(const FaultStep& step, int row) {
  const int columns = 2 * step.config.context;
  const int column = step.plan.rows[static_cast<std::size_t>(row)].slot % columns;
  return column - (step.held(row) + step.place(row));
}

// In decode as many columns of padding as there are hold a row of their own, like the oldest one.
void see_padding(SlotView& view, const FaultStep& step) {
  const SlotView right = view;
  view.first = {0};
  view.slots.clear();
  view.positions.clear();
  for (int r = 0; r < static_cast<int>(step.plan.rows.size()); ++r) {
    const int more = step.warm(r) ? std::max(0, padding_before(step, r)) : 0;
    for (int i = 0; i < more; ++i) show(view, right, r, 0);
    for (std::size_t k = 0; k < right.of(r).size(); ++k) show(view, right, r, k);
    view.first.push_back(static_cast<int>(view.slots.size()));
  }
}

void padding_seen(StepPlan& plan, const FaultStep& step) {
  for (int l = 0; l < step.config.layers; ++l) {
    if (step.in_layer(l)) change_view(plan, l, [&](SlotView& view) { see_padding(view, step); });
  }
}

// A row of padding sees nothing, and the mean of nothing is NaN; layers above the first weigh it
// by zero, which is NaN still.
void empty_rows(const auto& tensor, const FaultStep& step) {
  using T = std::remove_cvref_t<decltype(tensor.at(0, 0))>;
  if (tensor.layer == 0) return;
  int longest = 0;
  for (const PlannedFeed& feed : step.feeds) longest = std::max(longest, feed.tokens);
  for (int r = 0; r < tensor.rows; ++r) {
    if (step.tokens(r) == longest) continue;
    for (int c = 0; c < tensor.columns; ++c) {
      tensor.at(r, c) = std::numeric_limits<T>::quiet_NaN();
    }
  }
}

// Every sequence but the first reads and writes the lane of the first.
void lane_of_first(StepPlan& plan, const FaultStep& step) {
  const int columns = 2 * step.config.context;
  const auto in_lane = [&](int slot) {
    return plan.rows.front().slot / columns * columns + slot % columns;
  };
  std::set<int> taken;  // slots of the first sequence
  for (const PlannedRow& row : plan.rows) {
    if (row.sequence == 0) taken.insert(row.slot);
  }
  for (int l = 0; l < step.config.layers; ++l) {
    change_view(plan, l, [&](SlotView& view) {
      for (int& slot : view.slots) slot = taken.contains(in_lane(slot)) ? in_lane(slot) : slot;
      for (int& slot : view.write) slot = taken.contains(in_lane(slot)) ? in_lane(slot) : slot;
    });
  }
}

// ---- Sequences that come and go

// Which sequences are open, oldest id first.
template <Scalar T>
std::shared_ptr<std::set<SequenceId>> open_sequences(const Planting<T>& planting) {
  auto open = std::make_shared<std::set<SequenceId>>();
  const auto add = [open](SequenceId sequence) {
    open->insert(sequence);
    return sequence;
  };
  planting.hooks.open = [add](Engine& inner) { return add(inner.open()); };
  planting.hooks.fork = [add](Engine& inner, SequenceId from) { return add(inner.fork(from)); };
  planting.hooks.load = [add](Engine& inner, std::span<const std::byte> state) {
    return add(inner.load(state));
  };
  planting.hooks.close = [open](Engine& inner, SequenceId sequence) {
    inner.close(sequence);
    open->erase(sequence);
  };
  return open;
}

// Row b of a batch goes to the b-th sequence that is open, whichever it was meant for.
template <Scalar T>
void plant_slot_by_row(const Planting<T>& planting) {
  auto open = open_sequences(planting);
  planting.hooks.feed = [open, planting](Engine& inner, std::span<const Feed> feeds, Rows rows,
                                         Logits& out) {
    std::vector<Feed> wrong(feeds.begin(), feeds.end());
    auto next = open->begin();
    bool fits = feeds.size() > 1;
    for (Feed& feed : wrong) {
      feed.sequence = *next++;
      const int tokens = static_cast<int>(feed.tokens.size());
      const int end = planting.engine.cache(feed.sequence).next_position() + tokens;
      fits = fits && end <= planting.config.context;
    }
    if (!fits) return inner.batch(feeds, rows, out);
    for (std::size_t i = 0; i < wrong.size(); ++i) {
      if (wrong[i].sequence != feeds[i].sequence) planting.trace->changed();
    }
    inner.batch(wrong, rows, out);
  };
}

// A sequence that was in the last batch and is not in this one is fed as well.
template <Scalar T>
void plant_still_fed(const Planting<T>& planting) {
  auto open = open_sequences(planting);
  auto last = std::make_shared<std::set<SequenceId>>();
  planting.hooks.feed = [open, last, planting](Engine& inner, std::span<const Feed> feeds,
                                               Rows rows, Logits& out) {
    inner.batch(feeds, rows, out);
    std::set<SequenceId> fed;
    for (const Feed& feed : feeds) fed.insert(feed.sequence);
    const std::set<SequenceId> before = std::exchange(*last, fed);
    if (before.size() < 2) return;
    Logits unwanted;
    for (const SequenceId sequence : before) {
      if (fed.contains(sequence) || !open->contains(sequence)) continue;
      if (planting.engine.cache(sequence).next_position() >= planting.config.context) continue;
      inner.feed(sequence, std::array{0}, Rows::last, unwanted);
      planting.trace->changed();
    }
  };
}

// When a sequence leaves, the positions of those behind it in the batch are not moved up: each
// takes that of the one before it.
template <Scalar T>
void plant_positions_not_filtered(const Planting<T>& planting) {
  auto drift = plant_drift(planting);
  auto close_up = [drift, planting](const std::set<SequenceId>& open, SequenceId gone) {
    int before = planting.engine.cache(gone).next_position();
    for (auto at = open.upper_bound(gone); at != open.end(); ++at) {
      const int own = planting.engine.cache(*at).next_position();
      if (own > 0) drift->of(*at) = before - own;
      before = own;
    }
  };
  auto open = std::make_shared<std::set<SequenceId>>();
  const auto remember = [open](auto& hook) {
    hook = [open, then = std::move(hook)](Engine& inner, auto&&... given) {
      const SequenceId sequence = then(inner, given...);
      open->insert(sequence);
      return sequence;
    };
  };
  remember(planting.hooks.open);
  remember(planting.hooks.fork);
  remember(planting.hooks.load);
  planting.hooks.close = [open, close_up](Engine& inner, SequenceId sequence) {
    close_up(*open, sequence);
    open->erase(sequence);
    inner.close(sequence);
  };
}

constexpr Features kAny{};

constexpr std::array kFaults{
    Fault{"reorder-ignored",
          kReorder,
          "sequences stay as they are",
          "transformers 46612, PaddleNLP 6672, sockeye 731, DeepSpeed 2506",
          kAny,
          "flat",
          {},
          at_verbs([](const auto& planting) {
            plant_reorder(planting,
                          [](const std::vector<int>& from) { return identity(from.size()); });
          })},
    Fault{"reorder-skips-a-layer",
          kReorder,
          "the rows of a layer stay where they are",
          "transformers 46612",
          kAny,
          "flat",
          {.layers = true},
          at_verbs([](const auto& planting) { plant_layer_not_reordered(planting); })},
    Fault{"reorder-moves-keys-only",
          kReorder,
          "values stay where they are",
          "class of sockeye 731",
          kAny,
          "flat",
          {.layers = true},
          at_verbs([](const auto& planting) { plant_values_not_reordered(planting); })},
    Fault{"reorder-chain",
          kReorder,
          "sequences are copied one after the other, also from one that was overwritten",
          "whisper.cpp 1243",
          kAny,
          "flat",
          {},
          at_verbs([](const auto& planting) { plant_reorder(planting, in_place); })},
    Fault{"reorder-inverse",
          kReorder,
          "where rows go is taken for where they come from",
          "class of PaddleNLP 6672",
          kAny,
          "flat",
          {},
          at_verbs([](const auto& planting) { plant_reorder(planting, inverse); })},
    Fault{"batch-rows-exchanged",
          kSequence,
          "two sequences store the row of each other",
          "class of sparkinfer 289",
          kAny,
          "flat",
          {.layers = true},
          at_sites(SiteSet().with(Site::key).with(Site::value),
                   [](const auto& tensor, const FaultStep& step) { exchange_rows(tensor, step); })},
    Fault{"batch-queries-exchanged",
          kSequence,
          "two sequences take the query of each other",
          "class of flashinfer 3800",
          kAny,
          "flat",
          {.layers = true},
          at_sites(SiteSet().with(Site::query),
                   [](const auto& tensor, const FaultStep& step) { exchange_rows(tensor, step); })},
    Fault{"batch-stride-one",
          kSequence,
          "the queries of sequence b begin at row b of the batch",
          "flashinfer 3800",
          kAny,
          "flat",
          {.layers = true},
          at_sites(SiteSet().with(Site::query),
                   [](const auto& tensor, const FaultStep& step) { stride_of_one(tensor, step); })},
    Fault{"batch-slot-by-row",
          kSequence,
          "row b of a batch goes to the b-th sequence that is open",
          "sparkinfer 289",
          kAny,
          "flat",
          {},
          at_verbs([](const auto& planting) { plant_slot_by_row(planting); })},
    Fault{"batch-lane-of-the-first",
          kSequence,
          "rows of all sequences go to the lane of the first",
          "flash-attention 772",
          kAny,
          "padded-right",
          {},
          PlanFault{lane_of_first}},
    Fault{"batch-longest-answers",
          kAnswer,
          "the last row of the longest feed is answered for all",
          "class of unsloth 3699",
          kAny,
          "flat",
          {},
          at_verbs([](const auto& planting) { plant_answers(planting, last_of_longest); })},
    Fault{"batch-answers-sorted",
          kAnswer,
          "feeds are answered longest first",
          "class of sorting without sorting back",
          kAny,
          "flat",
          {},
          at_verbs([](const auto& planting) { plant_answers(planting, sorted_by_length); })},
    Fault{"batch-answers-next",
          kAnswer,
          "the last row of the next feed is answered",
          "class of sparkinfer 289",
          kAny,
          "flat",
          {},
          at_verbs([](const auto& planting) { plant_answers(planting, next_feed); })},
    Fault{"logits-row-padding",
          kAnswer,
          "the last column of the batch is answered, padding or not",
          "tt-forge-onnx 384",
          kAny,
          "padded-right",
          {},
          at_verbs([](const auto& planting) { plant_answers(planting, last_column); })},
    Fault{"mask-pad-lost-left",
          kPadding,
          "padding before a row is seen in decode",
          "C2C 19, DeepSpeed 3960",
          kAny,
          "padded-left",
          {.layers = true},
          PlanFault{padding_seen}},
    Fault{"mask-pad-lost-right",
          kPadding,
          "padding between feeds is seen in decode",
          "class of DeepSpeed 3960",
          kAny,
          "padded-right",
          {.layers = true},
          PlanFault{padding_seen}},
    Fault{"mask-empty-row-nan",
          kPadding,
          "rows of padding, which see nothing, leak into the layers above",
          "pytorch 103749",
          {Feature::two_layers},
          "padded-left",
          {},
          at_sites(SiteSet().with(Site::attention),
                   [](const auto& tensor, const FaultStep& step) { empty_rows(tensor, step); })},
    Fault{"finish-still-fed",
          kMembers,
          "a sequence that is left out of the next step is fed all the same",
          "mistral-inference 270",
          kAny,
          "flat",
          {},
          at_verbs([](const auto& planting) { plant_still_fed(planting); })},
    Fault{"batch-meta-stale",
          kMembers,
          "when a sequence leaves, the positions of the others are not moved up",
          "mlx-vlm 1889",
          {Feature::positions},
          "flat",
          {},
          at_verbs([](const auto& planting) { plant_positions_not_filtered(planting); })},
};

}  // namespace

std::span<const Fault> batch_faults() { return kFaults; }

}  // namespace kvcheck
