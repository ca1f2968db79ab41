// SPDX-License-Identifier: MIT
// Handing out benches.
#include "verify/bench_pool.h"

#include <utility>

namespace kvcheck {

BenchPool::Key BenchPool::key(const ModelData& model, const EngineSetup& setup) {
  return {&model, setup.scalar, setup.arithmetic, name(setup.cache)};
}

std::unique_ptr<Bench> BenchPool::take(const ModelData& model, const EngineSetup& setup) {
  {
    const std::lock_guard lock(mutex_);
    auto& idle = idle_[key(model, setup)];
    if (!idle.empty()) {
      auto bench = std::move(idle.back());
      idle.pop_back();
      return bench;
    }
  }
  return std::make_unique<Bench>(make_bench(model, setup, seed_, factory_));
}

void BenchPool::give_back(std::unique_ptr<Bench> bench) {
  const std::lock_guard lock(mutex_);
  idle_[key(bench->model, {bench->scalar, bench->arithmetic, bench->cache})].push_back(
      std::move(bench));
}

void BenchPool::forget(const ModelData& model) {
  const std::lock_guard lock(mutex_);
  std::erase_if(idle_, [&](const auto& entry) { return std::get<0>(entry.first) == &model; });
}

}  // namespace kvcheck
