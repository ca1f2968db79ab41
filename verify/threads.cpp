// SPDX-License-Identifier: MIT
// Tries it out.
#include "verify/threads.h"

#include <cstddef>
#include <exception>
#include <future>
#include <thread>
#include <vector>

namespace kvcheck {

int startable_threads(int wanted) {
  std::promise<void> all_started;
  const std::shared_future<void> end = all_started.get_future().share();
  std::vector<std::jthread> others;
  others.reserve(static_cast<std::size_t>(wanted));
  try {
    while (static_cast<int>(others.size()) < wanted - 1) others.emplace_back([end] { end.wait(); });
  } catch (const std::exception&) {
    // That was the limit.
  }
  all_started.set_value();
  return static_cast<int>(others.size()) + 1;
}

}  // namespace kvcheck
