// SPDX-License-Identifier: MIT
// Reading caches while they are filled.
#include "verify/cache_rows.h"

#include <map>
#include <span>
#include <utility>

#include "engine/builtin.h"
#include "verify/audit_plan.h"

namespace kvcheck {
namespace {

struct Writer {
  int step;
  int layer;
};
using Writers = std::map<std::pair<int, int>, Writer>;  // by layer of the store, and slot

// Who wrote what, by the plan that was carried out.
void note_writers(const StepPlan& plan, int step, Writers& writers) {
  for (int layer = 0; layer < static_cast<int>(plan.write_store.size()); ++layer) {
    const int store = plan.write_store[static_cast<std::size_t>(layer)];
    for (int row = 0; row < static_cast<int>(plan.rows.size()); ++row) {
      writers[{store, written_slot(plan, layer, row)}] = {step, layer};
    }
  }
}

template <Scalar T>
CachedRow row_at(const KvCache<T>& cache, int layer, int row, const Writers& writers) {
  const KvStore<T>& store = cache.store();
  std::vector<T> key(static_cast<std::size_t>(store.row()));
  std::vector<T> value(key.size());
  const int slot = cache.slot(layer, row);
  store.read(layer, slot, key.data(), value.data());
  const Writer& writer = writers.at({layer, slot});
  return {.layer = layer,
          .slot = slot,
          .position = cache.position(row),
          .written_in_step = writer.step,
          .written_by_layer = writer.layer,
          .key = {key.begin(), key.end()},
          .value = {value.begin(), value.end()}};
}

template <Scalar T>
void show_rows(const Model<float>& model, const CacheRowsQuestion& question,
               const std::function<void(const CacheStep&)>& show) {
  Builtin<T> engine(model, Arithmetic::row, question.kind);
  const SequenceId id = engine.open();
  Writers writers;
  Logits logits;
  std::span<const int> left(question.tokens);
  for (int step = 0; step < static_cast<int>(question.schedule.size()); ++step) {
    const auto count = static_cast<std::size_t>(question.schedule[static_cast<std::size_t>(step)]);
    engine.feed(id, left.first(count), Rows::last, logits);
    note_writers(engine.plan(), step, writers);
    CacheStep found{.step = step, .tokens = {left.begin(), left.begin() + question.schedule[step]}};
    left = left.subspan(count);
    const KvCache<T>& cache = engine.cache(id);
    for (int layer = 0; layer < model.config.layers; ++layer) {
      found.rows_of_layer.push_back(cache.length() - cache.oldest_row(layer));
      if (!question.layers(layer)) continue;
      for (int row = cache.oldest_row(layer); row < cache.length(); ++row) {
        found.rows.push_back(row_at(cache, layer, row, writers));
      }
    }
    found.bytes = engine.held(id).bytes;
    show(found);
  }
}

}  // namespace

void show_cache_rows(const Model<float>& model, const CacheRowsQuestion& question,
                     const std::function<void(const CacheStep&)>& show) {
  if (question.scalar == ScalarKind::f32) return show_rows<float>(model, question, show);
  show_rows<double>(model, question, show);
}

}  // namespace kvcheck
