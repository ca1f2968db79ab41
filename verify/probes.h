// SPDX-License-Identifier: MIT
// The ways in which the promise of a cache is put to the test. Each probe walks prefixes, runs the
// engine, and hands what it measured to a sink; none of them judges.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/cache_kind.h"
#include "engine/model_file.h"
#include "engine/port.h"
#include "verify/invariants.h"
#include "verify/measure.h"
#include "verify/noise.h"
#include "verify/prefixes.h"
#include "verify/walk.h"

namespace kvcheck {

// What an engine is asked to compute in, and how it keeps its rows.
struct EngineSetup {
  ScalarKind scalar;
  Arithmetic arithmetic;
  CacheKind cache = {};
};

// An engine that runs a model, and what is needed to measure it.
struct Bench {
  const ModelData& model;
  ScalarKind scalar;
  Arithmetic arithmetic;
  CacheKind cache;
  std::uint64_t seed;  // of the noise floor's perturbations
  std::unique_ptr<Engine> engine;
  std::unique_ptr<NoiseMeter> noise;  // null: no floors
  double noise_seconds = 0;           // spent on floors so far
  InvariantCounts invariants = {};    // checked so far
  bool keep_rows = false;             // hand the rows themselves to the sink
};

// The model outlives the engine, which reads its weights.
using EngineFactory = std::function<std::unique_ptr<Engine>(const ModelData&, const EngineSetup&)>;

// Whether noise floors are measured.
enum class Floors { measured, none };

// The built-in engine.
[[nodiscard]] std::unique_ptr<Engine> builtin_engine(const ModelData& model,
                                                     const EngineSetup& setup);
// Throws EngineError for an engine that does not start.
[[nodiscard]] Bench make_bench(const ModelData& model, const EngineSetup& setup, std::uint64_t seed,
                               const EngineFactory& factory, Floors floors = Floors::measured);
// Throws EngineError, whatever the factory throws.
[[nodiscard]] std::unique_ptr<Engine> start_engine(const EngineFactory& factory,
                                                   const ModelData& model,
                                                   const EngineSetup& setup);

// What a probe is to run over.
struct Probe {
  const PrefixTree& tree;
  Scope scope = {};
  ScheduleChoice schedules = ScheduleChoice::standard;
  std::optional<Schedule> only_schedule = {};  // instead of those
  const std::atomic<bool>* stop = nullptr;     // ends the walk early when it becomes true
  OracleChoice oracle = OracleChoice::per_prefix;
};

using Sink = std::function<void(const Measured&)>;

// Where a probe was when the engine failed; at its first prefix if not yet anywhere.
struct ProbeFailure {
  std::vector<int> tokens;
  Schedule schedule;
  std::string what;
};

// Thrown out of a probe to end it early.
struct Stopped {};

// Each prefix: the row of a cached step against the oracle's.
void probe_prefixes(Bench& bench, const Probe& probe, const Sink& sink);
// Each prefix under each of its schedules: every row of every feed against the oracle's row of that
// length. Prefixes beyond kAllCutsLengthMax that a longer one continues are not decoded again by
// the standard choice: the longer one's decode runs the very same feeds.
void probe_schedules(Bench& bench, const Probe& probe, const Sink& sink);
// Each longest prefix: row i of one full forward against the own forward of its first i + 1 tokens;
// where full forwards are the oracle, of every sampled_length() and of the last one.
void probe_causality(Bench& bench, const Probe& probe, const Sink& sink);
// Each prefix: both decoders against stored float64 logits of another program. Needs a
// whole-vocabulary tree.
void probe_golden(Bench& bench, const Probe& probe, const Sink& sink);
// Each longest prefix: rows, positions and bytes after every feed, roll back and refusal; and the
// rows of a feed after these against the oracle's.
void probe_accounting(Bench& bench, const Probe& probe, const Sink& sink);

// The row of the first n tokens at the walk's place against `row`. The floor is measured wherever
// rows are expected to differ, so that every report can say by how much they may.
[[nodiscard]] MeasuredRow measure_row(Bench& bench, PrefixWalk& walk, int n,
                                      std::span<const double> row);

// What a probe does at each place of its walk; `schedule` is the one at hand, for the case that the
// engine fails.
using ProbeVisitor = std::function<void(PrefixWalk& at, Schedule& schedule)>;
// Runs a probe's walk; throws ProbeFailure, with the place, for an engine that fails.
void walk_prefixes(PrefixWalk& walk, const Probe& probe, const ProbeVisitor& visit);

using ProbeFunction = void (*)(Bench&, const Probe&, const Sink&);

// Runs a probe; an engine that fails, or refuses what it must take, ends it and is reported.
[[nodiscard]] std::optional<ProbeFailure> run_probe(ProbeFunction function, Bench& bench,
                                                    const Probe& probe, const Sink& sink);

}  // namespace kvcheck
