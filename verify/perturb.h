// SPDX-License-Identifier: MIT
// Moving what an oracle computes by as much as rounding may: what noise floors are measured with.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "engine/random.h"
#include "engine/round_site.h"
#include "engine/site.h"
#include "verify/noise.h"

namespace kvcheck {

// A NaN, once met, stays.
template <typename T>
[[nodiscard]] T larger(T a, T b) {
  return a >= b || std::isnan(a) ? a : b;
}

// Where the signs of a perturbation come from: row r of an embedding is token r / sequences.
struct Signs {
  std::uint64_t seed;
  int sequences;
};

// One of the perturbed oracles.
struct Perturbation {
  Signs signs;
  int number;  // from 0
};

// Every entry of an embedding output times 1 + or - epsilon.
template <Scalar T>
void move_by_epsilon(const SiteTensor<T>& x, const Perturbation& by) {
  constexpr T kEpsilon = std::numeric_limits<T>::epsilon();
  for (int r = 0; r < x.rows; ++r) {
    // By the position, not the row: a prefix gets the same signs alone and beside its siblings.
    const auto position = static_cast<std::uint64_t>(r / by.signs.sequences);
    for (int f = 0; f < x.columns; ++f) {
      const std::uint64_t counter =
          position * static_cast<std::uint64_t>(x.columns) + static_cast<std::uint64_t>(f);
      const std::uint64_t bits =
          hash(by.signs.seed, static_cast<std::uint64_t>(by.number), counter);
      x.at(r, f) *= T(1) + ((bits & 1U) != 0 ? kEpsilon : -kEpsilon);
    }
  }
}

// Keys and values that a cache of fewer bits holds, moved by kTieShare before they are rounded.
template <Scalar T>
void round_either_way(const SiteTensor<T>& tensor, RowFormat format, const Perturbation& by) {
  constexpr double kShare = kTieShare * double{std::numeric_limits<T>::epsilon()};
  const auto site = static_cast<std::uint64_t>(tensor.site == Site::key ? 0 : 1);
  const std::uint64_t stream = mix(by.signs.seed + static_cast<std::uint64_t>(by.number)) +
                               2 * static_cast<std::uint64_t>(tensor.layer) + site;
  round_site<T>(tensor, format, [&](int row, int column) {
    const auto counter = static_cast<std::uint64_t>(row / by.signs.sequences) *
                             static_cast<std::uint64_t>(tensor.columns) +
                         static_cast<std::uint64_t>(column);
    return static_cast<T>((hash(by.signs.seed, stream, counter) & 1U) != 0 ? kShare : -kShare);
  });
}

}  // namespace kvcheck
