// SPDX-License-Identifier: MIT
// What an observer that does nothing costs: 64 tokens decoded, and 64 tokens in one uncached
// forward, each with and without one. Compare the CPU times of one run with
// --benchmark_filter=tokens_ --benchmark_enable_random_interleaving=true.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

#include "engine/bench_model.h"
#include "engine/builtin.h"
#include "engine/generated.h"

namespace kvcheck {
namespace {

constexpr int kTokens = 64;

enum class Observed { no, yes };

void tokens_decoded(benchmark::State& state, Observed observed) {
  Builtin<float> engine(bench_model(kTokens), Arithmetic::matrix);
  if (observed == Observed::yes) engine.observe_cached([](const SiteTensor<float>&) {});
  const std::vector<int> tokens = random_tokens(512, kTokens, 1, 0);
  const SequenceId sequence = engine.open();
  Logits logits;
  for (auto _ : state) {
    for (const int& token : tokens) engine.feed(sequence, {&token, 1}, Rows::last, logits);
    engine.truncate(sequence, 0);
  }
  benchmark::DoNotOptimize(logits.values.data());
}

void tokens_recomputed(benchmark::State& state, Observed observed) {
  const Model<float> model = bench_model(kTokens);
  Uncached<float> uncached(model, matrix_ops<float>());
  const Observer<float> nothing = [](const SiteTensor<float>&) {};
  const Observer<float>* const observer = observed == Observed::yes ? &nothing : nullptr;
  const std::vector<int> tokens = random_tokens(512, kTokens, 1, 0);
  for (auto _ : state) {
    benchmark::DoNotOptimize(uncached.logits({tokens}, Rows::all, observer).data);
  }
}

double smallest(const std::vector<double>& times) {
  return *std::min_element(times.begin(), times.end());
}

// Many short repetitions: noise only ever adds, so that the smallest is closest to the cost.
void repeated(benchmark::internal::Benchmark* bench) {
  bench->Unit(benchmark::kMicrosecond)->MinTime(0.05)->Repetitions(20);
  bench->ComputeStatistics("min", smallest)->DisplayAggregatesOnly();
}
BENCHMARK_CAPTURE(tokens_decoded, without_observer, Observed::no)->Apply(repeated);
BENCHMARK_CAPTURE(tokens_decoded, with_observer, Observed::yes)->Apply(repeated);
BENCHMARK_CAPTURE(tokens_recomputed, without_observer, Observed::no)->Apply(repeated);
BENCHMARK_CAPTURE(tokens_recomputed, with_observer, Observed::yes)->Apply(repeated);

}  // namespace
}  // namespace kvcheck
