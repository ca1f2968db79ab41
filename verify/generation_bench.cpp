// SPDX-License-Identifier: MIT
// Random (model, prompt, policy, seed), each generated with and without a cache and compared: on as
// many threads as the argument says, 10,000 of them an iteration.
#include <benchmark/benchmark.h>

#include <atomic>
#include <thread>
#include <vector>

#include "verify/checks.h"
#include "verify/generation.h"
#include "verify/measure.h"

namespace kvcheck {
namespace {

constexpr std::uint64_t kGenerations = 10'000;

struct Seen {
  std::atomic<int> failed{0};
  std::atomic<int> ties{0};
  std::atomic<std::int64_t> tokens{0};
};

void run_some(std::uint64_t first, std::uint64_t step, Seen& seen) {
  for (std::uint64_t index = first; index < kGenerations; index += step) {
    const RandomGeneration random = random_generation(1, index);
    Bench bench = make_bench(random.data, random.setup, 1, builtin_engine);
    const GenerationTrial trial = try_generation(bench, random.request);
    const Policy policy =
        default_policy(random.data, random.setup.arithmetic, random.setup.cache.lossy());
    static const Schedule none;
    const Measured measured{random.request.prompt, none,       trial.rows,
                            trial.facts,           trial.note, trial.tied()};
    const CaseResult result = judge_case(policy, measured, random.setup.scalar);
    seen.failed += result.verdict == Verdict::diverge ? 1 : 0;
    seen.ties += trial.tied() ? 1 : 0;
    seen.tokens += static_cast<std::int64_t>(trial.cached.steps.size());
  }
}

void random_generations(benchmark::State& state) {
  Seen seen;
  for (auto _ : state) {
    const auto threads = static_cast<std::uint64_t>(state.range(0));
    std::vector<std::jthread> running;
    for (std::uint64_t t = 0; t < threads; ++t) {
      running.emplace_back([&, t] { run_some(t, threads, seen); });
    }
    running.clear();  // joins them
  }
  if (seen.failed > 0) state.SkipWithError("generations differ that must not");
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations() * kGenerations));
  const double rounds = static_cast<double>(state.iterations());
  state.counters["ties"] = seen.ties / rounds;
  state.counters["tokens"] = static_cast<double>(seen.tokens) / rounds;
}
BENCHMARK(random_generations)
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime()
    ->Unit(benchmark::kSecond)
    ->Iterations(1);

}  // namespace
}  // namespace kvcheck
