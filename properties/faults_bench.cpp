// SPDX-License-Identifier: MIT
// What the seams for faults cost an engine that has none, and what the kill matrix takes. Compare
// the CPU times of one run with --benchmark_filter=with_
// --benchmark_enable_random_interleaving=true.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

#include "engine/generated.h"
#include "properties/operations_gen.h"
#include "verify/faults.h"
#include "verify/kill_matrix.h"
#include "verify/models.h"

namespace kvcheck {
namespace {

// All rows of 64 tokens, decoded.
void decode(benchmark::State& state, const EngineFactory& factory) {
  constexpr int kTokens = 64;
  const ModelData model = load_model("gen:wide:1");
  const auto engine = factory(model, {ScalarKind::f32, Arithmetic::matrix});
  const Config& config = model.weights.config;
  const std::vector<int> tokens =
      random_tokens(config.vocabulary, std::min(kTokens, config.context), 1, 0);
  const SequenceId sequence = engine->open();
  Logits logits;
  for (auto _ : state) {
    for (const int& token : tokens) engine->feed(sequence, {&token, 1}, Rows::last, logits);
    engine->truncate(sequence, 0);
  }
  benchmark::DoNotOptimize(logits.values.data());
}

double smallest(const std::vector<double>& times) { return *std::ranges::min_element(times); }

// Many short repetitions: noise only ever adds, so that the smallest is closest to the cost.
void repeated(benchmark::internal::Benchmark* bench) {
  bench->Unit(benchmark::kMicrosecond)->MinTime(0.05)->Repetitions(20);
  bench->ComputeStatistics("min", smallest)->DisplayAggregatesOnly();
}

// The engine as everybody uses it: its seams are empty.
void with_empty_seams(benchmark::State& state) { decode(state, builtin_engine); }
// The plan is looked at and left as it is, behind one more layer of verbs.
void with_no_fault_planted(benchmark::State& state) {
  decode(state, faulty_engine({&no_fault(), {}}, std::make_shared<FaultTrace>()));
}
BENCHMARK(with_empty_seams)->Apply(repeated);
BENCHMARK(with_no_fault_planted)->Apply(repeated);

class Silent final : public MatrixListener {
 public:
  void on_start(std::size_t) override {}
  void on_row(const MatrixRow&) override {}
};

// All faults under all checks on chapter8, and each on its smallest model.
void kill_matrix(benchmark::State& state) {
  const ModelData model = load_model("chapter8");
  const std::vector<ModelRun> runs{{model, matrix_sources(model, 1), {}}};
  MatrixOptions options;
  options.draw = random_operations;
  options.jobs = static_cast<int>(state.range(0));
  for (const Fault& fault : faults()) options.faults.push_back(&fault);
  const std::atomic<bool> stop{false};
  Silent silent;
  std::int64_t rows = 0;
  for (auto _ : state) rows = run_kill_matrix(options, runs, silent, stop).rows;
  state.counters["rows"] = static_cast<double>(rows);
}
BENCHMARK(kill_matrix)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond)->Iterations(1);

}  // namespace
}  // namespace kvcheck
