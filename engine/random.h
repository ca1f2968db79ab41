// SPDX-License-Identifier: MIT
// Random numbers that are functions of (seed, stream, counter): the same on every compiler and
// platform, whatever was drawn before. Only whole numbers and exactly rounded operations are used,
// and no product is added before it is exact, so that not even a fused multiply-add changes a bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace kvcheck {

// 64 bits from three numbers. For a fixed seed and stream, the counters 0, 1, 2, ... give a
// SplitMix64 sequence (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
// 2014, with the constants of Vigna's splitmix64.c) whose start is mixed from seed and stream.
[[nodiscard]] std::uint64_t hash(std::uint64_t seed, std::uint64_t stream, std::uint64_t counter);

// The SplitMix64 output for one state: one to one, each input bit changes about half the output.
[[nodiscard]] std::uint64_t mix(std::uint64_t state);

// A stream's number from its name (FNV-1a of the bytes).
[[nodiscard]] std::uint64_t stream_of(std::string_view name);

// Both ends belong to it.
struct IntRange {
  int low;
  int high;
};

// A place in a stream; every next_ moves on. Copying it forks: both copies go on alike.
struct Draw {
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;
  std::uint64_t counter = 0;

  [[nodiscard]] std::uint64_t next_bits();
  // In [0, 1), a multiple of 2^-53.
  [[nodiscard]] double next_uniform();
  // In [0, n), n >= 1. Values differ in probability by at most n / 2^32.
  [[nodiscard]] int next_below(int n);
  [[nodiscard]] int next_in(IntRange range);
  // True in one of n cases.
  [[nodiscard]] bool next_one_in(int n);
  // Mean 0, variance 1, within +-6: the sum of twelve uniform numbers, close to a normal one except
  // in the tails, where a model needs none. A multiple of 2^-22 below 8, so that its product with
  // any float is exact in double.
  [[nodiscard]] double next_normal();

  template <typename T>
  [[nodiscard]] T next_of(std::initializer_list<T> values) {
    return *(values.begin() + next_below(static_cast<int>(values.size())));
  }
};

}  // namespace kvcheck
