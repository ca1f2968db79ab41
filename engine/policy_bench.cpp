// SPDX-License-Identifier: MIT
// Draws a second at a vocabulary of 50,000, each from another row of logits: peaked as a trained
// model's are (standard deviation 4), or flat (1).
#include <benchmark/benchmark.h>

#include <vector>

#include "engine/policy.h"
#include "engine/random.h"

namespace kvcheck {
namespace {

constexpr int kVocabulary = 50'000;
constexpr int kRows = 8;

using Rows = std::vector<std::vector<double>>;

Rows random_rows(double deviation) {
  Draw draw{1, stream_of("policy bench")};
  Rows rows(kRows, std::vector<double>(kVocabulary));
  for (auto& row : rows) {
    for (double& logit : row) logit = deviation * draw.next_normal();
  }
  return rows;
}

// Before each draw the logits are another row's, one of which is moved besides.
void draws(benchmark::State& state, const char* policy_text, double deviation) {
  Rows rows = random_rows(deviation);
  const DecodingPolicy policy = parse_decoding(policy_text, kVocabulary, "bench");
  const std::vector<int> seen{1, 10, 100, 1000};
  PolicyScratch scratch;
  std::uint64_t step = 0;
  for (auto _ : state) {
    std::vector<double>& row = rows[step % kRows];
    row[step % kVocabulary] += 0.01;
    benchmark::DoNotOptimize(choose(policy, row, seen, {1, step++}, scratch));
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()));
}

constexpr double kPeaked = 4;
constexpr double kFlat = 1;
BENCHMARK_CAPTURE(draws, greedy, "greedy", kPeaked);
BENCHMARK_CAPTURE(draws, temperature, "temperature:1", kPeaked);
BENCHMARK_CAPTURE(draws, top_k_40, "top-k:40", kPeaked);
BENCHMARK_CAPTURE(draws, top_k_5000, "top-k:5000", kPeaked);
BENCHMARK_CAPTURE(draws, top_k_half, "top-k:25000", kPeaked);
BENCHMARK_CAPTURE(draws, top_p, "top-p:0.95", kPeaked);
BENCHMARK_CAPTURE(draws, top_p_flat, "top-p:0.95", kFlat);
BENCHMARK_CAPTURE(draws, top_p_half, "top-p:0.5", kFlat);
BENCHMARK_CAPTURE(draws, min_p, "min-p:0.05", kPeaked);
BENCHMARK_CAPTURE(draws, top_k_top_p, "temperature:0.8,top-k:40,top-p:0.95", kPeaked);
BENCHMARK_CAPTURE(draws, top_k_5000_top_p, "top-k:5000,top-p:0.95", kFlat);
BENCHMARK_CAPTURE(draws, top_p_min_p_penalty, "top-p:0.95,min-p:0.001,penalty:1.1", kFlat);
BENCHMARK_CAPTURE(draws, all, "temperature:0.8,top-k:40,top-p:0.95,min-p:0.05,penalty:1.1",
                  kPeaked);

}  // namespace
}  // namespace kvcheck
