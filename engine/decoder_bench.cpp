// SPDX-License-Identifier: MIT
// How fast the decoders are on a model of 5 layers and width 64, the shape of stories260K: steps
// with a cache, one forward, and a forward of its own for every prefix. Then on one of a real size,
// beside what one core of the machine can do at most.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <ctime>
#include <span>
#include <vector>

#include "engine/bench_model.h"
#include "engine/builtin.h"
#include "engine/cost.h"
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

// ---- GPT-2 small, 124 million parameters: a step reads 0.5 GB, which no cache holds

constexpr int kRealTokens = 64;

const Model<float>& real_size() {
  static const Model<float> model = generate_model("gen:gpt2-small:1:context64");
  return model;
}

// The shortest of some times of the processor, in seconds: as the benchmark takes its own, whatever
// else the machine does.
template <typename Work>
double best_time(Work work) {
  constexpr int kRuns = 5;
  double best = 0;
  for (int i = 0; i < kRuns; ++i) {
    const std::clock_t start = std::clock();
    work();
    const double time = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    best = i == 0 ? time : std::min(best, time);
  }
  return best;
}

// Bytes a second that one core reads of a buffer that is far larger than the caches.
double read_bandwidth() {
  static const double measured = [] {
    const Vector<float> buffer = Vector<float>::Ones(Eigen::Index{1} << 26);
    const double time = best_time([&] { benchmark::DoNotOptimize(buffer.sum()); });
    return static_cast<double>(buffer.size()) * sizeof(float) / time;
  }();
  return measured;
}

// Floating-point operations a second of a large product on one core.
double peak_of_products() {
  static const double measured = [] {
    constexpr int kSize = 1024;
    const Eigen::MatrixXf a = Eigen::MatrixXf::Random(kSize, kSize);
    const Eigen::MatrixXf b = Eigen::MatrixXf::Random(kSize, kSize);
    Eigen::MatrixXf product(kSize, kSize);
    const double time = best_time([&] {
      product.noalias() = a * b;
      benchmark::DoNotOptimize(product.data());
    });
    return 2.0 * kSize * kSize * kSize / time;
  }();
  return measured;
}

// A step at a time, up to the context.
void real_decode(benchmark::State& state) {
  const double most = read_bandwidth();
  const Config& config = real_size().config;
  const std::vector<int> tokens = random_tokens(config.vocabulary, kRealTokens, 1, 0);
  Builtin<float> engine(real_size(), arithmetic_of(state));
  const SequenceId sequence = engine.open();
  Logits logits;
  std::size_t held = 0;
  for (auto _ : state) {
    if (held == tokens.size()) engine.truncate(sequence, 0);
    held %= tokens.size();
    engine.feed(sequence, {&tokens[held++], 1}, Rows::last, logits);
  }
  const double bytes = weights_read(config, {}).approximate() * sizeof(float);
  using benchmark::Counter;
  state.counters["memory_share"] = Counter(bytes / most, Counter::kIsIterationInvariantRate);
  state.counters["memory_GB/s"] = most * 1e-9;
}

void real_prefill(benchmark::State& state) {
  const double most = peak_of_products();
  const Config& config = real_size().config;
  const std::vector<int> tokens = random_tokens(config.vocabulary, kRealTokens, 1, 0);
  Builtin<float> engine(real_size(), arithmetic_of(state));
  const SequenceId sequence = engine.open();
  Logits logits;
  for (auto _ : state) {
    engine.truncate(sequence, 0);
    engine.feed(sequence, tokens, Rows::all, logits);
  }
  const Phase phase{.tokens = kRealTokens, .answered = Rows::all};
  const double operations = 2 * work_of(config, phase).total().multiply_adds().approximate();
  using benchmark::Counter;
  state.counters["peak_share"] = Counter(operations / most, Counter::kIsIterationInvariantRate);
  state.counters["peak_GFLOP/s"] = most * 1e-9;
}

void both_arithmetics(benchmark::internal::Benchmark* bench) {
  bench->Unit(benchmark::kMillisecond)->ArgNames({"tokens", "row"});
  for (const int row : {0, 1}) bench->Args({kRealTokens, row});
}
BENCHMARK(real_decode)->Apply(both_arithmetics);
BENCHMARK(real_prefill)->Apply(both_arithmetics);

}  // namespace
}  // namespace kvcheck
