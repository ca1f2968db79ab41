// SPDX-License-Identifier: MIT
// What sequences of operations cost with everything that is checked, on a small rotary model:
// context 16, a window of 4 in one of two layers, blocks of 2.
#include <benchmark/benchmark.h>

#include "engine/generated.h"
#include "properties/operations_gen.h"
#include "verify/suite.h"

namespace kvcheck {
namespace {

constexpr int kSequences = 512;

Config small_rotary() {
  return {.vocabulary = 13,
          .width = 8,
          .layers = 2,
          .query_heads = 2,
          .kv_heads = 1,
          .head_size = 4,
          .mlp_width = 8,
          .context = 16,
          .positions = Positions::rotary,
          .windows = {4, 0}};
}

ModelData model() {
  ModelData data;
  data.name = "small-rotary";
  data.sha256 = std::string(64, '0');
  data.weights = random_model(small_rotary(), WeightScales{}, 3);
  return data;
}

SuiteOptions options(std::string_view kind, Arithmetic arithmetic, int jobs) {
  SuiteOptions options;
  options.arithmetics = {arithmetic};
  options.prefixes = false;
  options.schedules = false;
  options.jobs = jobs;
  options.operations.kind = OperationChoice::Kind::random;
  options.operations.count = kSequences;
  options.operations.caches = {cache_kind(kind, "benchmark")};
  options.operations.draw = random_operations;
  return options;
}

void run(benchmark::State& state, const SuiteOptions& options) {
  const ModelData data = model();
  const std::vector<ModelRun> runs{{data, {}, {}}};
  SilentListener silent;
  const std::atomic<bool> stop{false};
  std::int64_t sequences = 0;
  for (auto _ : state) {
    const RunResult result = run_suite(options, runs, builtin_engine, silent, stop);
    if (result.verdict != Verdict::agree) state.SkipWithError("the built-in engine must agree");
    sequences += result.checks.front().counts.cases;
  }
  state.counters["sequences"] =
      benchmark::Counter(static_cast<double>(sequences), benchmark::Counter::kIsRate);
}

void random_sequences(benchmark::State& state, std::string_view kind, Arithmetic arithmetic) {
  run(state, options(kind, arithmetic, static_cast<int>(state.range(0))));
}

void exhaustive_depth_5(benchmark::State& state, std::string_view kind) {
  SuiteOptions exhaustive = options(kind, Arithmetic::row, 2);
  exhaustive.operations.kind = OperationChoice::Kind::exhaustive;
  exhaustive.operations.depth = 5;
  run(state, exhaustive);
}

#define KVCHECK_KIND(id, kind)                                               \
  BENCHMARK_CAPTURE(random_sequences, id##_row, kind, Arithmetic::row)       \
      ->Arg(1)                                                               \
      ->Arg(2)                                                               \
      ->Unit(benchmark::kMillisecond)                                        \
      ->UseRealTime();                                                       \
  BENCHMARK_CAPTURE(random_sequences, id##_matrix, kind, Arithmetic::matrix) \
      ->Arg(1)                                                               \
      ->Arg(2)                                                               \
      ->Unit(benchmark::kMillisecond)                                        \
      ->UseRealTime();                                                       \
  BENCHMARK_CAPTURE(exhaustive_depth_5, id, kind)->Unit(benchmark::kMillisecond)->UseRealTime()

KVCHECK_KIND(flat, "flat");
KVCHECK_KIND(growing, "growing");
KVCHECK_KIND(ring, "ring");
KVCHECK_KIND(paged, "paged:2");
KVCHECK_KIND(padded_left, "padded-left");
KVCHECK_KIND(padded_right, "padded-right");
KVCHECK_KIND(bf16, "bf16");
KVCHECK_KIND(f16, "f16");
KVCHECK_KIND(int8, "int8");

}  // namespace
}  // namespace kvcheck
