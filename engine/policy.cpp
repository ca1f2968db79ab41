// SPDX-License-Identifier: MIT
// The stages of a choice. Nothing here sorts more than some dozens of values: where the cut of
// top-k or of top-p falls is guessed (from maxima of blocks, or from a sample), only what lies
// about there is looked at one by one, and bins tell it apart. As sums on the way to a cut are
// exact, a wrong guess is seen, costs time and changes nothing.
#include "engine/policy.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "engine/random.h"
#include "engine/row_ops_impl.h"

namespace kvcheck {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Ranked = PolicyScratch::Ranked;

// Of equal values the lower id comes first.
bool before(const Ranked& a, const Ranked& b) {
  return a.value > b.value || (a.value == b.value && a.id < b.id);
}

double with_penalty(double logit, double penalty) {
  return logit > 0 ? logit / penalty : logit * penalty;
}

std::span<const double> after_penalty(const DecodingPolicy& policy, std::span<const double> logits,
                                      std::span<const int> seen, PolicyScratch& scratch) {
  if (policy.penalty == 1 || seen.empty()) return logits;
  scratch.penalised.assign(logits.begin(), logits.end());
  for (const int token : seen) {
    const auto id = static_cast<std::size_t>(token);
    scratch.penalised[id] = with_penalty(logits[id], policy.penalty);
  }
  return scratch.penalised;
}

// Calls work(first, count) for each block of ids.
template <typename Work>
void blocks(std::size_t count, Work work) {
  for (std::size_t at = 0; at < count; at += kSumBlock) {
    work(at, std::min<std::size_t>(kSumBlock, count - at));
  }
}

struct Block {
  double largest;
  bool good;  // neither NaN nor +inf
};

bool is_logit(double x) { return x < kInfinity; }  // false for a NaN too

// Eight interleaved maxima, so that they run side by side. Only what is not finite leaves a NaN
// when it is multiplied by 0.
Block look_at(std::span<const double> values) {
  constexpr int kLanes = 8;
  row::Lanes<double, kLanes> largest = row::Lanes<double, kLanes>::Constant(-kInfinity);
  row::Lanes<double, kLanes> zeros = row::Lanes<double, kLanes>::Zero();
  std::size_t at = 0;
  for (; at + kLanes <= values.size(); at += kLanes) {
    const auto some = row::lanes<kLanes>(values.data() + at);
    largest = largest.max(some);
    zeros += some * 0.0;
  }
  Block block{largest.maxCoeff(), true};
  for (; at < values.size(); ++at) {
    block.largest = std::max(block.largest, values[at]);
    zeros[0] += values[at] * 0.0;
  }
  if (!(zeros == 0.0).all()) block.good = std::ranges::all_of(values, is_logit);
  return block;
}

// The largest logit; the largest of each block on the way.
double find_maxima(std::span<const double> logits, std::vector<double>& maxima) {
  maxima.clear();
  bool good = !logits.empty();
  double largest = -kInfinity;
  blocks(logits.size(), [&](std::size_t first, std::size_t count) {
    const Block block = look_at(logits.subspan(first, count));
    good = good && block.good;
    maxima.push_back(block.largest);
    largest = std::max(largest, block.largest);
  });
  if (!good) throw BadLogits("logits: NaN or +inf, from which no token can be chosen");
  if (largest == -kInfinity) throw BadLogits("logits: no token is possible, all are -inf");
  return largest;
}

int first_of(std::span<const double> logits, double largest) {
  return static_cast<int>(std::ranges::find(logits, largest) - logits.begin());
}

// ---- Where a running sum reaches what it should

// A sum of weights of at most 1 that does not depend on the order of adding: each is taken to be a
// multiple of 2^-57, and the parts of 2^-28 and of less are added apart, both without rounding.
// Good for 2^24 weights, as many as a vocabulary may have.
struct ExactSum {
  double high = 0;
  double low = 0;

  void add(double weight) {
    const double part = rounded(weight, kHighShift);
    high += part;
    low += rounded(weight - part, kLowShift);
  }
  void add(const ExactSum& other) {
    high += other.high;
    low += other.low;
  }
  // Rounded once, so that it does not fall while weights are added.
  [[nodiscard]] double value() const { return high + low; }

