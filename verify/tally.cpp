// SPDX-License-Identifier: MIT
// Counting cases.
#include "verify/tally.h"

#include <algorithm>
#include <utility>

namespace kvcheck {
namespace {

// Cases that are taken in beyond those that are kept before the least bad are thrown out again: few
// enough to copy little, many enough to sort out seldom.
constexpr std::size_t kSortedOut = 256;

}  // namespace

// Worse by badness; of equals the earlier one, so that what is kept does not depend on the order of
// adding.
bool Tally::worse(const Ranked& a, const Ranked& b) {
  if (a.badness != b.badness) return a.badness > b.badness;
  return a.subject.index < b.subject.index;
}

void Tally::add(std::span<const int> tokens, const Schedule& schedule, CaseResult result,
                std::int64_t logits) {
  const std::int64_t index = counts_.cases;
  if (!std::ranges::equal(tokens, last_tokens_)) {
    last_tokens_.assign(tokens.begin(), tokens.end());
    ++counts_.prefixes;
  }
  count(result, logits);
  keep(result, [&] {
    return TalliedCase{index, {tokens.begin(), tokens.end()}, schedule, result};
  });
}

void Tally::add(const Operations& operations, std::optional<std::uint64_t> number,
                CaseResult result, std::int64_t logits) {
  const std::int64_t index = counts_.cases;
  count(result, logits);
  keep(result, [&] { return TalliedCase{index, {}, {}, result, operations, number}; });
}

template <typename ToTallied>
void Tally::keep(const CaseResult& result, ToTallied tallied) {
  const double difference = result.row ? result.row->max_abs_difference : 0;
  if (result.row && (!worst_ || difference > worst_->result.row->max_abs_difference)) {
    worst_ = tallied();
  }
  if (keep_ == Keep::all || result.verdict != Verdict::agree) {
    listed_.push_back(tallied());
    return;
  }
  const double bad = badness(policy_, result);
  if (worst_kept_ == 0 || !(bad > least_kept_)) return;  // of equals the earlier one is kept
  rank({bad, tallied()});
}

void Tally::count(const CaseResult& result, std::int64_t logits) {
  ++counts_.cases;
  counts_.logits += logits;
  counts_.diverged += result.verdict == Verdict::diverge ? 1 : 0;
  counts_.undecided += result.verdict == Verdict::gave_up ? 1 : 0;
  counts_.gated += result.mark == Mark::gated ? 1 : 0;
  counts_.widened += result.mark == Mark::widened ? 1 : 0;
  counts_.flaky += result.mark == Mark::flaky ? 1 : 0;
  counts_.ties += result.mark == Mark::tie ? 1 : 0;
  counts_.crashed += result.mark == Mark::crash ? 1 : 0;
  if (result.ratio && !(worst_ratio_ && *result.ratio <= *worst_ratio_)) {
    worst_ratio_ = result.ratio;
  }
  if (result.verdict != Verdict::gave_up) {
    worst_decided_ = worst(worst_decided_.value_or(Verdict::agree), result.verdict);
  }
}

void Tally::rank(Ranked&& subject) {
  // A check of few cases needs no more; one of many would move what it keeps over and over.
  constexpr std::size_t kFew = 64;
  if (agreeing_.size() == kFew) agreeing_.reserve(worst_kept_ + kSortedOut);
  agreeing_.push_back(std::move(subject));
  if (agreeing_.size() >= worst_kept_ + kSortedOut) keep_worst();
}

void Tally::keep_worst() {
  if (agreeing_.size() <= worst_kept_) return;
  const auto last = agreeing_.begin() + static_cast<std::ptrdiff_t>(worst_kept_ - 1);
  std::nth_element(agreeing_.begin(), last, agreeing_.end(), worse);
  least_kept_ = last->badness;
  agreeing_.resize(worst_kept_);
}

void Tally::append(Tally&& later) {
  const std::int64_t base = counts_.cases;
  counts_ += later.counts_;
  if (later.worst_ratio_ && !(worst_ratio_ && *later.worst_ratio_ <= *worst_ratio_)) {
    worst_ratio_ = later.worst_ratio_;
  }
  if (later.worst_decided_) {
    worst_decided_ = worst(worst_decided_.value_or(Verdict::agree), *later.worst_decided_);
  }
  const auto moved = [&](TalliedCase&& subject) {
    subject.index += base;
    return std::move(subject);
  };
  if (later.worst_ && (!worst_ || later.worst_->result.row->max_abs_difference >
                                      worst_->result.row->max_abs_difference)) {
    worst_ = moved(std::move(*later.worst_));
  }
  for (TalliedCase& subject : later.listed_) listed_.push_back(moved(std::move(subject)));
  later.keep_worst();
  for (Ranked& subject : later.agreeing_) {
    rank({subject.badness, moved(std::move(subject.subject))});
  }
}

Verdict Tally::verdict() const {
  if (!worst_decided_) return Verdict::gave_up;
  const auto undecided = static_cast<double>(counts_.undecided);
  if (*worst_decided_ == Verdict::agree &&
      undecided > kGatedShareMax * static_cast<double>(counts_.cases)) {
    return Verdict::gave_up;
  }
  return *worst_decided_;
}

std::vector<TalliedCase> Tally::take_listed() { return std::exchange(listed_, {}); }

std::vector<TalliedCase> Tally::take_worst() {
  keep_worst();
  std::vector<TalliedCase> found;
  for (Ranked& subject : agreeing_) found.push_back(std::move(subject.subject));
  agreeing_.clear();
  std::ranges::sort(found, {}, &TalliedCase::index);
  return found;
}

}  // namespace kvcheck
