// SPDX-License-Identifier: MIT
// The stages of a choice. Nothing here sorts a whole vocabulary: the maxima of blocks bound where
// the K largest logits can lie, and a histogram of the weights tells in which small part of them
// the cut of top-p falls.
#include "engine/policy.h"

#include <algorithm>
#include <array>
#include <bit>
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

// At least `k` logits are not below it: the k-th largest of the maxima, each of another token.
double lower_bound_of(int k, PolicyScratch& scratch) {
  if (static_cast<std::size_t>(k) > scratch.maxima.size()) return -kInfinity;
  scratch.bounds = scratch.maxima;
  const auto at = scratch.bounds.begin() + (k - 1);
  std::nth_element(scratch.bounds.begin(), at, scratch.bounds.end(), std::greater<>());
  return *at;
}

// The ids of the k largest logits, rising, and their logits.
void keep_largest(std::span<const double> logits, int k, PolicyScratch& scratch) {
  const double bound = lower_bound_of(k, scratch);
  scratch.ids.clear();
  scratch.ranked.clear();
  blocks(logits.size(), [&](std::size_t first, std::size_t count) {
    if (scratch.maxima[first / kSumBlock] < bound) return;
    for (std::size_t i = first; i < first + count; ++i) {
      if (logits[i] < bound) continue;
      scratch.ids.push_back(static_cast<int>(i));
      scratch.ranked.push_back({logits[i], static_cast<int>(i)});
    }
  });
  const auto last = scratch.ranked.begin() + (k - 1);
  std::nth_element(scratch.ranked.begin(), last, scratch.ranked.end(), before);
  const Ranked cut = *last;
  std::erase_if(scratch.ids, [&](int id) {
    return before(cut, {logits[static_cast<std::size_t>(id)], id});
  });
  scratch.values.clear();
  for (const int id : scratch.ids) scratch.values.push_back(logits[static_cast<std::size_t>(id)]);
}

// A sum of eight interleaved partial sums.
double block_sum(std::span<const double> weights) {
  constexpr std::size_t kLanes = 8;
  std::array<double, kLanes> sums{};
  std::size_t at = 0;
  for (; at + kLanes <= weights.size(); at += kLanes) {
    for (std::size_t i = 0; i < kLanes; ++i) sums[i] += weights[at + i];
  }
  for (std::size_t i = 0; at < weights.size(); ++at, ++i) sums[i] += weights[at];
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

// Weights, and the sum of each block.
void weigh(std::span<const double> logits, double largest, double temperature,
           PolicyScratch& scratch) {
  const double inverse = 1 / temperature;
  scratch.weights.resize(logits.size());
  scratch.sums.clear();
  blocks(logits.size(), [&](std::size_t first, std::size_t count) {
    const double* const from = logits.data() + first;
    double* const to = scratch.weights.data() + first;
    for (std::size_t i = 0; i < count; ++i) {
      to[i] = row::exponential<double>((from[i] - largest) * inverse);
    }
    scratch.sums.push_back(block_sum({to, count}));
  });
}

void sum_again(PolicyScratch& scratch) {
  scratch.sums.clear();
  const std::span<const double> weights = scratch.weights;
  blocks(weights.size(), [&](std::size_t first, std::size_t count) {
    scratch.sums.push_back(block_sum(weights.subspan(first, count)));
  });
}

double total_of(const PolicyScratch& scratch) {
  double total = 0;
  for (const double sum : scratch.sums) total += sum;
  return total;
}

// ---- Top-p

// Sixteen bins an octave from the largest weight, 1, down to 2^-63; the last one takes the rest.
constexpr int kBins = 1024;
constexpr int kBinShift = 48;  // of the bits of a double: its exponent and four bits more
// Neighbours add into different copies, so that none waits for the one before.
constexpr std::size_t kBinCopies = 4;

std::size_t bin_of(double weight) {
  constexpr auto one = std::bit_cast<std::uint64_t>(1.0) >> kBinShift;
  const std::uint64_t below = one - (std::bit_cast<std::uint64_t>(weight) >> kBinShift);
  return static_cast<std::size_t>(std::min<std::uint64_t>(below, kBins - 1));
}

// The weights that are not below `least`, by rising index. Without a branch: whether a weight
// belongs to them cannot be guessed.
void collect(std::span<const double> weights, double least, PolicyScratch& scratch) {
  std::vector<int>& found = scratch.found;
  found.resize(weights.size());
  int* next = found.data();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    *next = static_cast<int>(i);
    next += weights[i] >= least ? 1 : 0;
  }
  found.resize(static_cast<std::size_t>(next - found.data()));
  scratch.ranked.clear();
  for (const int i : found) scratch.ranked.push_back({weights[static_cast<std::size_t>(i)], i});
}