 private:
  static constexpr double kHighShift = 0x1.8p24;  // 1.5 * 2^52 * 2^-28: adding it rounds to 2^-28
  static constexpr double kLowShift = 0x1.8p-5;   // to 2^-57
  static double rounded(double x, double shift) { return (x + shift) - shift; }
};

// Falls as the value rises, and is the same only for equal values: its bits, seen as a number.
std::uint64_t key_of(double value) {
  const auto bits = std::bit_cast<std::int64_t>(value + 0.0);  // -0 is 0
  const auto rising = bits ^ ((bits >> 63) & std::numeric_limits<std::int64_t>::max());
  return (std::uint64_t{1} << 63) - 1 - static_cast<std::uint64_t>(rising);
}

double value_of(std::uint64_t key) {
  const auto rising = static_cast<std::int64_t>((std::uint64_t{1} << 63) - 1 - key);
  return std::bit_cast<double>(rising ^
                               ((rising >> 63) & std::numeric_limits<std::int64_t>::max()));
}

constexpr int kBinBits = 10;
constexpr std::size_t kFew = 24;  // that are not worth it

// Bins of falling values, by their keys in steps of 2^shift.
struct Bins {
  std::uint64_t first;  // key
  int shift;
  int last;

  [[nodiscard]] int of(double value) const {
    return static_cast<int>((key_of(value) - first) >> shift);
  }
  // The largest value that a bin may hold.
  [[nodiscard]] double largest(int bin) const {
    return value_of(first + (static_cast<std::uint64_t>(bin) << shift));
  }
};

Bins bins_of(std::span<const Ranked> values) {
  double least = values.front().value;
  double most = least;
  for (const Ranked& one : values) {  // std::ranges::minmax branches on each pair
    least = std::min(least, one.value);
    most = std::max(most, one.value);
  }
  const std::uint64_t first = key_of(most);
  const std::uint64_t width = key_of(least) - first;
  const int shift = std::max(0, static_cast<int>(std::bit_width(width)) - kBinBits);
  return {first, shift, static_cast<int>(width >> shift)};
}

// The sums of the measures in each bin: of the high parts, then of the low parts.
template <typename Measure>
void fill_bins(std::span<const Ranked> values, const Bins& bins, Measure measure,
               std::vector<double>& sums) {
  sums.assign(2 * static_cast<std::size_t>(bins.last + 1), 0);
  for (const Ranked& one : values) {
    ExactSum sum;
    sum.add(measure(one.value));
    double* const bin = sums.data() + 2 * bins.of(one.value);
    bin[0] += sum.high;
    bin[1] += sum.low;
  }
}

// Leaves of the values those of the bin in which the sum of the measures reaches `target`; `sum`,
// of those before, moves on to it. False where all are equal.
template <typename Measure>
bool narrow_to_bin(std::vector<Ranked>& values, ExactSum& sum, double target, Measure measure,
                   std::vector<double>& sums) {
  const Bins bins = bins_of(values);
  if (bins.last == 0) return false;
  fill_bins(values, bins, measure, sums);
  int bin = 0;
  for (; bin < bins.last; ++bin) {
    const auto at = 2 * static_cast<std::size_t>(bin);
    ExactSum with = sum;
    with.add(ExactSum{sums[at], sums[at + 1]});
    if (with.value() >= target) break;
    sum = with;
  }
  std::erase_if(values, [&](const Ranked& one) { return bins.of(one.value) != bin; });
  return true;
}

// Of values by rising id: the last one, in the order of before(), of the fewest whose measures come
// to `target` after `sum`; the last of all if none does. The values are used up.
template <typename Measure>
Ranked cut_at(std::vector<Ranked>& values, ExactSum sum, double target, Measure measure,
              std::vector<double>& bins) {
  while (values.size() > kFew && narrow_to_bin(values, sum, target, measure, bins)) {
  }
  if (!std::ranges::is_sorted(values, before)) std::ranges::sort(values, before);
  for (const Ranked& one : values) {
    sum.add(measure(one.value));
    if (sum.value() >= target) return one;
  }
  return values.back();
}

constexpr auto kAsWeight = [](double value) { return value; };
constexpr auto kAsOne = [](double) { return 1.0; };

// ---- Top-k

// At least `k` logits are not below it: the k-th largest of the maxima, each of another token.
double lower_bound_of(int k, PolicyScratch& scratch) {
  scratch.bounds = scratch.maxima;
  const auto at = scratch.bounds.begin() + (k - 1);
  std::nth_element(scratch.bounds.begin(), at, scratch.bounds.end(), std::greater<>());
  return *at;
}

// One value in so many is looked at for a guess at where a cut falls.
constexpr std::size_t kSampleStride = 32;

// Values from `low` on and below `high`, among which a cut should fall.
struct Range {
  double low = -kInfinity;
  double high = kInfinity;
};

// Where the k-th largest logit should lie: three standard deviations either side of the rank that
// it has in the sample.
Range guess_rank(std::span<const double> logits, int k, std::vector<double>& sample) {
  sample.clear();
  for (std::size_t i = 0; i < logits.size(); i += kSampleStride) sample.push_back(logits[i]);
  const double rank = k / static_cast<double>(kSampleStride);
  const double margin = 3 * std::sqrt(rank * (1 - k / static_cast<double>(logits.size()))) + 1;
  auto end = sample.end();
  const auto at = [&](double place) {
    const auto to = sample.begin() + static_cast<std::ptrdiff_t>(place);
    std::nth_element(sample.begin(), to, end, std::greater<>());
    end = to;
    return *to;
  };
  Range range;
  if (rank + margin < static_cast<double>(sample.size())) range.low = at(rank + margin);
  if (rank - margin >= 0) range.high = at(rank - margin);
  return range;
}

// Work space for `count` indices.
int* room_for(std::size_t count, PolicyScratch& scratch) {
  if (scratch.found.size() < count) scratch.found.resize(count);
  return scratch.found.data();
}

// A bit for each of up to kSumBlock values, for whether it is wanted. Each value's own bit first,
// in words as wide as the values, then all of them together: nothing of it is a branch, which could
// not be guessed.
template <typename Wanted>
std::uint64_t mask_of(std::span<const double> values, Wanted wanted) {
  std::array<std::uint64_t, kSumBlock> bits{};
  for (std::size_t i = 0; i < values.size(); ++i) {
    bits[i] = static_cast<std::uint64_t>(wanted(values[i])) << i;
  }
  std::uint64_t mask = 0;
  for (const std::uint64_t bit : bits) mask |= bit;
  return mask;
}

// Writes the indices of the wanted values of a block that begins at `first`; the place after them.
template <typename Wanted>
int* write_wanted(std::span<const double> block, std::size_t first, Wanted wanted, int* next) {
  for (std::uint64_t mask = mask_of(block, wanted); mask != 0; mask &= mask - 1) {
    *next++ = static_cast<int>(first) + std::countr_zero(mask);
  }
  return next;
}

// The values at the indices become `ranked`.
void rank(std::span<const double> values, std::span<const int> indices,
          std::vector<Ranked>& ranked) {
  ranked.resize(indices.size());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    ranked[i] = {values[static_cast<std::size_t>(indices[i])], indices[i]};
  }
}

