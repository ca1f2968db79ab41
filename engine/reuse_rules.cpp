// SPDX-License-Identifier: MIT
// The right answers.
#include "engine/reuse_rules.h"

#include <algorithm>

#include "engine/random.h"

namespace kvcheck {

std::uint64_t key_before_first(std::uint64_t identity) { return mix(identity); }

std::uint64_t key_of_block(std::uint64_t parent, std::span<const int> tokens) {
  std::uint64_t key = parent;
  for (const int token : tokens) key = mix(key ^ (static_cast<std::uint64_t>(token) + 1));
  return key;
}

int rows_provided(const Hit& hit) {
  return std::min(hit.known, std::max(hit.tokens - 1, 0) / hit.block * hit.block);
}

}  // namespace kvcheck
