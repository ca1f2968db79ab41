// SPDX-License-Identifier: MIT
// Names, variants and the planting of a fault.
#include "verify/fault.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>

namespace kvcheck {
namespace {

// What the seams of one engine share while a step is under way.
template <Scalar T>
struct Seams {
  const Config config;
  const CacheKind cache;
  const FaultParameters at;
  const std::shared_ptr<FaultTrace> trace;
  std::vector<PlannedFeed> feeds = {};  // of the step at hand
  // What a fault was given, kept for its memory: a run makes millions of these copies.
  StepPlan plan_before = {};
  std::vector<T> values_before = {};
};

template <Scalar T>
FaultStep step_of(const Seams<T>& seams, const StepPlan& plan) {
  return {seams.config, seams.cache, seams.at, seams.feeds, plan};
}

// Row by row.
template <Scalar T>
void copy_values(const SiteTensor<T>& tensor, std::vector<T>& values) {
  values.clear();
  for (int r = 0; r < tensor.rows; ++r) {
    for (int c = 0; c < tensor.columns; ++c) values.push_back(tensor.at(r, c));
  }
}

// To the last bit.
template <Scalar T>
bool holds(const SiteTensor<T>& tensor, const std::vector<T>& values) {
  const T* value = values.data();
  for (int r = 0; r < tensor.rows; ++r) {
    for (int c = 0; c < tensor.columns; ++c, ++value) {
      if (std::memcmp(&tensor.at(r, c), value, sizeof(T)) != 0) return false;
    }
  }
  return true;
}

int slot_written(const StepPlan& plan, const SlotView& view, std::size_t row) {
  return view.write.empty() ? plan.rows[row].slot : view.write[row];
}

int position_of(const StepPlan& plan, std::size_t layer, std::size_t row, bool query) {
  if (plan.positions_of_layer.empty()) return plan.rows[row].position;
  const auto& own = plan.positions[static_cast<std::size_t>(plan.positions_of_layer[layer])];
  return query ? own.query[row] : own.key[row];
}

// Of one layer, row by row, wherever the plan states them.
bool same_in_layer(const StepPlan& a, const StepPlan& b, std::size_t layer) {
  const SlotView& of_a = a.views[static_cast<std::size_t>(a.view_of_layer[layer])];
  const SlotView& of_b = b.views[static_cast<std::size_t>(b.view_of_layer[layer])];
  for (std::size_t r = 0; r < a.rows.size(); ++r) {
    const int row = static_cast<int>(r);
    const bool same = std::ranges::equal(of_a.of(row), of_b.of(row)) &&
                      of_a.positions.empty() == of_b.positions.empty() &&
                      (of_a.positions.empty() ||
                       std::ranges::equal(of_a.positions_of(row), of_b.positions_of(row))) &&
                      slot_written(a, of_a, r) == slot_written(b, of_b, r) &&
                      position_of(a, layer, r, true) == position_of(b, layer, r, true) &&
                      position_of(a, layer, r, false) == position_of(b, layer, r, false);
    if (!same) return false;
  }
  return true;
}

// Whether two plans of one step answer every question alike, however they are put together.
bool same_answers(const StepPlan& a, const StepPlan& b) {
  const bool whole = a.rows == b.rows && a.length_after == b.length_after &&
                     a.kv_head_of == b.kv_head_of && a.write_store == b.write_store &&
                     a.read_store == b.read_store && a.rules == b.rules &&
                     a.embedding_scale == b.embedding_scale && a.logit_cap == b.logit_cap &&
                     a.view_of_layer.size() == b.view_of_layer.size();
  for (std::size_t l = 0; whole && l < a.view_of_layer.size(); ++l) {
    if (!same_in_layer(a, b, l)) return false;
  }
  return whole;
}

// The plan is always looked at, so that sites know the step that they belong to.
template <Scalar T>
void install_plan(Builtin<T>& engine, const std::shared_ptr<Seams<T>>& seams, PlanFault fault) {
  engine.rewrite_plans([seams, fault](StepPlan& plan, PlannedFeeds feeds) {
    seams->feeds.assign(feeds.begin(), feeds.end());
    if (fault == nullptr) return;
    seams->plan_before = plan;
    fault(plan, step_of(*seams, plan));
    if (!same_answers(plan, seams->plan_before)) seams->trace->changed();
  });
}

template <Scalar T>
void install_site(Builtin<T>& engine, const std::shared_ptr<Seams<T>>& seams, SiteSet sites,
                  void (*fault)(const SiteTensor<T>&, const FaultStep&)) {
  engine.observe_cached(Observer<T>(
      [&engine, seams, fault](const SiteTensor<T>& tensor) {
        copy_values(tensor, seams->values_before);
        fault(tensor, step_of(*seams, engine.plan()));
        if (!holds(tensor, seams->values_before)) seams->trace->changed();
      },
      sites));
}

template <Scalar T>
auto of_scalar(const SiteFault& fault) {
  if constexpr (std::is_same_v<T, float>)
    return fault.narrow;
  else
    return fault.wide;
}
template <Scalar T>
auto of_scalar(const VerbFault& fault) {
  if constexpr (std::is_same_v<T, float>)
    return fault.narrow;
  else
    return fault.wide;
}

// What the fault itself says of the rows that are held, stays.
template <Scalar T>
void tell_logits_only(Builtin<T>& engine, Hooks& hooks) {
  hooks.can = [](Capabilities& can) { can.fingerprint = can.places = false; };
  if (hooks.held) return;
  hooks.held = [&engine](const Engine&, SequenceId sequence) {
    const KvCache<T>& cache = engine.cache(sequence);
    return Held{cache.length(), cache.next_position(), cache.bytes(cache.length())};
  };
}

// Beside whatever observer the fault has.
template <Scalar T>
void install_watch(Builtin<T>& engine, const SiteWatch& watch) {
  if (!watch.see) return;
  engine.also_observe_cached(Observer<T>(
      [see = watch.see](const SiteTensor<T>& tensor) {
        std::vector<T> values;
        copy_values(tensor, values);
        see(tensor.site, tensor.layer, {values.begin(), values.end()});
      },
      watch.sites));
}

template <Scalar T>
std::unique_ptr<Engine> planted(const ModelData& model, const EngineSetup& setup,
                                const FaultVariant& variant,
                                const std::shared_ptr<FaultTrace>& trace, Tells tells,
                                const SiteWatch& watch) {
  auto builtin = std::make_unique<Builtin<T>>(model.weights, setup.arithmetic, setup.cache);
  Builtin<T>& engine = *builtin;
  const Config& config = model.weights.config;
  auto seams = std::make_shared<Seams<T>>(Seams<T>{config, setup.cache, variant.at, trace});
  const auto& change = variant.fault->change;
  const auto* const plan = std::get_if<PlanFault>(&change);
  install_plan<T>(engine, seams, plan == nullptr ? nullptr : *plan);
  if (const auto* const site = std::get_if<SiteFault>(&change)) {
    install_site<T>(engine, seams, site->sites, of_scalar<T>(*site));
  }
  Hooks hooks;
  if (const auto* const verbs = std::get_if<VerbFault>(&change)) {
    of_scalar<T> (*verbs)({engine, config, setup.cache, variant.at, hooks, trace});
  }
  if (tells == Tells::logits) tell_logits_only(engine, hooks);
  install_watch(engine, watch);
  return std::make_unique<HookedEngine>(std::move(builtin), std::move(hooks));
}

}  // namespace

int FaultStep::place(int row) const {
  int place = 0;
  for (int r = row; r > 0; --r, ++place) {
    const auto at_row = static_cast<std::size_t>(r);
    if (plan.rows[at_row - 1].sequence != plan.rows[at_row].sequence) break;
  }
  return place;
}

std::string_view name(Expected expected) {
  static constexpr std::array<std::string_view, 3> kNames{"caught", "equivalent", "missed"};
  return kNames[static_cast<std::size_t>(expected)];
}

bool Fault::applies(const Config& config, const CacheKind& kind) const {
  if (config.context < 2 || !features_of(config).contains(needs)) return false;
  const CacheKind own = cache_kind(cache, "fault");
  // Who changes rows by hand counts on where they lie.
  const bool anywhere = own == CacheKind{} && !std::holds_alternative<VerbFault>(change);
  return anywhere ? !kind.lossy() : own == kind;
}

std::string to_text(const FaultVariant& variant) {
  std::string text(variant.fault->id);
  if (variant.at.layer) text += fmt::format(":layer{}", *variant.at.layer);
  if (variant.at.onset) text += fmt::format(":onset{}", *variant.at.onset);
  if (variant.at.amount) text += fmt::format(":amount{}", *variant.at.amount);
  return text;
}

std::vector<FaultVariant> variants(const Fault& fault, int layers) {
  const auto axis = [](const FewNumbers& numbers) {
    const std::span<const int> values = numbers.all();
    std::vector<std::optional<int>> all(values.begin(), values.end());
    if (all.empty()) all.emplace_back();
    return all;
  };
  std::vector<std::optional<int>> of_layer{std::nullopt};
  for (int l = 0; fault.axes.layers && l < layers; ++l) of_layer.emplace_back(l);
  std::vector<FaultVariant> found;
  for (const auto& layer : of_layer) {
    for (const auto& onset : axis(fault.axes.onsets)) {
      for (const auto& amount : axis(fault.axes.amounts)) {
        found.push_back({&fault, {layer, onset, amount}});
      }
    }
  }
  return found;
}

EngineFactory faulty_engine(FaultVariant variant, std::shared_ptr<FaultTrace> trace, Tells tells,
                            SiteWatch watch) {
  return [variant, trace = std::move(trace), tells, watch = std::move(watch)](
             const ModelData& model, const EngineSetup& setup) {
    return setup.scalar == ScalarKind::f32
               ? planted<float>(model, setup, variant, trace, tells, watch)
               : planted<double>(model, setup, variant, trace, tells, watch);
  };
}

}  // namespace kvcheck