// The logits of `range` by rising id become `ranked`; how many are not below its end.
int rank_within(std::span<const double> logits, Range range, PolicyScratch& scratch) {
  int* const found = room_for(logits.size(), scratch);
  int* next = found;
  std::int64_t above = 0;  // as wide as what is compared
  blocks(logits.size(), [&](std::size_t first, std::size_t count) {
    if (scratch.maxima[first / kSumBlock] < range.low) return;
    const auto block = logits.subspan(first, count);
    next = write_wanted(
        block, first, [=](double x) { return (x >= range.low) & (x < range.high); }, next);
    if (scratch.maxima[first / kSumBlock] < range.high) return;
    for (const double x : block) above += x >= range.high ? 1 : 0;
  });
  rank(logits, {found, next}, scratch.ranked);
  return static_cast<int>(above);
}

// The last of the k largest logits.
Ranked cut_of_rank(std::span<const double> logits, int k, PolicyScratch& scratch) {
  const bool few = static_cast<std::size_t>(k) <= scratch.maxima.size();
  const Range range =
      few ? Range{lower_bound_of(k, scratch), kInfinity} : guess_rank(logits, k, scratch.values);
  int above = rank_within(logits, range, scratch);
  const auto within = [&] { return static_cast<std::size_t>(k - above) <= scratch.ranked.size(); };
  if (above >= k || !within()) above = rank_within(logits, {}, scratch);
  return cut_at(scratch.ranked, {static_cast<double>(above), 0}, k, kAsOne, scratch.bins);
}

