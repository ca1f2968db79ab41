// SPDX-License-Identifier: MIT
// Wrong answers to: which slots may each query see?
#include <array>
#include <limits>

#include "verify/fault_rows.h"
#include "verify/faults.h"

namespace kvcheck {
namespace {

constexpr std::string_view kQuestion = "rows that a query sees";

int count(const ViewRows& seen) { return static_cast<int>(seen.size()); }

// The index of the oldest row that is seen; rows are seen from there on without a gap.
int oldest(const ViewRows& seen, int row, const FaultStep& step) {
  return index_of(step, row) - (count(seen) - 1);
}

void keep_oldest(ViewRows& seen, int rows) {
  seen.resize(static_cast<std::size_t>(std::min(count(seen), rows)));
}

// ---- Too little

void upper_left(ViewRows& seen, int, int row, const FaultStep& step) {
  if (step.warm(row)) keep_oldest(seen, step.place(row) + 1);
}

void upper_left_chunk(ViewRows& seen, int, int row, const FaultStep& step) {
  if (step.warm(row) && step.tokens(row) > 1) keep_oldest(seen, step.place(row) + 1);
}

void drop_newest(ViewRows& seen, int, int row, const FaultStep& step) {
  if (step.warm(row)) keep_oldest(seen, std::max(0, count(seen) - 1 - step.place(row)));
}

void not_itself(ViewRows& seen, int, int, const FaultStep&) { seen.pop_back(); }

void chunk_apart(ViewRows& seen, int, int row, const FaultStep& step) {
  if (!step.warm(row)) return;
  const auto others = std::min(step.place(row), count(seen) - 1);
  seen.erase(seen.end() - 1 - others, seen.end() - 1);
}

void oldest_lost(ViewRows& seen, int, int row, const FaultStep& step) {
  if (!step.warm(row)) return;
  seen.erase(seen.begin(), seen.begin() + std::min(step.amount(), count(seen) - 1));
}

void previous_lost(ViewRows& seen, int, int row, const FaultStep& step) {
  const int place = count(seen) - 1 - step.amount();
  if (step.warm(row) && place >= 0) seen.erase(seen.begin() + place);
}

void hole(ViewRows& seen, int, int row, const FaultStep& step) {
  const int place = step.amount() - oldest(seen, row, step);
  if (step.warm(row) && place >= 0 && place < count(seen) - 1) seen.erase(seen.begin() + place);
}

void itself_only(ViewRows& seen, int, int row, const FaultStep& step) {
  if (step.warm(row)) seen.erase(seen.begin(), seen.end() - 1);
}

// Of the rows after the onset, each sees only itself.
void extent_frozen(ViewRows& seen, int, int row, const FaultStep& step) {
  const int extent = step.at.onset.value_or(1) - oldest(seen, row, step);
  if (!step.warm(row) || extent >= count(seen) - 1) return;
  seen.erase(seen.begin() + std::max(0, extent), seen.end() - 1);
}

void padding_by_token(StepPlan& plan, const FaultStep& step,
                      const std::vector<SequenceTokens>& tokens) {
  const auto hide = [&](ViewRows& seen, int, int row, const FaultStep&) {
    const auto sequence =
        static_cast<std::size_t>(plan.rows[static_cast<std::size_t>(row)].sequence);
    int index = oldest(seen, row, step);
    std::erase_if(seen, [&](const ViewRow&) {
      return tokens[sequence][static_cast<std::size_t>(index++)] == step.amount();
    });
  };
  ViewSources unused;
  rewrite_seen(plan, step, hide, unused);
}

// The oldest row is hidden from one query head.
void hidden_from_a_head(const auto& scores, const FaultStep& step) {
  using T = std::remove_cvref_t<decltype(scores.at(0, 0))>;
  if (!step.in_layer(scores.layer) || !step.warm(scores.row)) return;
  if (step.amount() >= scores.rows || scores.columns < 2) return;
  scores.at(step.amount(), 0) = -std::numeric_limits<T>::infinity();
}

// ---- Too much

// Sees so many rows of its feed that come after it.
void see_later(ViewRows& seen, int row, int rows, const FaultStep& step) {
  const ViewRow own = seen.back();
  const int behind = step.tokens(row) - 1 - step.place(row);
  for (int later = 1; later <= std::min(rows, behind); ++later) {
    seen.push_back({own.slot, own.position + later, row + later});
  }
}

void skip_when_cached(ViewRows& seen, int, int row, const FaultStep& step) {
  see_later(seen, row, step.tokens(row), step);
}

void chunk_sees_itself(ViewRows& seen, int, int row, const FaultStep& step) {
  if (step.warm(row)) see_later(seen, row, step.tokens(row), step);
}

void next_seen(ViewRows& seen, int, int row, const FaultStep& step) {
  see_later(seen, row, 1, step);
}

// So many slots from that of a row's index on, as far as the buffer goes.
void see_tail(ViewRows& seen, int index, int rows, int source, const FaultStep& step) {
  const int left = step.config.context - index;
  const ViewRow last = seen.back();
  for (int i = 1; i <= std::min(rows, left); ++i) {
    seen.push_back({last.slot, last.position + i, source});
  }
}

void static_tail(ViewRows& seen, int, int row, const FaultStep& step) {
  see_tail(seen, index_of(step, row) + 1, step.config.context, kZeros, step);
}

// Behind the last row of the chunk, where the rest of the prompt will be.
void extent_future(ViewRows& seen, int, int row, const FaultStep& step) {
  if (step.tokens(row) < 2) return;
  see_later(seen, row, step.tokens(row), step);
  see_tail(seen, step.held(row) + step.tokens(row), step.amount(), kLeftovers, step);
}

// The only row that is seen is so with all weight, however often.
void row_twice(ViewRows& seen, int, int row, const FaultStep& step) {
  const int place = count(seen) - 1 - step.amount();
  if (step.warm(row) && place >= 0 && count(seen) > 1) {
    const ViewRow again = seen[static_cast<std::size_t>(place)];
    seen.insert(seen.begin() + place, again);
  }
}

void backwards(ViewRows& seen, int, int, const FaultStep&) { std::ranges::reverse(seen); }

void rotated(ViewRows& seen, int, int, const FaultStep&) {
  std::rotate(seen.begin(), seen.begin() + 1, seen.end());
}

// The cap is applied to scores that are masked already, and makes them minus the cap.
void plant_cap_after_mask(const auto& planting) {
  constexpr RowFault kAllSeen = seen_from_sources<skip_when_cached>;
  plant_rows(planting, kAllSeen, -planting.config.attention_cap);
}

constexpr std::array kFaults{
    Fault{"mask-upper-left",
          kQuestion,
          "rows of a further feed see as many of the oldest rows as if they were the first ones",
          "executorch 21749, x-transformers 187",
          {},
          "flat",
          {.layers = true, .onsets = {1, 2, 3}},
          PlanFault{seen_in_slots<upper_left>}},
    Fault{"mask-upper-left-chunk",
          kQuestion,
          "rows of a further feed of several tokens see the oldest rows, decode is right",
          "sparkinfer 3",
          {},
          "flat",
          {.layers = true},
          PlanFault{seen_in_slots<upper_left_chunk>}},
    Fault{"mask-skip-when-cached",
          kQuestion,
          "no row of a feed is hidden from those before it",
          "TinyLLM 18",
          {},
          "flat",
          {.layers = true},
          seen_with_sources<skip_when_cached>()},
    Fault{"mask-chunk-sees-itself",
          kQuestion,
          "the rows of a further feed see each other, later ones too",
          "mlx-node 24",
          {},
          "flat",
          {.layers = true},
          seen_with_sources<chunk_sees_itself>()},
    Fault{"mask-next-seen",
          kQuestion,
          "each row sees the one after it",
          "class of diagonals off by one",
          {},
          "flat",
          {.layers = true},
          seen_with_sources<next_seen>()},
    Fault{"mask-not-itself",
          kQuestion,
          "a row does not see itself",
          "class of diagonals off by one",
          {},
          "flat",
          {.layers = true},
          PlanFault{seen_in_slots<not_itself>}},
    Fault{"mask-extent-future",
          kQuestion,
          "the keys of a chunk reach into rows of the prompt that are not written yet",
          "nano-vllm 213",
          {},
          "flat",
          {.layers = true, .amounts = {1, 2}},
          seen_with_sources<extent_future>()},
    Fault{"mask-static-tail",
          kQuestion,
          "the empty rest of a static buffer takes part with scores of 0",
          "transformers 45940, 30400",
          {},
          "flat",
          {.layers = true},
          seen_with_sources<static_tail>()},
    Fault{"mask-drop-newest",
          kQuestion,
          "a feed sees the rows that were held before it, and none of its own",
          "mobius 365",
          {},
          "flat",
          {.layers = true, .onsets = {1, 2, 3}},
          PlanFault{seen_in_slots<drop_newest>}},
    Fault{"mask-chunk-apart",
          kQuestion,
          "the rows of a further feed do not see each other",
          "class of decode steps fed together",
          {},
          "flat",
          {.layers = true},
          PlanFault{seen_in_slots<chunk_apart>}},
    Fault{"mask-itself-only",
          kQuestion,
          "a further row sees itself only, and nothing of the cache",
          "class of caches that are not read",
          {},
          "flat",
          {.layers = true, .onsets = {1, 2, 3}},
          PlanFault{seen_in_slots<itself_only>}},
    Fault{"mask-oldest-lost",
          kQuestion,
          "the oldest rows are not seen",
          "class of extents off by one",
          {},
          "flat",
          {.layers = true, .onsets = {1, 2}, .amounts = {1, 2}},
          PlanFault{seen_in_slots<oldest_lost>}},
    Fault{"mask-previous-lost",
          kQuestion,
          "the row so many before the new one is not seen",
          "class of rows that come a step late",
          {},
          "flat",
          {.layers = true, .onsets = {1, 2}, .amounts = {1, 2}},
          PlanFault{seen_in_slots<previous_lost>}},
    Fault{"mask-hole",
          kQuestion,
          "one row in the middle is not seen",
          "onnxruntime-genai 2354",
          {},
          "flat",
          {.layers = true, .amounts = {1, 2}},
          PlanFault{seen_in_slots<hole>}},
    Fault{"mask-extent-frozen",
          kQuestion,
          "further rows see those of the prompt and themselves only",
          "class of masks made once",
          {},
          "flat",
          {.layers = true, .onsets = {1, 2, 3}},
          PlanFault{seen_in_slots<extent_frozen>}},
    Fault{"mask-row-twice",
          kQuestion,
          "a row is seen twice: the new one, or one so many before it",
          "textgen 4145",
          {},
          "flat",
          {.layers = true, .amounts = {0, 1, 2}},
          PlanFault{seen_in_slots<row_twice>}},
    Fault{"mask-pad-by-token",
          kQuestion,
          "a token whose id is that of the padding is hidden",
          "onnxruntime-genai 1694",
          {},
          "flat",
          {.amounts = {0, 1, 2}},
          by_tokens<padding_by_token>()},
    Fault{"mask-one-head",
          "scores",
          "the oldest row is hidden from one query head",
          "class of masks by head",
          {},
          "flat",
          {.layers = true, .onsets = {1, 2}, .amounts = {0, 1}},
          at_sites(
              SiteSet().with(Site::scores),
              [](const auto& tensor, const FaultStep& step) { hidden_from_a_head(tensor, step); })},
    Fault{"softcap-after-mask",
          "scores",
          "the cap is applied to masked scores, so that later rows keep some weight",
          "flashinfer 350",
          {Feature::score_cap},
          "flat",
          {.layers = true},
          at_verbs([](const auto& planting) { plant_cap_after_mask(planting); })},
    Fault{"mask-order-reversed",
          kQuestion,
          "rows are seen in the opposite order",
          "class of orders of keys",
          {},
          "flat",
          {.layers = true},
          PlanFault{seen_in_slots<backwards>},
          Expected::equivalent,
          "a weighted mean does not depend on the order of its terms, rounding apart"},
    Fault{"mask-order-rotated",
          kQuestion,
          "the oldest row is seen last",
          "class of orders of keys",
          {},
          "flat",
          {.layers = true},
          PlanFault{seen_in_slots<rotated>},
          Expected::equivalent,
          "a weighted mean does not depend on the order of its terms, rounding apart"},
};

}  // namespace

std::span<const Fault> mask_faults() { return kFaults; }

}  // namespace kvcheck
