// SPDX-License-Identifier: MIT
// Margins of decisions.
#include "verify/decision.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <vector>

#include "engine/error.h"

namespace kvcheck {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Of what does not differ, be it infinite, 0; infinite where it cannot be computed.
double difference(double a, double b) {
  if (a == b) return 0;
  const double apart = std::abs(a - b);
  return apart < kInfinity ? apart : kInfinity;
}

double largest_difference(std::span<const double> a, std::span<const double> b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, difference(a[i], b[i]));
  return largest;
}

Decision between_logits(std::span<const double> uncached, std::span<const double> cached, int first,
                        int second) {
  const auto a = static_cast<std::size_t>(first);
  const auto b = static_cast<std::size_t>(second);
  return decision_of(uncached[a] - uncached[b],
                     difference(uncached[a], cached[a]) + difference(uncached[b], cached[b]),
                     "gap of the two logits");
}

bool same_tokens(const std::vector<Candidate>& a, const std::vector<Candidate>& b) {
  return std::ranges::equal(a, b, {}, &Candidate::token, &Candidate::token);
}

// How far u lies from the interval of `other` among the uncached candidates.
Decision between_intervals(const std::vector<Candidate>& uncached,
                           const std::vector<Candidate>& cached, int other, double u) {
  double edge = 0;
  double cached_edge = 0;
  double change = kEdgeSlack;
  double margin = kInfinity;
  for (std::size_t i = 0; i < uncached.size(); ++i) {
    const double low = edge;
    edge += uncached[i].probability;
    cached_edge += cached[i].probability;
    change = std::max(change, difference(edge, cached_edge) + kEdgeSlack);
    if (uncached[i].token == other) margin = u < low ? low - u : std::max(0.0, u - edge);
  }
  return decision_of(margin, change, "distance of the draw to the other token");
}

// The cuts of one row of logits.
class Cuts {
 public:
  Cuts(const DecodingPolicy& policy, std::vector<double> logits, double moved)
      : policy_(policy), logits_(std::move(logits)), moved_(moved) {
    std::vector<double> sorted = logits_;
    std::ranges::sort(sorted, std::greater<>());
    largest_ = sorted.front();
    if (policy.top_k) kth_ = sorted[static_cast<std::size_t>(*policy.top_k) - 1];
    for (const double logit : logits_) {
      // What top-k leaves out has no share in top-p; those at the edge may be on either side.
      const bool in = !policy.top_k || logit >= kth_;
      weights_.push_back(in ? std::exp((logit - largest_) / policy.temperature) : 0);
      total_ += weights_.back();
    }
  }

  // The cut that was closest to deciding otherwise about the token.
  [[nodiscard]] Decision closest(int token) const {
    std::vector<Decision> cuts;
    const double logit = logits_[static_cast<std::size_t>(token)];
    if (policy_.top_k)
      cuts.push_back(decision_of(difference(logit, kth_), 2 * moved_, "cut of top-k"));
    if (policy_.top_p) cuts.push_back(by_share(logit));
    if (policy_.min_p) {
      const double size = (logit - largest_) / policy_.temperature;
      cuts.push_back(decision_of(difference(size, std::log(*policy_.min_p)),
                                 2 * moved_ / policy_.temperature + kEdgeSlack, "cut of min-p"));
    }
    if (cuts.empty()) return decision_of(kInfinity, 0, "no cut");
    return *std::ranges::min_element(cuts, {}, &Cuts::excess);
  }

  // Of two decisions the one with more is further from a tie.
  static double excess(const Decision& cut) { return cut.margin - cut.change; }

 private:
  [[nodiscard]] Decision by_share(double logit) const {
    double before = 0;
    double near = 0;
    for (std::size_t i = 0; i < logits_.size(); ++i) {
      const double share = weights_[i] / total_;
      if (difference(logits_[i], logit) <= 2 * moved_) near += share;
      if (logits_[i] > logit) before += share;
    }
    const double change = std::exp(2 * moved_ / policy_.temperature) - 1;
    return decision_of(difference(before, *policy_.top_p), change + near + kEdgeSlack,
                       "cut of top-p");
  }

  const DecodingPolicy& policy_;
  const std::vector<double> logits_;
  const double moved_;
  double largest_ = 0;
  double kth_ = 0;
  std::vector<double> weights_;
  double total_ = 0;
};

std::set<int> tokens_of(const std::vector<Candidate>& candidates) {
  std::set<int> tokens;
  for (const Candidate& one : candidates) tokens.insert(one.token);
  return tokens;
}

Decision between_cuts(const Cuts& cuts, const std::vector<Candidate>& uncached,
                      const std::vector<Candidate>& cached) {
  std::vector<int> changed;
  std::ranges::set_symmetric_difference(tokens_of(uncached), tokens_of(cached),
                                        std::back_inserter(changed));
  std::vector<Decision> decisions;
  for (const int token : changed) decisions.push_back(cuts.closest(token));
  return *std::ranges::max_element(decisions, {}, &Cuts::excess);
}

}  // namespace

Decision decision_of(double margin, double change, std::string_view by) {
  return {margin <= change, margin, change, by};
}

Decision compare_decisions(const DecodingPolicy& policy, std::span<const int> seen,
                           std::span<const double> uncached, std::span<const double> cached,
                           DrawPlace place) {
  PolicyScratch scratch;
  const int first = choose(policy, uncached, seen, place, scratch).token;
  const int second = choose(policy, cached, seen, place, scratch).token;
  require(first != second, "two decisions that are the same need no explanation");
  const std::vector<double> a = penalised(policy, uncached, seen);
  const std::vector<double> b = penalised(policy, cached, seen);
  const double moved = largest_difference(a, b);
  if (!(moved < kInfinity)) return {false, kInfinity, kInfinity, "logits that are not finite"};
  if (policy.greedy()) return between_logits(a, b, first, second);
  const std::vector<Candidate> from_a = candidates(policy, uncached, seen);
  const std::vector<Candidate> from_b = candidates(policy, cached, seen);
  if (same_tokens(from_a, from_b)) {
    return between_intervals(from_a, from_b, second, uniform_of(place));
  }
  return between_cuts(Cuts(policy, a, moved), from_a, from_b);
}

}  // namespace kvcheck