// The ids of the k largest logits, rising, and their logits.
void keep_largest(std::span<const double> logits, int k, PolicyScratch& scratch) {
  const Ranked cut = cut_of_rank(logits, k, scratch);
  scratch.ids.resize(static_cast<std::size_t>(k));
  scratch.values.resize(static_cast<std::size_t>(k));
  int* id = scratch.ids.data();
  double* value = scratch.values.data();
  const auto ties = static_cast<std::size_t>(cut.id) + 1;  // that stay, by their id
  const auto keep = [&](std::size_t first, std::size_t count, auto wanted) {
    const auto block = logits.subspan(first, count);
    for (std::uint64_t mask = mask_of(block, wanted); mask != 0; mask &= mask - 1) {
      const int at = std::countr_zero(mask);
      *id++ = static_cast<int>(first) + at;
      *value++ = block[static_cast<std::size_t>(at)];
    }
  };
  blocks(logits.size(), [&](std::size_t first, std::size_t count) {
    if (scratch.maxima[first / kSumBlock] < cut.value) return;
    const std::size_t with = std::clamp(ties, first, first + count) - first;
    keep(first, with, [=](double x) { return x >= cut.value; });
    if (with == count) return;
    keep(first + with, count - with, [=](double x) { return x > cut.value; });
  });
}

// ---- Weights

constexpr int kSumLanes = 8;

// Eight interleaved partial sums.
void add_lanes(const double* weights, std::size_t count, double* partial) {
  row::Lanes<double, kSumLanes> lanes = row::Lanes<double, kSumLanes>::Zero();
  std::size_t at = 0;
  for (; at + kSumLanes <= count; at += kSumLanes) lanes += row::lanes<kSumLanes>(weights + at);
  row::lanes<kSumLanes>(partial) = lanes;
  for (std::size_t i = 0; at < count; ++at, ++i) partial[i] += weights[at];
}

// The sum of each block. Work(weights, first, count), which is called for each, may still change
// them. Partial sums are added up when all are there: at once, they would be waited for.
template <typename Work>
void sum_blocks(PolicyScratch& scratch, Work work) {
  const std::size_t count = (scratch.weights.size() + kSumBlock - 1) / kSumBlock;
  scratch.partial.resize(count * kSumLanes);
  scratch.sums.resize(count);
  blocks(scratch.weights.size(), [&](std::size_t first, std::size_t size) {
    double* const weights = scratch.weights.data() + first;
    work(weights, first, size);
    add_lanes(weights, size, scratch.partial.data() + first / kSumBlock * kSumLanes);
  });
  for (std::size_t block = 0; block < count; ++block) {
    const double* const s = scratch.partial.data() + block * kSumLanes;
    scratch.sums[block] = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
  }
}

// Weights, and the sum of each block.
void weigh(std::span<const double> logits, double largest, double temperature,
           PolicyScratch& scratch) {
  const double inverse = 1 / temperature;
  scratch.weights.resize(logits.size());
  sum_blocks(scratch, [&](double* weights, std::size_t first, std::size_t count) {
    const double* const from = logits.data() + first;
    for (std::size_t i = 0; i < count; ++i) {
      weights[i] = row::exponential<double>((from[i] - largest) * inverse);
    }
  });
}

double total_of(const PolicyScratch& scratch) {
  double total = 0;
  for (const double sum : scratch.sums) total += sum;
  return total;
}

// ---- Top-p

// The sum of the weights that are not below `high`.
ExactSum sum_from(std::span<const double> weights, double high) {
  std::array<double, kSumBlock> parts{};
  std::array<double, kSumBlock> rests{};
  row::Lanes<double, kSumBlock> sum = row::Lanes<double, kSumBlock>::Zero();
  row::Lanes<double, kSumBlock> rest = row::Lanes<double, kSumBlock>::Zero();
  blocks(weights.size(), [&](std::size_t first, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      ExactSum one;
      one.add(weights[first + i] >= high ? weights[first + i] : 0);
      parts[i] = one.high;
      rests[i] = one.low;
    }
    for (std::size_t i = count; i < kSumBlock; ++i) parts[i] = rests[i] = 0;
    sum += row::lanes<kSumBlock>(parts.data());
    rest += row::lanes<kSumBlock>(rests.data());
  });
  ExactSum total;  // whatever the order
  for (int i = 0; i < kSumBlock; ++i) total.add(ExactSum{sum[i], rest[i]});
  return total;
}

