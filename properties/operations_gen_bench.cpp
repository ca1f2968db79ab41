// SPDX-License-Identifier: MIT
// How fast sequences of operations are drawn, walked through and counted: all of it must vanish
// beside the engine that is asked for them.
#include <benchmark/benchmark.h>

#include <cstdint>

#include "properties/operations_gen.h"
#include "verify/exhaustive.h"
#include "verify/operation_coverage.h"

namespace kvcheck {
namespace {

constexpr OperationSpace kSpace{
    .limits = {.vocabulary = 40, .context = 24}, .window = 3, .block = 4};

void random_sequences(benchmark::State& state) {
  std::uint64_t index = 0;
  for (auto _ : state) benchmark::DoNotOptimize(random_operations(kSpace, 1, index++));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(random_sequences);

void coverage_of_sequences(benchmark::State& state) {
  const Operations operations = random_operations(kSpace, 1, 1);
  for (auto _ : state) benchmark::DoNotOptimize(coverage_of(operations, kSpace));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(coverage_of_sequences);

void all_sequences(benchmark::State& state) {
  OperationSpace space = kSpace;
  space.live_max = 2;
  std::uint64_t count = 0;
  for (auto _ : state)
    count += count_sequences(space, static_cast<int>(state.range(0)), 100'000'000);
  state.SetItemsProcessed(static_cast<std::int64_t>(count));
}
BENCHMARK(all_sequences)->Arg(4)->Arg(5)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kvcheck