void fill_bins(std::span<const Ranked> weights, std::vector<double>& bins) {
  bins.assign(kBins * kBinCopies, 0);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    bins[(i % kBinCopies) * kBins + bin_of(weights[i].value)] += weights[i].value;
  }
  for (std::size_t copy = 1; copy < kBinCopies; ++copy) {
    for (std::size_t b = 0; b < kBins; ++b) bins[b] += bins[copy * kBins + b];
  }
  bins.resize(kBins);
}

// The last one that stays, where the sum before `bin` is `sum`; `within` is work space.
Ranked cut_within(std::span<const Ranked> weights, std::size_t bin, double sum, double target,
                  std::vector<Ranked>& within) {
  within.clear();
  for (const Ranked& one : weights) {
    if (bin_of(one.value) == bin) within.push_back(one);
  }
  if (!std::ranges::is_sorted(within, before)) std::ranges::sort(within, before);
  for (const Ranked& one : within) {
    sum += one.value;
    if (sum >= target) return one;
  }
  return within.back();  // by rounding: the bin's own sum was added in another order
}

// The last of the weights that stays, of those that come to `target` together.
Ranked cut_at(std::span<const Ranked> weights, double target, PolicyScratch& scratch) {
  fill_bins(weights, scratch.bins);
  double sum = 0;
  std::size_t bin = 0;
  while (bin + 1 < kBins && sum + scratch.bins[bin] < target) sum += scratch.bins[bin++];
  while (scratch.bins[bin] == 0 && bin > 0) --bin;  // rounding left nothing where the target lies
  return cut_within(weights, bin, sum, target, scratch.within);
}

// The weights that stay become all that there are.
void keep_nucleus(double share, PolicyScratch& scratch) {
  if (share == 1) return;
  std::vector<double>& weights = scratch.weights;
  const double total = total_of(scratch);
  // All that are smaller come to less than what need not stay, rounding or not.
  const double least = 0.999 * (1 - share) * total / static_cast<double>(weights.size());
  collect(weights, least, scratch);
  const Ranked cut = cut_at(scratch.ranked, share * total, scratch);
  std::erase_if(scratch.ranked, [&](const Ranked& one) { return before(cut, one); });
  const bool narrowed = !scratch.ids.empty();
  scratch.ids.resize(narrowed ? scratch.ids.size() : scratch.ranked.size());
  for (std::size_t i = 0; i < scratch.ranked.size(); ++i) {
    const auto [weight, from] = scratch.ranked[i];  // from >= i: both rise
    scratch.ids[i] = narrowed ? scratch.ids[static_cast<std::size_t>(from)] : from;
    weights[i] = weight;
  }
  scratch.ids.resize(scratch.ranked.size());
  weights.resize(scratch.ranked.size());
}

// ---- The draw

struct Drawn {
  std::size_t index;
  double total;  // of the weights
};

// Rounding may leave the draw behind the last token of its block, or of all: then it is the last
// one that can be drawn.
Drawn draw_from(const PolicyScratch& scratch, double u) {
  const std::vector<double>& weights = scratch.weights;
  const double total = total_of(scratch);
  const double target = u * total;
  double sum = 0;
  std::size_t found = 0;
  for (std::size_t block = 0; block < scratch.sums.size(); ++block) {
    if (scratch.sums[block] == 0) continue;
    const std::size_t first = block * kSumBlock;
    const bool here = sum + scratch.sums[block] > target;
    double inside = sum;
    for (std::size_t i = first; i < std::min(weights.size(), first + kSumBlock); ++i) {
      if (weights[i] == 0) continue;
      found = i;
      inside += weights[i];
      if (here && inside > target) break;
    }
    if (here) break;
    sum += scratch.sums[block];
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
  if (policy.top_p) keep_nucleus(*policy.top_p, scratch);
  if (policy.min_p) {
    const double least = *policy.min_p;  // of the largest weight, which is 1
    for (double& weight : scratch.weights) weight = weight < least ? 0 : weight;
  }
  if (policy.top_p || policy.min_p) sum_again(scratch);
}

int id_at(const PolicyScratch& scratch, std::size_t index) {
  return scratch.ids.empty() ? static_cast<int>(index) : scratch.ids[index];
}

}  // namespace

double uniform_of(DrawPlace place) {
  static const std::uint64_t stream = stream_of("decoding");
  return Draw{place.seed, stream, place.step}.next_uniform();
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