// The weights of `range` become `ranked`, by rising index.
void collect(std::span<const double> weights, Range range, PolicyScratch& scratch) {
  int* const found = room_for(weights.size(), scratch);
  int* next = found;
  blocks(weights.size(), [&](std::size_t first, std::size_t count) {
    next = write_wanted(
        weights.subspan(first, count), first,
        [=](double x) { return (x >= range.low) & (x < range.high); }, next);
  });
  rank(weights, {found, next}, scratch.ranked);
}

constexpr std::size_t kFewWeights = 4096;  // that no sample is taken of

// The sample of the weights that are not smaller than `least`; what the others in it come to.
double sample_of(std::span<const double> weights, double least, std::vector<Ranked>& sample) {
  sample.clear();
  double below = 0;
  for (std::size_t i = 0; i < weights.size(); i += kSampleStride) {
    const bool large = weights[i] >= least;
    if (large) sample.push_back({weights[i], static_cast<int>(i)});
    below += large ? 0 : weights[i];
  }
  return below;
}

// Where the cut should fall that leaves out `rest` of the sum of the weights. All that are smaller
// than `least` come to less. As each that is left out weighs no more than the cut, the variance of
// what a sample leaves out is at most the cut times that; three standard deviations either side.
Range guess_cut(std::span<const double> weights, double least, double rest,
                PolicyScratch& scratch) {
  const Range all{least, kInfinity};
  if (weights.size() < kFewWeights) return all;
  const double below = sample_of(weights, least, scratch.ranked);
  if (scratch.ranked.size() <= kFew) return all;
  const Bins bins = bins_of(scratch.ranked);
  fill_bins(scratch.ranked, bins, kAsWeight, scratch.bins);
  const double share = rest / kSampleStride;
  // From the smallest weights on, the first bin with which the sum comes to `sum`; -1: none.
  const auto bin_at = [&](double sum) {
    sum -= below;
    int bin = bins.last;
    for (; bin >= 0 && sum > 0; --bin) {
      sum -= scratch.bins[2 * static_cast<std::size_t>(bin)];
      if (sum <= 0) break;
    }
    return bin;
  };
  const double margin = 3 * std::sqrt(bins.largest(std::max(0, bin_at(share))) * share);
  const int low = bin_at(share - margin);
  const int high = bin_at(share + margin);
  return {low < bins.last ? bins.largest(low + 1) : least,
          high > 0 ? bins.largest(high) : kInfinity};
}

// The last of the weights, by falling weight, of the fewest that come to `share` of `total`.
Ranked cut_of_share(double share, double total, PolicyScratch& scratch) {
  const std::span<const double> weights = scratch.weights;
  const double rest = (1 - share) * total;
  const double least = 0.999 * rest / static_cast<double>(weights.size());
  const double target = share * total;
  const Range range = guess_cut(weights, least, rest, scratch);
  ExactSum above;
  if (range.high < kInfinity) above = sum_from(weights, range.high);
  collect(weights, range, scratch);
  ExactSum all = above;
  for (const Ranked& one : scratch.ranked) all.add(one.value);
  if (!(above.value() < target && all.value() >= target)) {
    above = {};
    collect(weights, {std::numeric_limits<double>::min(), kInfinity}, scratch);
  }
  return cut_at(scratch.ranked, above, target, kAsWeight, scratch.bins);
}

// Weights stay that are larger than the cut's, or as large and not of a higher index; the others
// become 0. Sums them again.
void keep_to(const Ranked& cut, PolicyScratch& scratch) {
  const auto ties = static_cast<std::size_t>(cut.id) + 1;  // that stay, by their index
  sum_blocks(scratch, [&](double* weights, std::size_t first, std::size_t count) {
    const std::size_t with = std::clamp(ties, first, first + count) - first;
    for (std::size_t i = 0; i < with; ++i) weights[i] = weights[i] >= cut.value ? weights[i] : 0;
    for (std::size_t i = with; i < count; ++i) weights[i] = weights[i] > cut.value ? weights[i] : 0;
  });
}

