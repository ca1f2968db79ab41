// SPDX-License-Identifier: MIT
// The formulas.
#include "engine/cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "engine/model.h"
#include "engine/row_format.h"

namespace kvcheck {
namespace {

constexpr WideInteger kTenTo18 = 1'000'000'000'000'000'000;
constexpr WideInteger kCountMax = kTenTo18 * kTenTo18;

[[noreturn]] void too_large() {
  throw CountTooLarge(
      bad_input({"cost", "a count", "at most 10^36", "more: a smaller context or batch fits"})
          .what());
}

// n (n + 1) / 2
Count triangle(Count n) { return n * (n + 1) / 2; }

// 1 + 3 + 6 + ... of n triangles: n (n + 1) (n + 2) / 6.
Count tetrahedron(Count n) { return n * (n + 1) * (n + 2) / 6; }

// Of a row of `width` numbers; the mean of an RMSNorm is 0, and subtracted all the same.
Count norm_operations(Norm norm, Count width) {
  return norm == Norm::layer ? width * 8 + 5 : width * 6 + 4;
}

// Rows of one sequence that a layer computes.
struct LayerRows {
  Count all;       // that have keys and values
  Count asked;     // that have queries, and all that follows from them
  Count pairs;     // (query, key)
  Count together;  // sequences side by side
  bool cached;
};

LayerRows rows_of(const Config& config, const Phase& phase, int layer) {
  const bool top = layer == config.layers - 1;
  const bool cut = top && !phase.cached && phase.answered == Rows::last;
  const std::int64_t asked = cut ? 1 : phase.tokens;
  const int window = config.windows[static_cast<std::size_t>(layer)];
  return {phase.tokens, asked, visible_pairs(phase.length() - asked, asked, window),
          phase.sequences, phase.cached};
}

// Of one number of the hidden row, with the product of a gate.
Count activation_operations(Mlp mlp) { return mlp == Mlp::swiglu ? 4 : mlp == Mlp::geglu ? 9 : 8; }

Count bias_operations(const Config& c, const LayerRows& rows) {
  Count each;
  if (c.qkv_bias) each += rows.asked * c.query_width() + rows.all * 2 * c.kv_width();
  if (c.attention_output_bias) each += rows.asked * c.width;
  const int inner = gated(c.mlp) ? 2 : 1;
  if (c.mlp_bias) each += rows.asked * (Count(inner) * c.mlp_width + c.width);
  return each;
}

// Of heads of queries and keys, after their products.
Count head_operations(const Config& c, const LayerRows& rows) {
  const Count heads = rows.asked * c.query_heads + rows.all * c.kv_heads;
  Count each;
  if (c.head_norm) each += norm_operations(Norm::rms, c.head_size);
  // Four multiplications and two additions a pair of dimensions.
  if (c.positions == Positions::rotary) each += Count(6) * (c.rotated() / 2);
  return heads * each;
}

// Of every score after its inner product, all sequences: scale, cap, and the softmax's difference,
// exponential, sum and quotient.
Count score_operations(const Config& c, const LayerRows& rows) {
  const Count each = Count(1) + (c.attention_cap > 0 ? 3 : 0) + 4;
  Count all = each * rows.together;
  // How far a score falls is computed once for sequences that lie side by side.
  if (c.positions == Positions::alibi) all += rows.cached ? rows.together * 2 : rows.together + 1;
  return all * rows.pairs * c.query_heads;
}

Work layer_work(const Config& c, const LayerRows& rows) {
  const Count all = rows.all * rows.together;
  const Count asked = rows.asked * rows.together;
  const Count width = c.width;
  Work work;
  work.projections = asked * width * c.query_width() * 2 + all * width * c.kv_width() * 2;
  work.attention = rows.together * rows.pairs * c.query_width() * 2;
  work.mlp = asked * width * c.mlp_width * (gated(c.mlp) ? 3 : 2);
  work.rest = (all + asked) * norm_operations(c.norm, width) +
              rows.together * (bias_operations(c, rows) + head_operations(c, rows)) +
              score_operations(c, rows) + asked * width * 2 +
              asked * c.mlp_width * activation_operations(c.mlp);
  if (c.post_norms) work.rest += asked * 2 * norm_operations(c.norm, width);
  return work;
}

Work work_outside(const Config& c, const Phase& phase) {
  const Count all = Count(phase.tokens) * phase.sequences;
  const Count answered = phase.answered == Rows::all ? all : Count(phase.sequences);
  Work work;
  work.output = answered * c.width * c.vocabulary;
  work.rest = all * c.width * (c.positions == Positions::learned ? 2 : 1) +
              answered * norm_operations(c.norm, c.width);
  if (c.logit_cap > 0) work.rest += answered * c.vocabulary * 3;
  return work;
}

// The sum of visible_pairs(0, n, window) over n = 1 .. length.
Count pairs_of_all_prefixes(Count length, Count window) {
  if (window == 0 || length <= window) return tetrahedron(length);
  const Count beyond = length - window;
  return tetrahedron(window) + beyond * triangle(window) + window * triangle(beyond);
}

// Slots that a layer sets aside for a sequence of `rows` rows.
Count slots_of(const Config& config, const CacheKind& kind, int window, Count rows) {
  const Count context = std::max(Count(config.context), rows);
  switch (kind.layout) {
    case CacheLayout::growing:
      if (rows > std::int64_t{1} << 61) too_large();  // the next power of two has 64 bits
      return std::min(context, Count(std::bit_ceil(static_cast<std::uint64_t>(rows.value()))));
    case CacheLayout::ring:
      return window > 0 ? std::min(Count(window), context) : context;
    case CacheLayout::paged: {
      const Count block = std::min(Count(kind.block), context);
      return (rows + block - 1) / static_cast<int>(block.value()) * block;
    }
    case CacheLayout::flat:
    case CacheLayout::padded_left:
    case CacheLayout::padded_right:
      break;
  }
  return context;
}

Count stored_row_bytes(RowFormat format, int scalars, int number_bytes) {
  if (format == RowFormat::native) return Count(scalars) * number_bytes;
  return row_bytes<float>(format, scalars);
}

}  // namespace

Count Count::checked(WideInteger value) {
  if (value > kCountMax) too_large();
  Count count;
  count.value_ = value;
  return count;
}

std::int64_t Count::value() const {
  if (value_ > std::numeric_limits<std::int64_t>::max()) too_large();
  return static_cast<std::int64_t>(value_);
}

std::string Count::digits() const {
  const auto low = static_cast<std::int64_t>(value_ % kTenTo18);
  const auto high = static_cast<std::int64_t>(value_ / kTenTo18);
  return high == 0 ? fmt::format("{}", low) : fmt::format("{}{:018}", high, low);
}

Count operator+(Count a, Count b) { return Count::checked(a.value_ + b.value_); }

Count operator*(Count a, Count b) {
  if (a.value_ != 0 && b.value_ > kCountMax / a.value_) too_large();
  return Count::checked(a.value_ * b.value_);
}

Count operator-(Count a, Count b) {
  require(a >= b, "a count is not negative");
  return Count::checked(a.value_ - b.value_);
}

Count operator/(Count a, int b) {
  require(b > 0, "counts are divided by whole numbers from 1 on");
  return Count::checked(a.value_ / b);
}

Work& Work::operator+=(const Work& more) {
  projections += more.projections;
  attention += more.attention;
  mlp += more.mlp;
  output += more.output;
  rest += more.rest;
  return *this;
}

Work PhaseWork::total() const {
  Work all = outside;
  for (const Work& layer : layers) all += layer;
  return all;
}

Count visible_pairs(std::int64_t first, std::int64_t queries, std::int64_t window) {
  const std::int64_t growing =
      window == 0 ? queries : std::clamp(window - first, std::int64_t{0}, queries);
  return Count(growing) * first + triangle(growing) + Count(queries - growing) * window;
}

PhaseWork work_of(const Config& config, const Phase& phase) {
  PhaseWork work;
  for (int l = 0; l < config.layers; ++l) {
    work.layers.push_back(layer_work(config, rows_of(config, phase, l)));
  }
  work.outside = work_outside(config, phase);
  return work;
}

RowTraffic row_traffic(const Config& config, const Phase& phase) {
  RowTraffic traffic;
  if (!phase.cached) return traffic;
  for (int l = 0; l < config.layers; ++l) {
    const LayerRows rows = rows_of(config, phase, l);
    traffic.read += rows.pairs * rows.together;
    traffic.written += rows.all * rows.together;
  }
  return traffic;
}

Count weights_read(const Config& config, const Phase& phase) {
  const Count rows = Count(phase.tokens) * phase.sequences;
  Count all = Count(parameter_count(config, Part::attention)) + parameter_count(config, Part::mlp) +
              parameter_count(config, Part::norms) + Count(config.width) * config.vocabulary;
  all += rows * config.width;
  if (config.positions == Positions::learned) all += rows * config.width;
  return all;
}

CacheBytes cache_kind_bytes(const Config& config, const CacheKind& kind, Count rows,
                            int number_bytes) {
  const Count row = stored_row_bytes(kind.format, config.kv_width(), number_bytes) * 2;
  CacheBytes bytes;
  for (const int window : config.windows) {
    const bool ring = kind.layout == CacheLayout::ring && window > 0;
    bytes.held += (ring ? std::min(rows, Count(window)) : rows) * row;
    bytes.taken += slots_of(config, kind, window, rows) * row;
  }
  return bytes;
}

RunWork run_work(const Config& c, std::int64_t length, std::int64_t sequences) {
  const Phase all{.tokens = length, .sequences = 1, .answered = Rows::all};
  const Count anew = triangle(length);  // rows of all prefixes
  const Count gates = gated(c.mlp) ? 3 : 2;
  const Count keys = Count(c.width) * c.kv_width() * 2;
  const Count others = Count(c.width) * c.query_width() * 2 + gates * c.width * c.mlp_width;
  Count uncached = Count(length) * c.width * c.vocabulary;
  for (int l = 0; l < c.layers; ++l) {
    const bool top = l == c.layers - 1;
    const int window = c.windows[static_cast<std::size_t>(l)];
    const Count pairs =
        top ? visible_pairs(0, length, window) : pairs_of_all_prefixes(length, window);
    uncached += anew * keys + (top ? Count(length) : anew) * others + pairs * c.query_width() * 2;
  }
  return {work_of(c, all).total().multiply_adds() * sequences, uncached * sequences};
}

}  // namespace kvcheck
