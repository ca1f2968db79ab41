// SPDX-License-Identifier: MIT
// What decoding costs, by formulas over the configuration alone: multiply-adds, bytes moved, bytes
// kept. Work is that of the engine at hand, in row arithmetic: masked pairs of query and key are
// not computed, and the oracle's last layer computes what follows from queries for answered rows
// only. cost_count.h counts the same work in the running engine.
#pragma once

#include <compare>
#include <concepts>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/block.h"
#include "engine/cache_kind.h"
#include "engine/config.h"
#include "engine/error.h"

namespace kvcheck {

__extension__ typedef __int128 WideInteger;  // NOLINT: needs the old form

struct CountTooLarge : Error {
  using Error::Error;
};

// A whole number from 0 to 10^36 that never wraps round: arithmetic throws CountTooLarge where it
// would.
// All recomputing of a context of 10^9 by a large model takes about 10^32 multiply-adds.
class Count {
 public:
  constexpr Count() = default;
  template <std::integral N>
  constexpr Count(N value) : value_(value) {  // NOLINT: as a number is one
    require(std::cmp_greater_equal(value, 0), "a count is not negative");
  }

  // As 64 bits; throws Error where it is larger.
  [[nodiscard]] std::int64_t value() const;
  [[nodiscard]] double approximate() const { return static_cast<double>(value_); }
  [[nodiscard]] std::string digits() const;

  friend Count operator+(Count a, Count b);
  friend Count operator*(Count a, Count b);
  friend Count operator-(Count a, Count b);  // a >= b
  friend Count operator/(Count a, int b);    // rounded down
  Count& operator+=(Count b) { return *this = *this + b; }
  auto operator<=>(const Count&) const = default;  // NOLINT: taken for a null pointer

 private:
  [[nodiscard]] static Count checked(WideInteger value);
  WideInteger value_ = 0;
};

// Which rows one step computes, for each of `sequences` alike.
struct Phase {
  bool cached = true;       // a feed to a cache, or everything anew without one
  std::int64_t held = 0;    // rows in the cache before; 0 without one
  std::int64_t tokens = 1;  // rows computed
  std::int64_t sequences = 1;
  Rows answered = Rows::last;

  [[nodiscard]] std::int64_t length() const { return held + tokens; }  // rows afterwards
};

// Multiply-adds by kind: one multiplication and the addition of its product to a running sum, in
// the inner products of weights, of queries and keys, and of probabilities and values. All else is
// in `rest`, in single operations: norms, biases, positions, scales, caps, softmax, activations,
// residual sums. Comparisons, changes of sign and conversions are not counted.
struct Work {
  Count projections;  // queries, keys, values and the attention's output
  Count attention;    // scores, and sums of values
  Count mlp;
  Count output;  // logits
  Count rest;    // operations

  bool operator==(const Work&) const = default;
  [[nodiscard]] Count multiply_adds() const { return projections + attention + mlp + output; }
  Work& operator+=(const Work& more);
};

struct PhaseWork {
  std::vector<Work> layers;
  Work outside;  // embedding, final norm, output

  bool operator==(const PhaseWork&) const = default;
  [[nodiscard]] Work total() const;
};

[[nodiscard]] PhaseWork work_of(const Config& config, const Phase& phase);
// Of all layers alike and of one sequence: (query, key) pairs of queries at `first` and the
// `queries` - 1 positions after it, where a query sees `window` positions; 0 = all before it.
[[nodiscard]] Count visible_pairs(std::int64_t first, std::int64_t queries, std::int64_t window);

// K/V rows that a feed moves, all layers and sequences; a row is a key and a value. Each query row
// reads those that it sees once, however many heads share them. None without a cache.
struct RowTraffic {
  Count read;
  Count written;

  bool operator==(const RowTraffic&) const = default;
};
[[nodiscard]] RowTraffic row_traffic(const Config& config, const Phase& phase);
// Numbers of weights that a step reads: every matrix and vector of the layers and of the output
// once, of embeddings and learned positions the rows of its tokens.
[[nodiscard]] Count weights_read(const Config& config, const Phase& phase);

// Of `rows` rows of one sequence in a cache of that kind.
struct CacheBytes {
  Count held;   // by the rows that are held
  Count taken;  // by the slots set aside: whole blocks, powers of two, the whole context

  bool operator==(const CacheBytes&) const = default;
};
// Bytes of a number that is stored as it is: `number_bytes`. Beyond config.context the context is
// taken to be `rows`.
[[nodiscard]] CacheBytes cache_kind_bytes(const Config& config, const CacheKind& kind, Count rows,
                                          int number_bytes);

// Multiply-adds of everything up to a prefix of `length` tokens, logits after each: cached, one
// step a token; uncached, all of it anew for each.
struct RunWork {
  Count cached;
  Count uncached;
};
[[nodiscard]] RunWork run_work(const Config& config, std::int64_t length, std::int64_t sequences);

}  // namespace kvcheck
