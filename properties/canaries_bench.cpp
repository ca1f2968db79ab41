// SPDX-License-Identifier: MIT
// How long it takes from the first failing random sequence to the smallest one, for each canary.
#include <benchmark/benchmark.h>

#include "properties/operations_gen.h"
#include "verify/smaller.h"
#include "verify/test_canaries.h"

namespace kvcheck {
namespace {

constexpr std::uint64_t kSequencesMax = 64;

// The first case of seed 1 that fails.
Case first_failure(const Canary& canary, const ModelData& model) {
  Case subject = operations_case(model, canary.cache, "open");
  OperationRunner runner = runner_of(subject, model, canary.factory);
  for (std::uint64_t index = 0; index < kSequencesMax; ++index) {
    subject.operations = random_operations(runner.space(), 1, index);
    if (runner.run(subject.operations).verdict != Verdict::agree) return subject;
  }
  return subject;
}

void shrink_canary(benchmark::State& state, Tells tells) {
  const ModelData model = two_window_model();
  const std::vector<Canary> all = canaries(tells);
  const Canary& canary = all[static_cast<std::size_t>(state.range(0))];
  state.SetLabel(std::string(canary.id));
  const Case subject = first_failure(canary, model);
  const CaseResult result = run_case(subject, model, canary.factory).result;
  std::size_t smallest = 0;
  for (auto _ : state) {
    const SmallerCase smaller = make_smaller(subject, result, model, canary.factory);
    if (!smaller.complete) state.SkipWithError("the budget was spent");
    smallest = smaller.subject.operations.size();
  }
  state.counters["from"] = static_cast<double>(subject.operations.size());
  state.counters["to"] = static_cast<double>(smallest);
}
BENCHMARK_CAPTURE(shrink_canary, told_all, Tells::all)
    ->DenseRange(0, 5)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(shrink_canary, told_logits, Tells::logits)
    ->DenseRange(0, 5)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kvcheck
