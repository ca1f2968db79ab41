// SPDX-License-Identifier: MIT
// Tables of work, bytes and times.
#include "reports/cost_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "reports/number_text.h"
#include "reports/text_table.h"

namespace kvcheck {
namespace {

std::string plural(std::int64_t count, std::string_view what) {
  return fmt::format("{} {}{}", grouped(count), what, count == 1 ? "" : "s");
}

std::string header(const CostReport& report, const std::string& model) {
  const Config& c = report.config;
  const CostQuestion& q = report.question;
  std::string text = fmt::format(
      "model    {}: {}, width {}, {} query and {} K/V heads of {}, MLP {}{}, vocabulary {}, "
      "context {}\n",
      model, plural(c.layers, "layer"), c.width, c.query_heads, c.kv_heads, c.head_size,
      c.mlp_width, gated(c.mlp) ? " (gated)" : "", c.vocabulary, c.context);
  text += fmt::format("asked    context {}, {}, {} ({} bytes a number){}\n", q.context,
                      plural(q.batch, "sequence"), q.scalar, q.number_bytes,
                      q.context > c.context ? "; past the model's context: on paper" : "");
  return text;
}

// ---- Shapes

// [2, 4, 8], the batch first where there is one.
std::string shape(std::int64_t batch, std::vector<std::int64_t> sizes) {
  if (batch > 1) sizes.insert(sizes.begin(), batch);
  return fmt::format("[{}]", fmt::join(sizes, ", "));
}

// Of keys that the queries of a phase see, in a layer without a window.
std::string scores_shape(const Config& c, const Phase& phase) {
  const Count pairs = visible_pairs(phase.held, phase.tokens, 0);
  std::string text = shape(phase.sequences, {c.query_heads, phase.tokens, phase.length()});
  if (phase.tokens > 1) {
    text += fmt::format(", {} of {} pairs", grouped(pairs),
                        grouped(Count(phase.tokens) * phase.length()));
  }
  return text;
}

std::string cache_shape(const Config& c, const Phase& phase) {
  if (!phase.cached) return "none";
  return fmt::format("{} -> {}", shape(phase.sequences, {phase.held, c.kv_heads, c.head_size}),
                     shape(phase.sequences, {phase.length(), c.kv_heads, c.head_size}));
}

std::string shapes(const CostReport& report) {
  const Config& c = report.config;
  TextTable table(4);
  std::vector<std::string> names{"shapes"};
  for (const PhaseCost& cost : report.phases) names.push_back(cost.name);
  table.add(names);
  const auto line = [&](const std::string& what, auto text_of) {
    std::vector<std::string> cells{what};
    for (const PhaseCost& cost : report.phases) cells.push_back(text_of(cost.phase));
    table.add(cells);
  };
  const auto rows = [&](const std::string& what, std::vector<std::int64_t> sizes) {
    line(what, [&](const Phase& phase) {
      std::vector<std::int64_t> all{phase.tokens};
      all.insert(all.end(), sizes.begin(), sizes.end());
      return shape(phase.sequences, all);
    });
  };
  rows("tokens", {});
  rows("embedded, residual", {c.width});
  rows("queries", {c.query_heads, c.head_size});
  rows("keys, values", {c.kv_heads, c.head_size});
  line("cached keys, values", [&](const Phase& phase) { return cache_shape(c, phase); });
  line("scores", [&](const Phase& phase) { return scores_shape(c, phase); });
  rows("MLP", {c.mlp_width});
  line("logits", [&](const Phase& phase) { return shape(phase.sequences, {1, c.vocabulary}); });
  std::string text = "\n" + table.text();
  const auto windows = std::ranges::count_if(c.windows, [](int window) { return window > 0; });
  if (windows > 0) {
    const int most = *std::ranges::max_element(c.windows);
    text += fmt::format("  {} of {} layers have a window: a query sees {} keys there at most\n",
                        windows, c.layers, most);
  }
  return text +
         "  a decode step feeds one token to a cache; an uncached one computes all rows anew, in "
         "the last layer\n  queries and what follows from them for the last row only\n";
}

// ---- Work

// Layers of equal work.
struct LayerGroup {
  std::vector<std::size_t> layers;
  Work work;
};

std::vector<LayerGroup> groups_of(const PhaseWork& work) {
  std::vector<LayerGroup> groups;
  for (std::size_t l = 0; l < work.layers.size(); ++l) {
    const auto known = std::ranges::find(groups, work.layers[l], &LayerGroup::work);
    if (known != groups.end()) {
      known->layers.push_back(l);
    } else {
      groups.push_back({{l}, work.layers[l]});
    }
  }
  return groups;
}

std::string group_name(const LayerGroup& group) {
  const std::size_t count = group.layers.size();
  const std::size_t first = group.layers.front();
  if (count == 1) return fmt::format("  layer {}", first);
  if (group.layers.back() - first == count - 1) {
    return fmt::format("  layers {} to {}, each", first, group.layers.back());
  }
  return fmt::format("  {} layers as {}, each", count, first);
}

std::vector<std::string> work_cells(const std::string& what, const Work& work, bool inside) {
  const auto cell = [&](Count count) {
    return inside && count == 0 ? std::string() : grouped(count);
  };
  return {what,
          cell(work.projections),
          cell(work.attention),
          cell(work.mlp),
          cell(work.output),
          grouped(work.multiply_adds()),
          grouped(work.rest)};
}

std::string counted_text(const Work& formula, const std::optional<Work>& counted) {
  if (!counted) return "-";
  return *counted == formula ? "equal" : fmt::format("{}", grouped(counted->multiply_adds()));
}

std::string work_table(const CostReport& report) {
  TextTable table;
  table.add({"multiply-adds", "projections", "attention", "MLP", "output", "all",
             "other operations", "counted"});
  for (const PhaseCost& cost : report.phases) {
    table.add({cost.name});
    const auto line = [&](const std::string& what, const Work& work, std::optional<Work> counted,
                          bool inside) {
      std::vector<std::string> cells = work_cells(what, work, inside);
      if (!report.runnable) cells.back() = "-";
      cells.push_back(counted_text(work, counted));
      table.add(cells);
    };
    for (const LayerGroup& group : groups_of(cost.work)) {
      std::optional<Work> counted;
      if (cost.counted) counted = cost.counted->layers[group.layers.front()];
      line(group_name(group), group.work, counted, true);
    }
    std::optional<Work> outside;
    std::optional<Work> total;
    if (cost.counted) {
      outside = cost.counted->outside;
      total = cost.counted->total();
    }
    line("  outside the layers", cost.work.outside, outside, true);
    line("  all", cost.work.total(), total, false);
  }
  std::string text = "\n" + table.text();
  if (report.counted_at == 0) return text + "  by formula only: nothing was counted\n";
  return text + fmt::format("  counted in the running engine at {}, by kind and layer: {}\n",
                            plural(report.counted_at, "token"),
                            report.counts_agree ? "equal to the formulas" : "NOT the formulas");
}

std::string formulas(const Config& c) {
  const Count projections = Count(c.width) * (Count(c.query_width()) + c.kv_width()) * 2;
  const int gates = gated(c.mlp) ? 3 : 2;
  TextTable table(3, "    ");
  table.add({"projections", "rows x 2 x width x (query width + K/V width)",
             fmt::format("= rows x {}", grouped(projections))});
  table.add({"attention", "pairs x 2 x query heads x head size",
             fmt::format("= pairs x {}", grouped(Count(2) * c.query_width()))});
  table.add({"MLP", fmt::format("rows x {} x width x MLP width", gates),
             fmt::format("= rows x {}", grouped(Count(gates) * c.width * c.mlp_width))});
  table.add({"output", "answered rows x width x vocabulary",
             fmt::format("= answered rows x {}", grouped(Count(c.width) * c.vocabulary))});
  return "  a layer computes, where a pair is a query and a key that it sees:\n" + table.text() +
         "  masked pairs are skipped: yes. A multiply-add is a product added to a sum in one of "
         "these;\n  norms, biases, positions, scales, caps, softmax, activations and residual sums "
         "are \"other\",\n  single, operations; comparisons, signs and conversions are not "
         "counted\n";
}

// ---- Bytes

std::string traffic(const CostReport& report) {
  TextTable table;
  table.add({"bytes moved", "weights read", "K/V read", "K/V written", "all"});
  for (const PhaseCost& cost : report.phases) {
    const Count all = cost.weight_bytes + cost.row_bytes_read + cost.row_bytes_written;
    const auto rows = [&](Count bytes) { return cost.phase.cached ? grouped(bytes) : "none"; };
    table.add({cost.name, grouped(cost.weight_bytes), rows(cost.row_bytes_read),
               rows(cost.row_bytes_written), grouped(all)});
  }
  std::string text = "\n" + table.text();
  return text +
         "  each weight once a step, each K/V row once for each query that sees it; no "
         "activations\n";
}

std::string kinds(const CostReport& report) {
  TextTable table;
  table.add({fmt::format("cache at {}", report.question.context), "bytes held", "set aside"});
  for (const KindCost& cost : report.kinds) {
    table.add({name(cost.kind), grouped(cost.bytes.held), grouped(cost.bytes.taken)});
  }
  const Config& c = report.config;
  const Count numbers = Count(2) * c.layers * c.kv_width();
  return "\n" + table.text() +
         fmt::format("  a token: 2 x {} layers x {} K/V heads x {} = {} numbers, {} bytes\n",
                     c.layers, c.kv_heads, c.head_size, grouped(numbers),
                     grouped(numbers * report.question.number_bytes));
}

std::string growth(const CostReport& report) {
  TextTable table;
  std::vector<std::string> names{"memory, positions"};
  for (const CacheKind& kind : grown_kinds()) names.push_back(name(kind));
  names.push_back("");
  table.add(names);
  for (const GrowthRow& row : report.growth) {
    std::vector<std::string> cells{grouped(row.rows)};
    for (const Count bytes : row.held) cells.push_back(grouped(bytes));
    cells.push_back(row.on_paper ? "on paper" : "");
    table.add(cells);
  }
  return "\n" + table.text() +
         "  bytes of all sequences; paged: of whole blocks. A ring is bounded by the windows\n";
}

std::string runs(const CostReport& report) {
  TextTable table;
  table.add({"multiply-adds, all tokens", "cached", "uncached", "uncached / cached"});
  for (const RunRow& run : report.runs) {
    const double ratio = run.work.uncached.approximate() / run.work.cached.approximate();
    table.add({grouped(run.tokens), grouped(run.work.cached), grouped(run.work.uncached),
               fmt::format("{:.2f}", ratio)});
  }
  std::string text = "\n" + table.text();
  if (!report.pays_from) return text + "  caching does not pay within one token\n";
  return text + fmt::format(
                    "  logits after every token, one step each. Caching pays, in multiply-adds, "
                    "from token {} on\n",
                    *report.pays_from);
}

}  // namespace

std::string cost_text(const CostReport& report, const std::string& model) {
  return header(report, model) + shapes(report) + work_table(report) + formulas(report.config) +
         traffic(report) + kinds(report) + growth(report) + runs(report);
}

namespace {

template <typename Time>
std::string claim(const std::vector<Time>& times, const std::string& model, std::string_view what,
                  double Time::*seconds) {
  const auto fit = fit_power(times, seconds);
  if (!fit) return "";
  return fmt::format(
      "  on this machine, for {}, from {} to {} tokens: the time of {} grows about as "
      "length^{:.2f}\n",
      model, fit->from, fit->to, what, fit->exponent);
}

// Less is within the noise of a machine that has other things to do.
constexpr double kFaster = 0.9;

// The first length from which on every measured cached step is the faster one.
std::string faster_from(const StepTimes& times) {
  int from = 0;
  for (const StepTime& step : times.steps) {
    if (!(step.cached < kFaster * step.uncached)) {
      from = 0;
    } else if (from == 0) {
      from = step.length;
    }
  }
  if (from == 0)
    return "  at the longest of these the cached step was not the faster one by a tenth\n";
  return fmt::format(
      "  of the lengths measured, the cached step was faster by a tenth or more from {} on\n",
      from);
}

}  // namespace

std::string step_times_text(const StepTimes& times, const std::string& model) {
  if (times.steps.empty()) {
    return fmt::format("\n  no time was taken: {}\n",
                       times.interrupted ? "interrupted" : "the time limit left every length out");
  }
  TextTable table;
  table.add({"time of a step, length", "cached", "uncached", "uncached / cached"});
  const auto text_of = [](double seconds) { return fmt::format("{:.1f} us", seconds * 1e6); };
  for (const StepTime& step : times.steps) {
    table.add({grouped(step.length), text_of(step.cached), text_of(step.uncached),
               fmt::format("{:.2f}", step.uncached / step.cached)});
  }
  std::string text = "\n" + table.text();
  if (!times.complete) text += "  the time limit left longer ones out\n";
  if (times.interrupted) text += "  interrupted: longer ones are left out\n";
  text += claim(times.steps, model, "a cached step", &StepTime::cached);
  text += claim(times.steps, model, "an uncached step", &StepTime::uncached);
  return text + faster_from(times);
}

std::string run_times_text(const RunTimes& times, const std::string& model) {
  TextTable table;
  table.add({"time of all tokens, length", "cached", "one forward", "a forward for each prefix"});
  const auto text_of = [](double seconds) { return fmt::format("{:.3f} ms", seconds * 1e3); };
  for (const RunTime& run : times.runs) {
    table.add({grouped(run.length), text_of(run.cached), text_of(run.forward),
               text_of(run.every_prefix)});
  }
  std::string text = "\n" + table.text();
  if (!times.complete) text += "  the time limit left longer ones out\n";
  if (times.interrupted) text += "  interrupted: longer ones are left out\n";
  text += claim(times.runs, model, "all cached steps", &RunTime::cached);
  text += claim(times.runs, model, "one forward", &RunTime::forward);
  return text + claim(times.runs, model, "a forward for each prefix", &RunTime::every_prefix);
}

}  // namespace kvcheck
