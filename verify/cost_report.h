// SPDX-License-Identifier: MIT
// What `kvcheck cost` says of a model: its phases by formula and as counted, its cache, and whether
// the cache pays.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/cost.h"
#include "engine/model.h"

namespace kvcheck {

// Of the phases that are counted, together: less than a second.
inline constexpr std::int64_t kCountedMax = 400'000'000;  // multiply-adds
inline constexpr std::int64_t kCountedWeights = 4 << 20;  // numbers of the model

struct CostQuestion {
  std::int64_t context = 0;
  std::int64_t batch = 1;
  std::string scalar = "f32";
  int number_bytes = 4;
};

struct PhaseCost {
  std::string name = {};  // "prefill of 4"
  Phase phase = {};
  PhaseWork work = {};
  std::optional<PhaseWork> counted = {};
  Count weight_bytes = {};       // read
  Count row_bytes_read = {};     // of K/V rows
  Count row_bytes_written = {};  // likewise
};

// A kind of cache at the asked context, all sequences.
struct KindCost {
  CacheKind kind;
  CacheBytes bytes;
};

// A cache as it grows, all sequences.
struct GrowthRow {
  std::int64_t rows = 0;
  bool on_paper = false;    // past the model's context
  std::vector<Count> held;  // [grown_kinds()]
};

struct RunRow {
  std::int64_t tokens = 0;
  RunWork work;
};

struct CostReport {
  CostQuestion question = {};
  Config config = {};
  bool runnable = false;  // there are weights; else only what follows from shapes is known
  std::vector<PhaseCost> phases = {};
  // Tokens of the longest phases that were counted; fewer than asked: the phases above were not.
  std::int64_t counted_at = 0;
  bool counts_agree = true;  // of everything that was counted
  std::vector<KindCost> kinds = {};
  std::vector<GrowthRow> growth = {};
  std::vector<RunRow> runs = {};
  std::optional<std::int64_t> pays_from = {};  // tokens: the cached total is below the uncached one
};

// Rows of a block where none is asked for: small blocks waste little, and 16 is a usual size.
inline constexpr int kCostBlockRows = 16;
// The kinds of a growth table.
[[nodiscard]] std::vector<CacheKind> grown_kinds();

// `model` is null where there are no weights. Throws Error where a count passes 10^36.
[[nodiscard]] CostReport make_cost_report(const Config& config, const Model<float>* model,
                                          const CostQuestion& question);

}  // namespace kvcheck
