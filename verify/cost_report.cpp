// SPDX-License-Identifier: MIT
// Puts formulas, counts and tables together.
#include "verify/cost_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/cost_count.h"

namespace kvcheck {
namespace {

// Sizes of a growth table past the model's context.
constexpr int kSizesOnPaper = 2;

std::vector<Phase> phases_at(std::int64_t length, std::int64_t batch) {
  return {{.tokens = length, .sequences = batch},
          {.held = length - 1, .sequences = batch},
          {.cached = false, .tokens = length, .sequences = batch}};
}

std::vector<std::string> phase_names(std::int64_t length) {
  return {fmt::format("prefill of {}", length), fmt::format("decode step at {}", length),
          fmt::format("uncached step at {}", length)};
}

PhaseCost cost_of(const Config& config, const CostQuestion& question, bool norms,
                  const Phase& phase) {
  PhaseCost cost{.phase = phase, .work = work_of(config, phase)};
  Count weights = weights_read(config, phase);
  if (!norms) weights = weights - parameter_count(config, Part::norms);
  const RowTraffic rows = row_traffic(config, phase);
  const Count row = Count(2) * config.kv_width() * question.number_bytes;
  cost.weight_bytes = weights * question.number_bytes;
  cost.row_bytes_read = rows.read * row;
  cost.row_bytes_written = rows.written * row;
  return cost;
}

// Of counting all phases at this length; the rows before a decode step are computed, too.
Count work_at(const Config& config, std::int64_t length, std::int64_t batch) {
  Count all;
  for (const Phase& phase : phases_at(length, batch)) {
    all += work_of(config, phase).total().multiply_adds();
  }
  return all * 2;
}

// The longest phases that are not too much to count; 0: none.
std::int64_t countable_length(const Config& config, std::int64_t length, std::int64_t batch) {
  length = std::min<std::int64_t>(length, config.context);
  while (length > 0 && work_at(config, length, batch) > kCountedMax) length /= 2;
  return length;
}

void count_phases(const Model<float>& model, CostReport& report) {
  const Config& config = model.config;
  const CostQuestion& question = report.question;
  // Every sequence has a cache with room for the whole context.
  const bool small = parameter_count(config) <= kCountedWeights &&
                     question.batch <= kCountedWeights &&
                     cache_bytes(config, config.context, 1) * question.batch <= kCountedWeights;
  if (!small) return;
  const std::int64_t length = countable_length(config, question.context, question.batch);
  if (length == 0) return;
  WorkCounter counter(model);
  report.counted_at = length;
  const std::vector<Phase> phases = phases_at(length, question.batch);
  for (std::size_t i = 0; i < phases.size(); ++i) {
    const CountedPhase counted = counter.count(phases[i]);
    report.counts_agree &= counted.work == work_of(config, phases[i]) &&
                           counted.rows == row_traffic(config, phases[i]);
    if (length == question.context) report.phases[i].counted = counted.work;
  }
}

GrowthRow growth_at(const Config& config, const CostQuestion& question, std::int64_t rows) {
  GrowthRow row{.rows = rows, .on_paper = rows > config.context, .held = {}};
  for (const CacheKind& kind : grown_kinds()) {
    const CacheBytes bytes = cache_kind_bytes(config, kind, rows, question.number_bytes);
    // Of whole blocks nobody else can use the rest.
    row.held.push_back((kind.layout == CacheLayout::paged ? bytes.taken : bytes.held) *
                       question.batch);
  }
  return row;
}

// 1, 2, 4 ... and `most`.
std::vector<std::int64_t> doubling(std::int64_t most) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = 1; size < most; size *= 2) sizes.push_back(size);
  sizes.push_back(most);
  return sizes;
}

// Up to the context of the model and the one that was asked for; then beyond both, on paper.
std::vector<GrowthRow> growth_of(const Config& config, const CostQuestion& question) {
  std::vector<std::int64_t> sizes = doubling(config.context);
  const std::int64_t asked = question.context;
  if (asked > config.context) {
    sizes.push_back(asked);
  } else {
    if (!std::ranges::binary_search(sizes, asked)) sizes.push_back(asked);
    std::int64_t size = config.context;
    for (int i = 0; i < kSizesOnPaper; ++i) sizes.push_back(size *= 2);
  }
  std::ranges::sort(sizes);
  std::vector<GrowthRow> rows;
  for (const std::int64_t size : sizes) rows.push_back(growth_at(config, question, size));
  return rows;
}

void compare_runs(const Config& config, CostReport& report) {
  const CostQuestion& question = report.question;
  for (const std::int64_t tokens : doubling(question.context)) {
    report.runs.push_back({tokens, run_work(config, tokens, question.batch)});
  }
  // The difference only grows, so that it is there by the second token or at no other one.
  for (std::int64_t n = 1; n <= std::min<std::int64_t>(question.context, 2); ++n) {
    const RunWork work = run_work(config, n, question.batch);
    if (report.pays_from || work.cached >= work.uncached) continue;
    report.pays_from = n;
  }
}

}  // namespace

std::vector<CacheKind> grown_kinds() {
  return {{},
          {.layout = CacheLayout::ring},
          {.layout = CacheLayout::paged, .block = kCostBlockRows},
          {.format = RowFormat::f16},
          {.format = RowFormat::int8}};
}

CostReport make_cost_report(const Config& config, const Model<float>* model,
                            const CostQuestion& question) {
  CostReport report{.question = question, .config = config};
  report.runnable = model != nullptr;
  const std::vector<std::string> names = phase_names(question.context);
  for (const Phase& phase : phases_at(question.context, question.batch)) {
    report.phases.push_back(cost_of(config, question, model != nullptr, phase));
    report.phases.back().name = names[report.phases.size() - 1];
  }
  if (model != nullptr) count_phases(*model, report);
  for (CacheKind kind : cache_kinds()) {
    if (kind.layout == CacheLayout::paged) kind.block = kCostBlockRows;
    CacheBytes bytes = cache_kind_bytes(config, kind, question.context, question.number_bytes);
    bytes = {bytes.held * question.batch, bytes.taken * question.batch};
    report.kinds.push_back({kind, bytes});
  }
  report.growth = growth_of(config, question);
  compare_runs(config, report);
  return report;
}

}  // namespace kvcheck
