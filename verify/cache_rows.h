// SPDX-License-Identifier: MIT
// What lies in a cache after each feed: every K/V row by layer and slot, who wrote it, and where it
// stands.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/cache_kind.h"
#include "engine/model.h"

namespace kvcheck {

// A row that is held, as it is read.
struct CachedRow {
  int layer = 0;  // whose store it lies in
  int slot = 0;
  int position = 0;         // of its token
  int written_in_step = 0;  // feed, from 0
  int written_by_layer = 0;
  std::vector<double> key = {};    // [kv_heads, head_size]
  std::vector<double> value = {};  // likewise
};

struct CacheStep {
  int step = 0;                         // feed, from 0
  std::vector<int> tokens = {};         // that were fed
  std::vector<int> rows_of_layer = {};  // [layers]: rows held
  std::int64_t bytes = 0;               // that the engine says it holds
  std::vector<CachedRow> rows = {};     // by layer, then by position; of the layers asked for
};

struct CacheRowsQuestion {
  std::vector<int> tokens = {};
  std::vector<int> schedule = {};  // feed lengths, the tokens in all
  CacheKind kind = {};
  ScalarKind scalar = ScalarKind::f32;
  std::function<bool(int layer)> layers = [](int) { return true; };
};

// Feeds the tokens to the built-in engine in row arithmetic and shows every step in turn. Throws
// Error for tokens that the model does not take.
void show_cache_rows(const Model<float>& model, const CacheRowsQuestion& question,
                     const std::function<void(const CacheStep&)>& show);

}  // namespace kvcheck
