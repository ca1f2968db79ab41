// SPDX-License-Identifier: MIT
// How fast the decoders are on a model of 5 layers and width 64, the shape of stories260K: steps
// with a cache, one forward, and a forward of its own for every prefix.
#include <benchmark/benchmark.h>

#include <span>
#include <vector>

#include "engine/bench_model.h"
#include "engine/builtin.h"
#include "engine/generated.h"

namespace kvcheck {
namespace {

constexpr int kVocabulary = 512;
constexpr int kContext = 512;

const Model<float>& stories_shape() {
  static const Model<float> model = bench_model(kContext);
  return model;
}

Arithmetic arithmetic_of(const benchmark::State& state) {
  return state.range(1) == 0 ? Arithmetic::matrix : Arithmetic::row;
}

void decode(benchmark::State& state) {
  const std::vector<int> tokens =
      random_tokens(kVocabulary, static_cast<int>(state.range(0)), 1, 0);
  Builtin<float> engine(stories_shape(), arithmetic_of(state));
  const SequenceId sequence = engine.open();
  Logits logits;
  for (auto _ : state) {
    for (const int& token : tokens) engine.feed(sequence, {&token, 1}, Rows::last, logits);
    engine.truncate(sequence, 0);
  }
  benchmark::DoNotOptimize(logits.values.data());
}

void forward(benchmark::State& state) {
  const std::vector<int> tokens =
      random_tokens(kVocabulary, static_cast<int>(state.range(0)), 1, 0);
  Uncached<float> uncached(stories_shape(), ops_for<float>(arithmetic_of(state)));
  for (auto _ : state) {
    benchmark::DoNotOptimize(uncached.logits({tokens}, Rows::all, nullptr).data);
  }
}

void every_prefix(benchmark::State& state) {
  const std::vector<int> tokens =
      random_tokens(kVocabulary, static_cast<int>(state.range(0)), 1, 0);
  Uncached<float> uncached(stories_shape(), ops_for<float>(arithmetic_of(state)));
  for (auto _ : state) {
    for (std::size_t n = 1; n <= tokens.size(); ++n) {
      benchmark::DoNotOptimize(
          uncached.logits({std::span(tokens).first(n)}, Rows::last, nullptr).data);
    }
  }
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->Unit(benchmark::kMillisecond)->ArgNames({"tokens", "row"});
  for (const int row : {0, 1}) {
    for (const int tokens : {64, 128, 256, 512}) bench->Args({tokens, row});
  }
}
BENCHMARK(decode)->Apply(sizes);
BENCHMARK(forward)->Apply(sizes);
BENCHMARK(every_prefix)->Apply(sizes);

}  // namespace
}  // namespace kvcheck
