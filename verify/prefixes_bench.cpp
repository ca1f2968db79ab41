// SPDX-License-Identifier: MIT
// What the checks cost, measured on the code that they run: port, plan, poison, comparison and
// judgement.
#include <benchmark/benchmark.h>

#include "verify/models.h"
#include "verify/tally.h"

namespace kvcheck {
namespace {

constexpr std::string_view kModel = "chapter8";

// All 4,680 prefixes of the frozen model: a cached step each, depth first, beside an oracle forward
// each. This is the probe of all-prefixes without the floors, which the noise check is charged for.
void all_prefixes(benchmark::State& state, Arithmetic arithmetic) {
  const ModelData model = load_model(kModel);
  const PrefixTree tree = PrefixTree::all(model.weights.config);
  Bench bench = make_bench(model, {ScalarKind::f32, arithmetic}, 1, builtin_engine);
  bench.noise = nullptr;
  const Policy policy = default_policy(model, arithmetic);
  for (auto _ : state) {
    Tally tally(policy, kWorstKept, Keep::worst);
    probe_prefixes(bench, {.tree = tree}, [&](const Measured& measured) {
      CaseResult result = judge_case(policy, measured, bench.scalar);
      const std::int64_t logits = result.rows_compared * model.weights.config.vocabulary;
      tally.add(measured.tokens, measured.schedule, std::move(result), logits);
    });
    if (tally.counts().cases != tree.count() || tally.verdict() != Verdict::agree) {
      state.SkipWithError("the frozen model must agree on every prefix");
    }
  }
  state.counters["prefixes"] = static_cast<double>(tree.count());
}
BENCHMARK_CAPTURE(all_prefixes, matrix, Arithmetic::matrix)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(all_prefixes, row, Arithmetic::row)->Unit(benchmark::kMillisecond);

// The time that the check itself reports, to stand beside the benchmark above.
void all_prefixes_as_reported(benchmark::State& state, Arithmetic arithmetic) {
  const ModelData model = load_model(kModel);
  std::vector<ModelRun> runs;
  runs.push_back({model, {{Source::all, PrefixTree::all(model.weights.config)}}, {}});
  SuiteOptions options;
  options.arithmetics = {arithmetic};
  options.schedules = false;
  SilentListener silent;
  const std::atomic<bool> stop{false};
  for (auto _ : state) {
    const RunResult result = run_suite(options, runs, builtin_engine, silent, stop);
    state.SetIterationTime(result.checks.front().seconds);
  }
}
BENCHMARK_CAPTURE(all_prefixes_as_reported, matrix, Arithmetic::matrix)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(all_prefixes_as_reported, row, Arithmetic::row)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

// What `kvcheck verify` runs when it is given nothing, on as many threads as the argument says.
void default_suite(benchmark::State& state) {
  std::vector<ModelData> models;
  for (const std::string& name : default_models(1)) models.push_back(load_model(name));
  std::vector<ModelRun> runs;
  for (const ModelData& model : models) {
    runs.push_back({model, sources_of(model, {}, {1, 0, kRandomSequences}), {}});
  }
  SuiteOptions options;
  options.jobs = static_cast<int>(state.range(0));
  SilentListener silent;
  const std::atomic<bool> stop{false};
  for (auto _ : state) {
    const RunResult result = run_suite(options, runs, builtin_engine, silent, stop);
    if (result.verdict != Verdict::agree) state.SkipWithError("the default suite must agree");
  }
}
BENCHMARK(default_suite)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace kvcheck
