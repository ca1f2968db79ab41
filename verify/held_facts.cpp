// SPDX-License-Identifier: MIT
// Looks at what sequences hold.
#include "verify/held_facts.h"

#include <algorithm>
#include <vector>

#include "engine/error.h"
#include "verify/builtin_inside.h"
#include "verify/held_bytes.h"

namespace kvcheck {
namespace {

using When = std::function<std::string()>;

// The built-in engine finds out whenever it is asked what it holds; others may not look.
Held held_of(Engine& engine, SequenceId sequence, bool looks, Facts& facts) {
  try {
    const Held held = engine.held(sequence);
    if (looks) facts.expect(Invariant::memory, {});
    return held;
  } catch (const EngineError& error) {
    if (!looks) throw;
    facts.expect(Invariant::memory, error.what());
    throw EngineError(facts.note);  // what was wrong first
  }
}

// Rows that a layer holds: of a ring the last ones of its window, less those rolled back.
int rows_of_layer(const Config& config, const EngineSetup& setup, int layer, const Holding& must) {
  const int length = static_cast<int>(must.positions.size());
  const int window = config.windows.empty() ? 0 : config.windows[static_cast<std::size_t>(layer)];
  if (setup.cache.layout != CacheLayout::ring || window == 0) return length;
  return length - std::min(length, std::max(0, must.peak - window));
}

// Reads the store: an engine's own count of rows is one for all layers.
template <Scalar T>
void expect_layers(Builtin<T>& engine, SequenceId sequence, const Config& config,
                   const EngineSetup& setup, const Holding& must, const When& when, Facts& facts) {
  const KvCache<T>& cache = engine.cache(sequence);
  for (int layer = 0; layer < config.layers; ++layer) {
    const int expected = rows_of_layer(config, setup, layer, must);
    const int length = static_cast<int>(must.positions.size());
    int got = 0;
    for (int row = length - expected; row < std::min(length, cache.length()); ++row) {
      got += cache.store().holds(layer, cache.slot(layer, row)) ? 1 : 0;
    }
    const auto where = [&] { return fmt::format("in layer {} {}", layer, when()); };
    facts.expect(Invariant::layers, where, expected, got);
  }
}

void expect_places(const Engine& engine, SequenceId sequence, const Holding& must, const When& when,
                   Facts& facts) {
  Places places = engine.places(sequence);
  const std::size_t rows = std::min(places.positions.size(), must.positions.size());
  std::size_t row = 0;
  while (row < rows && places.positions[row] == must.positions[row]) ++row;
  const auto at = [&] { return fmt::format("at row {} {}", row, when()); };
  facts.expect(Invariant::positions, at, row < must.positions.size() ? must.positions[row] : -1,
               row < places.positions.size() ? places.positions[row] : -1);
  std::ranges::sort(places.slots);
  const auto again = std::unique(places.slots.begin(), places.slots.end());
  facts.expect(Invariant::slots, when, 0, places.slots.end() - again);
}

}  // namespace

void expect_held(Engine& engine, SequenceId sequence, const Config& config,
                 const EngineSetup& setup, const Holding& holding, const When& when, Facts& facts) {
  Builtin<float>* const single = builtin_inside<float>(engine);
  Builtin<double>* const wide = single != nullptr ? nullptr : builtin_inside<double>(engine);
  const Held held = held_of(engine, sequence, single != nullptr || wide != nullptr, facts);
  const int rows = static_cast<int>(holding.positions.size());
  facts.expect(Invariant::length, when, rows, held.rows);
  facts.expect(Invariant::next_position, when, holding.next_position, held.next_position);
  facts.expect(Invariant::bytes, when, held_bytes(config, setup, rows), held.bytes);
  if (!engine.hello().can.places) return;  // nor is it looked inside
  expect_places(engine, sequence, holding, when, facts);
  if (single != nullptr) expect_layers(*single, sequence, config, setup, holding, when, facts);
  if (wide != nullptr) expect_layers(*wide, sequence, config, setup, holding, when, facts);
}

}  // namespace kvcheck
