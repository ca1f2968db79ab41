// SPDX-License-Identifier: MIT
// A fault: a wrong answer to a question that a cached step asks, a wrong value at a named site, or
// a cache that is changed between operations. The engine knows nothing of faults; they are planted
// through its seams.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/builtin.h"
#include "engine/features.h"
#include "verify/hooked_engine.h"

namespace kvcheck {

// What multiplies a row of the table.
struct FaultParameters {
  std::optional<int> layer = {};   // where the fault is; none: in every layer
  std::optional<int> onset = {};   // rows held from which on feeds are wrong; none: 1
  std::optional<int> amount = {};  // how wrong

  bool operator==(const FaultParameters&) const = default;
};

// One step of the cached decoder, as a fault sees it.
struct FaultStep {
  const Config& config;
  const CacheKind& cache;
  const FaultParameters& at;
  PlannedFeeds feeds;
  const StepPlan& plan;

  [[nodiscard]] const PlannedFeed& feed_of(int row) const {
    return feeds[static_cast<std::size_t>(plan.rows[static_cast<std::size_t>(row)].sequence)];
  }
  // Rows that the row's sequence held before this step, and tokens that it is fed now.
  [[nodiscard]] int held(int row) const { return feed_of(row).held; }
  [[nodiscard]] int tokens(int row) const { return feed_of(row).tokens; }
  // Of a row among those of its feed, from 0.
  [[nodiscard]] int place(int row) const;
  // Whether the row's sequence goes on from a cache, with as many rows as the onset says.
  [[nodiscard]] bool warm(int row) const { return held(row) >= at.onset.value_or(1); }
  [[nodiscard]] bool decode(int row) const { return warm(row) && tokens(row) == 1; }
  [[nodiscard]] bool in_layer(int layer) const { return at.layer.value_or(layer) == layer; }
  [[nodiscard]] int amount() const { return at.amount.value_or(1); }
};

// Rewrites the answers of a plan; step.plan is the plan itself.
using PlanFault = void (*)(StepPlan& plan, const FaultStep& step);

// Changes values at sites. The rows of a SiteTensor are those of the plan, from tensor.row on where
// it is of one row.
struct SiteFault {
  SiteSet sites;
  void (*narrow)(const SiteTensor<float>&, const FaultStep&);
  void (*wide)(const SiteTensor<double>&, const FaultStep&);
};
// `change` is a lambda without captures: [](const auto& tensor, const FaultStep& step) { ... }.
template <typename F>
[[nodiscard]] constexpr SiteFault at_sites(SiteSet sites, F change) {
  return {sites, change, change};
}

// Counts what a fault has changed, over all engines that it is planted in.
class FaultTrace {
 public:
  void changed() { changes_.fetch_add(1, std::memory_order_relaxed); }
  [[nodiscard]] std::int64_t changes() const { return changes_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> changes_{0};
};

// Where a fault of the verbs, or of the caches, is planted: hooks are called instead of the
// engine's verbs, each with the engine inside. Whoever changes something says so to the trace;
// plans and sites are compared before and after, and need not.
template <Scalar T>
struct Planting {
  Builtin<T>& engine;
  const Config config;
  const CacheKind cache;
  const FaultParameters at;
  Hooks& hooks;
  const std::shared_ptr<FaultTrace> trace;

  [[nodiscard]] bool in_layer(int layer) const { return at.layer.value_or(layer) == layer; }
};
struct VerbFault {
  void (*narrow)(const Planting<float>&);
  void (*wide)(const Planting<double>&);
};
// `plant` is a lambda without captures: [](const auto& planting) { ... }.
template <typename F>
[[nodiscard]] constexpr VerbFault at_verbs(F plant) {
  return {plant, plant};
}

enum class Expected {
  caught,
  equivalent,  // changes nothing that anybody could see; `reason` says why
  missed,      // real, and no check here sees it; `reason` says why
};
[[nodiscard]] std::string_view name(Expected expected);

// A few numbers that a table row can hold.
class FewNumbers {
 public:
  constexpr FewNumbers() = default;
  constexpr FewNumbers(std::initializer_list<int> numbers) {
    for (const int number : numbers) numbers_.at(count_++) = number;
  }
  [[nodiscard]] constexpr std::span<const int> all() const {
    return std::span(numbers_).first(count_);
  }

 private:
  std::array<int, 6> numbers_{};
  std::size_t count_ = 0;
};

// Which parameters a row is multiplied by.
struct FaultAxes {
  bool layers = false;  // every layer at once, and each alone
  FewNumbers onsets = {};
  FewNumbers amounts = {};
};

// One row of the table.
struct Fault {
  std::string_view id;
  std::string_view question;    // what is answered wrongly, or the site
  std::string_view summary;     // what is wrong, in one line
  std::string_view stands_for;  // public reports, or the class of them
  Features needs;               // without which it cannot show
  std::string_view cache;       // kind of cache that shows it: a name of cache_kind()
  FaultAxes axes;
  std::variant<PlanFault, SiteFault, VerbFault> change;
  Expected expected = Expected::caught;
  std::string_view reason = {};
  int rarity = 1;  // times as many random sequences of operations as usual, for it to be met

  // Whether the fault can be planted in this model with this kind of cache. A kind must be the very
  // one that the row names, except that flat stands for any that holds whole rows where the fault
  // changes plans or values at sites. Nothing shows in a context of one.
  [[nodiscard]] bool applies(const Config& config, const CacheKind& kind) const;
};

// A fault with its parameters, as cases and tables name it: ID, or ID:layer0:onset2:amount-1.
struct FaultVariant {
  const Fault* fault;
  FaultParameters at;

  bool operator==(const FaultVariant&) const = default;
};
[[nodiscard]] std::string to_text(const FaultVariant& variant);
// All variants of a row for models of this many layers; at least one.
[[nodiscard]] std::vector<FaultVariant> variants(const Fault& fault, int layers);

// What an engine tells of itself: all that the built-in one does, or as little as one that keeps
// its memory to itself: no fingerprints, and no complaints about slots that hold nothing.
enum class Tells { all, logits };

// Told of what the cached decoder has at a site, row after row, once the fault has changed it.
struct SiteWatch {
  SiteSet sites = {};
  std::function<void(Site site, int layer, const std::vector<double>& values)> see = {};
};

// An engine with the fault planted, and its changes counted.
[[nodiscard]] EngineFactory faulty_engine(FaultVariant variant, std::shared_ptr<FaultTrace> trace,
                                          Tells tells = Tells::all, SiteWatch watch = {});

}  // namespace kvcheck