// Stages 5 and 6.
void narrow(const DecodingPolicy& policy, PolicyScratch& scratch) {
  Ranked cut{0, std::numeric_limits<int>::max()};
  if (policy.top_p && *policy.top_p < 1) {
    cut = cut_of_share(*policy.top_p, total_of(scratch), scratch);
  }
  if (policy.min_p && *policy.min_p > cut.value) {  // of the largest weight, which is 1
    cut = {*policy.min_p, std::numeric_limits<int>::max()};
  }
  if (cut.value > 0) keep_to(cut, scratch);
}

// ---- The draw

struct Drawn {
  std::size_t index;
  double total;  // of the weights
};

// A block is always found: u is at most 1 - 2^-53, and so u times the sum is less than the sum.
// Inside it, rounding may leave the draw behind the last token: then it is the last one that can be
// drawn.
Drawn draw_from(const PolicyScratch& scratch, double u) {
  const std::vector<double>& weights = scratch.weights;
  const double total = total_of(scratch);
  const double target = u * total;
  double sum = 0;
  std::size_t last = 0;  // block in which something can be drawn
  for (std::size_t block = 0; block < scratch.sums.size(); ++block) {
    if (scratch.sums[block] == 0) continue;
    last = block;
    if (sum + scratch.sums[block] > target) break;
    sum += scratch.sums[block];
  }
  std::size_t found = 0;
  const std::size_t first = last * kSumBlock;
  for (std::size_t i = first; i < std::min(weights.size(), first + kSumBlock); ++i) {
    if (weights[i] == 0) continue;
    found = i;
    sum += weights[i];
    if (sum > target) break;
  }
  return {found, total};
}

// Stages 3 to 6: `scratch.weights`, of `scratch.ids` or of all, and their sums.
void weigh_candidates(const DecodingPolicy& policy, std::span<const double> logits, double largest,
                      PolicyScratch& scratch) {
  scratch.ids.clear();
  if (policy.top_k && static_cast<std::size_t>(*policy.top_k) < logits.size()) {
    keep_largest(logits, *policy.top_k, scratch);
    weigh(scratch.values, largest, policy.temperature, scratch);
  } else {
    weigh(logits, largest, policy.temperature, scratch);
  }
  narrow(policy, scratch);
}

int id_at(const PolicyScratch& scratch, std::size_t index) {
  return scratch.ids.empty() ? static_cast<int>(index) : scratch.ids[index];
}

}  // namespace

double uniform_of(DrawPlace place) {
  static const std::uint64_t kStream = stream_of("decoding");
  return Draw{place.seed, kStream, place.step}.next_uniform();
}

Chosen choose(const DecodingPolicy& policy, std::span<const double> logits,
              std::span<const int> seen, DrawPlace place, PolicyScratch& scratch) {
  logits = after_penalty(policy, logits, seen, scratch);
  const double largest = find_maxima(logits, scratch.maxima);
  if (policy.greedy()) return {first_of(logits, largest), 1};
  weigh_candidates(policy, logits, largest, scratch);
  const Drawn drawn = draw_from(scratch, uniform_of(place));
  return {id_at(scratch, drawn.index), scratch.weights[drawn.index] / drawn.total};
}

std::vector<double> penalised(const DecodingPolicy& policy, std::span<const double> logits,
                              std::span<const int> seen) {
  PolicyScratch scratch;
  const std::span<const double> after = after_penalty(policy, logits, seen, scratch);
  return {after.begin(), after.end()};
}

std::vector<Candidate> candidates(const DecodingPolicy& policy, std::span<const double> logits,
                                  std::span<const int> seen) {
  PolicyScratch scratch;
  logits = after_penalty(policy, logits, seen, scratch);
  const double largest = find_maxima(logits, scratch.maxima);
  if (policy.greedy()) return {{first_of(logits, largest), largest, 1}};
  weigh_candidates(policy, logits, largest, scratch);
  const double total = total_of(scratch);
  std::vector<Candidate> found;
  for (std::size_t i = 0; i < scratch.weights.size(); ++i) {
    if (scratch.weights[i] == 0) continue;
    const int id = id_at(scratch, i);
    found.push_back({id, logits[static_cast<std::size_t>(id)], scratch.weights[i] / total});
  }
  return found;
}

double softmax_at(std::span<const double> logits, int token) {
  PolicyScratch scratch;
  const double largest = find_maxima(logits, scratch.maxima);
  weigh(logits, largest, 1, scratch);
  const double total = total_of(scratch);
  return scratch.weights[static_cast<std::size_t>(token)] / total;
}

}  // namespace kvcheck
