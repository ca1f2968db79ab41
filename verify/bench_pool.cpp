// SPDX-License-Identifier: MIT
// Handing out benches.
#include "verify/bench_pool.h"

#include <utility>

namespace kvcheck {

std::unique_ptr<Bench> BenchPool::take(const ModelData& model, ScalarKind scalar,
                                       Arithmetic arithmetic) {
  {
    const std::lock_guard lock(mutex_);
    auto& idle = idle_[{&model, scalar, arithmetic}];
    if (!idle.empty()) {
      auto bench = std::move(idle.back());
      idle.pop_back();
      return bench;
    }
  }
  return std::make_unique<Bench>(make_bench(model, scalar, arithmetic, seed_, factory_));
}

void BenchPool::give_back(std::unique_ptr<Bench> bench) {
  const std::lock_guard lock(mutex_);
  idle_[{&bench->model, bench->scalar, bench->arithmetic}].push_back(std::move(bench));
}

void BenchPool::forget(const ModelData& model) {
  const std::lock_guard lock(mutex_);
  std::erase_if(idle_, [&](const auto& entry) { return std::get<0>(entry.first) == &model; });
}

}  // namespace kvcheck
