// SPDX-License-Identifier: MIT
// Question by question, layer by layer.
#include "verify/audit_plan.h"

#include <fmt/format.h>

#include <functional>
#include <utility>

#include "verify/runs.h"

namespace kvcheck {
namespace {

struct Plans {
  const Config& config;
  const StepPlan& right;
  const StepPlan& executed;
  PlannedFeeds feeds;
  std::span<const ExpectedRow> rows;

  [[nodiscard]] const PlannedFeed& feed(const ExpectedRow& row) const {
    return feeds[static_cast<std::size_t>(row.feed)];
  }
  // A row's name among all that are fed.
  [[nodiscard]] std::string name(const ExpectedRow& row) const {
    return feeds.size() == 1 ? fmt::format("row {}", row.held)
                             : fmt::format("row {} of feed {}", row.held, row.feed + 1);
  }
};

std::string instead(std::string_view what, int got, int expected) {
  return fmt::format("{} {} where {} was expected", what, got, expected);
}

// Asks each layer for what is wrong there; empty text: nothing.
using OfLayer = std::function<std::string(int layer, std::int64_t& compared)>;
PlanFinding ask_layers(std::string_view question, int layers, const OfLayer& ask) {
  PlanFinding finding{.question = question};
  int wrong = 0;
  for (int l = 0; l < layers; ++l) {
    std::string text = ask(l, finding.compared);
    if (text.empty()) continue;
    if (wrong++ > 0) continue;
    finding.layer = l;
    finding.wrong = std::move(text);
  }
  if (wrong == layers) finding.layer = -1;
  return finding;
}

// Of the rows that are fed, where the layer names its own.
std::string wrong_positions(const Plans& plans, int layer, std::int64_t& compared) {
  const StepPlan& plan = plans.executed;
  if (plan.positions_of_layer.empty()) return {};
  const int list = plan.positions_of_layer[static_cast<std::size_t>(layer)];
  const RowPositions& of = plan.positions[static_cast<std::size_t>(list)];
  for (std::size_t r = 0; r < plans.rows.size(); ++r) {
    const ExpectedRow& row = plans.rows[r];
    compared += 2;
    if (of.query[r] != row.position) {
      return fmt::format("{}, query: {}", plans.name(row),
                         instead("position", of.query[r], row.position));
    }
    if (of.key[r] != row.position) {
      return fmt::format("{}, key: {}", plans.name(row),
                         instead("position", of.key[r], row.position));
    }
  }
  return {};
}

// Of the keys that are seen, where scores depend on them (ALiBi).
std::string wrong_distances(const Plans& plans, int layer, std::int64_t& compared) {
  const SlotView& view = view_of(plans.executed, layer);
  if (view.positions.empty()) return {};
  for (std::size_t r = 0; r < plans.rows.size(); ++r) {
    const ExpectedRow& row = plans.rows[r];
    const std::span<const int> got = view.positions_of(static_cast<int>(r));
    const std::span<const SeenRow> seen =
        row.sees.subspan(static_cast<std::size_t>(first_seen(plans.config, layer, row)));
    if (got.size() != seen.size()) return {};  // other rows are seen: no matter of positions
    for (std::size_t i = 0; i < got.size(); ++i) {
      ++compared;
      if (got[i] == seen[i].position) continue;
      return fmt::format("{}, key {} that it sees: {}", plans.name(row), i,
                         instead("position", got[i], seen[i].position));
    }
  }
  return {};
}

PlanFinding compare_positions(const Plans& plans) {
  PlanFinding finding{.question = "position"};
  for (std::size_t r = 0; r < plans.rows.size(); ++r) {
    const int position = plans.executed.rows[r].position;
    ++finding.compared;
    if (position == plans.rows[r].position || !finding.wrong.empty()) continue;
    finding.wrong = fmt::format("{}: {}", plans.name(plans.rows[r]),
                                instead("position", position, plans.rows[r].position));
  }
  if (!finding.wrong.empty()) return finding;
  PlanFinding by_layer =
      ask_layers("position", plans.config.layers, [&](int layer, std::int64_t& compared) {
        std::string wrong = wrong_positions(plans, layer, compared);
        return wrong.empty() ? wrong_distances(plans, layer, compared) : wrong;
      });
  by_layer.compared += finding.compared;
  return by_layer;
}

std::string place(int slot) {
  return slot == kNowhere ? "stored nowhere" : fmt::format("slot {}", slot);
}

PlanFinding compare_slots(const Plans& plans) {
  return ask_layers("slot", plans.config.layers, [&](int layer, std::int64_t& compared) {
    for (std::size_t r = 0; r < plans.rows.size(); ++r) {
      const ExpectedRow& row = plans.rows[r];
      const int got = written_slot(plans.executed, layer, static_cast<int>(r));
      const int expected = slot_of(plans.feed(row), layer, row.held);
      ++compared;
      if (got != expected) {
        return fmt::format("{}: {} where slot {} was expected", plans.name(row), place(got),
                           expected);
      }
    }
    return std::string();
  });
}

// The newest row of a sequence, up to `last`, that lies in a slot; -1 if none does.
int row_in(const PlannedFeed& feed, int layer, int slot, int last) {
  for (int row = last; row >= 0; --row) {
    if (slot_of(feed, layer, row) == slot) return row;
  }
  return -1;
}

std::string wrong_view(const Plans& plans, int layer, std::size_t r, std::int64_t& compared) {
  const ExpectedRow& row = plans.rows[r];
  const PlannedFeed& feed = plans.feed(row);
  std::vector<int> expected;
  for (int seen = first_seen(plans.config, layer, row); seen <= row.held; ++seen) {
    expected.push_back(seen);
  }
  std::vector<int> got;
  std::string foreign;
  for (const int slot : view_of(plans.executed, layer).of(static_cast<int>(r))) {
    got.push_back(row_in(feed, layer, slot, row.held));
    if (got.back() < 0 && foreign.empty()) foreign = fmt::format(" (slot {} holds none)", slot);
  }
  compared += static_cast<std::int64_t>(expected.size());
  if (got == expected) return {};
  std::erase(got, -1);
  return fmt::format("{} sees row{} {}{} where {} {} expected", plans.name(row),
                     got.size() == 1 ? "" : "s", got.empty() ? "none" : runs_text(got), foreign,
                     runs_text(expected), expected.size() == 1 ? "was" : "were");
}

PlanFinding compare_views(const Plans& plans) {
  return ask_layers("visible rows", plans.config.layers, [&](int layer, std::int64_t& compared) {
    for (std::size_t r = 0; r < plans.rows.size(); ++r) {
      std::string wrong = wrong_view(plans, layer, r, compared);
      if (!wrong.empty()) return wrong;
    }
    return std::string();
  });
}

PlanFinding compare_stores(const Plans& plans) {
  return ask_layers("store", plans.config.layers, [&](int layer, std::int64_t& compared) {
    const auto l = static_cast<std::size_t>(layer);
    compared += 2;
    const int written = plans.executed.write_store[l];
    const int read = plans.executed.read_store[l];
    if (written != layer) {
      return fmt::format("its rows go to the store of layer {} where {} was expected", written,
                         layer);
    }
    if (read == layer) return std::string();
    return fmt::format("reads the store of layer {} where {} was expected", read, layer);
  });
}

PlanFinding compare_heads(const Plans& plans) {
  PlanFinding finding{.question = "K/V head"};
  for (std::size_t h = 0; h < plans.right.kv_head_of.size(); ++h) {
    const int got = plans.executed.kv_head_of[h];
    const int expected = plans.right.kv_head_of[h];
    ++finding.compared;
    if (got == expected || !finding.wrong.empty()) continue;
    finding.wrong = fmt::format("query head {}: {}", h, instead("K/V head", got, expected));
  }
  return finding;
}

// One of the constants of a layer's attention that is wrong.
std::string wrong_rule(const AttentionRule& got, const AttentionRule& expected) {
  if (got == expected) return {};
  const auto number = [](std::string_view what, auto found, auto right) {
    return fmt::format("{} {:.6g} where {:.6g} was expected", what, found, right);
  };
  if (got.score_scale != expected.score_scale) {
    return number("score scale", got.score_scale, expected.score_scale);
  }
  if (got.score_cap != expected.score_cap) {
    return number("cap of scores", got.score_cap, expected.score_cap);
  }
  if (got.rotary_base != expected.rotary_base) {
    return instead("rotary base number", got.rotary_base, expected.rotary_base);
  }
  if (got.head_norm != expected.head_norm) {
    return fmt::format("heads are {}normalised", got.head_norm ? "" : "not ");
  }
  return "other slopes than expected";
}

PlanFinding compare_constants(const Plans& plans) {
  const StepPlan& got = plans.executed;
  PlanFinding finding{.question = "constants", .compared = 2};
  if (got.embedding_scale != plans.right.embedding_scale) {
    finding.wrong = fmt::format("embedding scale {:.6g} where {:.6g} was expected",
                                got.embedding_scale, plans.right.embedding_scale);
  } else if (got.logit_cap != plans.right.logit_cap) {
    finding.wrong = fmt::format("cap of logits {:.6g} where {:.6g} was expected", got.logit_cap,
                                plans.right.logit_cap);
  }
  if (!finding.wrong.empty()) return finding;
  return ask_layers("constants", plans.config.layers, [&](int layer, std::int64_t& compared) {
    const auto l = static_cast<std::size_t>(layer);
    ++compared;
    return wrong_rule(got.rules[l], plans.right.rules[l]);
  });
}

PlanFinding compare_lengths(const Plans& plans) {
  PlanFinding finding{.question = "length"};
  for (std::size_t s = 0; s < plans.feeds.size(); ++s) {
    const int expected = plans.feeds[s].held + plans.feeds[s].tokens;
    const int got = plans.executed.length_after[s];
    ++finding.compared;
    if (got == expected || !finding.wrong.empty()) continue;
    finding.wrong = fmt::format("{} rows held afterwards where {} were expected", got, expected);
  }
  return finding;
}

}  // namespace

int first_seen(const Config& config, int layer, const ExpectedRow& row) {
  const int first = config.first_visible(layer, row.position);
  int seen = 0;
  while (row.sees[static_cast<std::size_t>(seen)].position < first) ++seen;
  return seen;
}

int slot_of(const PlannedFeed& feed, int layer, int row) {
  const int ring = feed.rings.empty() ? 0 : feed.rings[static_cast<std::size_t>(layer)];
  if (ring > 0) return row % ring;
  return feed.slots.empty() ? row : feed.slots[static_cast<std::size_t>(row)];
}

int written_slot(const StepPlan& plan, int layer, int row) {
  const SlotView& view = view_of(plan, layer);
  const auto r = static_cast<std::size_t>(row);
  return view.write.empty() ? plan.rows[r].slot : view.write[r];
}

const SlotView& view_of(const StepPlan& plan, int layer) {
  const int view = plan.view_of_layer[static_cast<std::size_t>(layer)];
  return plan.views[static_cast<std::size_t>(view)];
}

std::vector<PlanFinding> compare_plans(const Config& config, const StepPlan& right,
                                       const StepPlan& executed, PlannedFeeds feeds,
                                       std::span<const ExpectedRow> rows) {
  const Plans plans{config, right, executed, feeds, rows};
  return {compare_positions(plans), compare_slots(plans), compare_views(plans),
          compare_stores(plans),    compare_heads(plans), compare_constants(plans),
          compare_lengths(plans)};
}

}  // namespace kvcheck
