// SPDX-License-Identifier: MIT
// Small models and wrong engines for the tests of the harness.
#include "verify/test_faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "engine/builtin.h"
#include "engine/error.h"
#include "verify/case_text.h"

namespace kvcheck {
namespace {

// The layer that sees farthest back.
int widest_layer(const Config& config) {
  int widest = 0;
  for (int l = 1; l < config.layers; ++l) {
    const int last = config.context - 1;
    if (config.first_visible(l, last) < config.first_visible(widest, last)) widest = l;
  }
  return widest;
}

template <Scalar T>
struct Fed {
  KvCache<T>& cache;
  const Config& config;
  int before;  // rows that the cache held before this feed
};

// The built-in engine whose caches are changed by `patch` after every feed.
template <Scalar T, typename Patch>
std::unique_ptr<Engine> patched(const ModelData& model, Arithmetic arithmetic, Patch patch) {
  auto builtin = std::make_unique<Builtin<T>>(model.weights, arithmetic);
  Builtin<T>& caches = *builtin;
  const Config& config = model.weights.config;
  Hooks hooks;
  hooks.feed = [&caches, &config, patch](Engine& inner, std::span<const Feed> feeds, Rows rows,
                                         Logits& out) {
    std::vector<int> before;
    for (const Feed& feed : feeds) before.push_back(caches.cache(feed.sequence).length());
    inner.batch(feeds, rows, out);
    for (std::size_t i = 0; i < feeds.size(); ++i) {
      patch(Fed<T>{caches.cache(feeds[i].sequence), config, before[i]});
    }
  };
  return std::make_unique<HookedEngine>(std::move(builtin), std::move(hooks));
}

template <typename Patch>
EngineFactory patching(Patch patch) {
  return [patch](const ModelData& model, const EngineSetup& setup) {
    return setup.scalar == ScalarKind::f32 ? patched<float>(model, setup.arithmetic, patch)
                                           : patched<double>(model, setup.arithmetic, patch);
  };
}

template <Scalar T>
std::unique_ptr<Engine> rewritten(const ModelData& model, Arithmetic arithmetic,
                                  PlanRewrite rewrite) {
  auto engine = std::make_unique<Builtin<T>>(model.weights, arithmetic);
  engine->rewrite_plans(std::move(rewrite));
  return engine;
}

template <Scalar T>
std::unique_ptr<Engine> rounding_to_half(const ModelData& model, Arithmetic arithmetic) {
  auto engine = std::make_unique<Builtin<T>>(model.weights, arithmetic);
  engine->observe_cached([](const SiteTensor<T>& tensor) {
    if (tensor.site != Site::key && tensor.site != Site::value) return;
    for (int r = 0; r < tensor.rows; ++r) {
      for (int c = 0; c < tensor.columns; ++c) {
        const Eigen::half half(static_cast<float>(tensor.at(r, c)));
        tensor.at(r, c) = static_cast<T>(static_cast<float>(half));
      }
    }
  });
  return engine;
}

// Row `from` of a layer over row `to`.
template <Scalar T>
void copy_key(const Fed<T>& fed, int layer, int from, int to) {
  std::copy_n(fed.cache.key(layer, from), fed.cache.slot_stride(), fed.cache.key(layer, to));
}

// In one layer the new rows keep the key of the row before them.
EngineFactory stale_keys() {
  return patching([](const auto& fed) {
    for (int slot = fed.cache.length() - 1; slot >= std::max(fed.before, 1); --slot) {
      copy_key(fed, widest_layer(fed.config), slot - 1, slot);
    }
  });
}

EngineFactory keys_and_values_swapped() {
  return patching([](const auto& fed) {
    for (int l = 0; l < fed.config.layers; ++l) {
      for (int slot = fed.before; slot < fed.cache.length(); ++slot) {
        std::swap_ranges(fed.cache.key(l, slot), fed.cache.key(l, slot) + fed.cache.slot_stride(),
                         fed.cache.value(l, slot));
      }
    }
  });
}

// Every further feed writes its last row into the slot of the first one as well.
EngineFactory first_slot_overwritten() {
  return patching([](const auto& fed) {
    if (fed.before == 0) return;
    const int last = fed.cache.length() - 1;
    for (int l = 0; l < fed.config.layers; ++l) {
      copy_key(fed, l, last, 0);
      std::copy_n(fed.cache.value(l, last), fed.cache.slot_stride(), fed.cache.value(l, 0));
    }
  });
}

// Forgets a row that it still reads, and hides the NaN that comes of it.
EngineFactory nan_swallowed() {
  const EngineFactory forgetful = patching([](const auto& fed) {
    auto* key = fed.cache.key(widest_layer(fed.config), 0);
    std::fill_n(key, fed.cache.slot_stride(), std::nanf(""));
  });
  Hooks hooks;
  hooks.feed = [](Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
    inner.batch(feeds, rows, out);
    for (double& value : out.values) value = std::isnan(value) ? 0 : value;
  };
  return [=](const ModelData& model, const EngineSetup& setup) {
    return std::make_unique<HookedEngine>(forgetful(model, setup), hooks);
  };
}

EngineFactory truncate_keeps_one() {
  Hooks hooks;
  hooks.truncate = [](Engine& inner, SequenceId sequence, int length) {
    inner.truncate(sequence, std::min(length + 1, inner.held(sequence).rows));
  };
  return hooked(hooks);
}

// Rolls back to as many rows as it should, but keeps the last ones instead of the first.
template <Scalar T>
std::unique_ptr<Engine> rolling_back_from_the_front(const ModelData& model, Arithmetic arithmetic) {
  auto builtin = std::make_unique<Builtin<T>>(model.weights, arithmetic);
  Builtin<T>& caches = *builtin;
  Hooks hooks;
  hooks.truncate = [&caches, layers = model.weights.config.layers](
                       Engine& inner, SequenceId sequence, int length) {
    KvCache<T>& cache = caches.cache(sequence);
    const int dropped = cache.length() - length;
    for (int l = 0; l < layers; ++l) {
      for (int slot = 0; slot < length; ++slot) {
        std::copy_n(cache.key(l, slot + dropped), cache.slot_stride(), cache.key(l, slot));
        std::copy_n(cache.value(l, slot + dropped), cache.slot_stride(), cache.value(l, slot));
      }
    }
    inner.truncate(sequence, length);
  };
  return std::make_unique<HookedEngine>(std::move(builtin), std::move(hooks));
}

// A feed that is refused has lost the last row before it is.
template <Scalar T>
std::unique_ptr<Engine> losing_a_row_to_refusals(const ModelData& model, Arithmetic arithmetic) {
  auto builtin = std::make_unique<Builtin<T>>(model.weights, arithmetic);
  Builtin<T>& caches = *builtin;
  Hooks hooks;
  hooks.feed = [&caches, layers = model.weights.config.layers](
                   Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
    try {
      inner.batch(feeds, rows, out);
    } catch (const Error&) {
      KvCache<T>& cache = caches.cache(feeds[0].sequence);
      for (int l = 0; l < layers && cache.length() > 0; ++l) {
        std::fill_n(cache.value(l, cache.length() - 1), cache.slot_stride(), T{0});
      }
      throw;
    }
  };
  return std::make_unique<HookedEngine>(std::move(builtin), std::move(hooks));
}

// What `narrow` and `wide` make, by the scalar.
using MakeEngine = std::unique_ptr<Engine> (*)(const ModelData&, Arithmetic);
EngineFactory by_scalar(MakeEngine narrow, MakeEngine wide) {
  return [=](const ModelData& model, const EngineSetup& setup) {
    return (setup.scalar == ScalarKind::f32 ? narrow : wide)(model, setup.arithmetic);
  };
}

EngineFactory held_wrong(void (*change)(Held&)) {
  Hooks hooks;
  hooks.held = [change](const Engine& inner, SequenceId sequence) {
    Held held = inner.held(sequence);
    change(held);
    return held;
  };
  return hooked(hooks);
}

// The last row of a feed of several tokens is the one before it.
EngineFactory last_row_repeated() {
  Hooks hooks;
  hooks.feed = [](Engine& inner, std::span<const Feed> feeds, Rows rows, Logits& out) {
    inner.batch(feeds, rows, out);
    if (feeds.size() != 1 || out.rows() < 2) return;
    std::copy_n(out.values.end() - 2 * out.vocabulary, out.vocabulary,
                out.values.end() - out.vocabulary);
  };
  return hooked(hooks);
}

// Row i of a full forward sees token i + 1.
EngineFactory full_sees_the_next_token() {
  Hooks hooks;
  hooks.full = [](Engine& inner, const TokenBlock& block, Rows rows, Logits& out) {
    inner.full(block, rows, out);
    if (rows == Rows::last) return;
    Logits longer;
    for (int i = 0; i + 1 < block.length(); ++i) {
      const auto tokens = static_cast<std::size_t>((i + 2) * block.sequences);
      inner.full({block.tokens.first(tokens), block.sequences}, Rows::last, longer);
      std::copy(longer.values.begin(), longer.values.end(),
                out.values.begin() + i * block.sequences * out.vocabulary);
    }
  };
  return hooked(hooks);
}

}  // namespace

ModelData model_of(std::string name, Model<float> weights) {
  ModelData model;
  model.name = std::move(name);
  model.sha256 = model_sha256(weights);
  model.weights = std::move(weights);
  return model;
}

Config small_config() {
  Config c;
  c.vocabulary = 3;
  c.width = 8;
  c.layers = 2;
  c.query_heads = c.kv_heads = 2;
  c.head_size = 4;
  c.mlp_width = 12;
  c.context = 4;
  c.windows = {0, 0};
  return c;
}

ModelData small_model() { return model_of("small", random_model(small_config(), {}, 1)); }

ModelData wide_model() {
  Config config = small_config();
  config.width = 48;
  config.mlp_width = 80;
  config.head_size = 16;
  return model_of("wide", random_model(config, {}, 1));
}

ModelData ill_conditioned_model() {
  Config config = small_config();
  config.norm_epsilon = 1e-12;
  config.positions = Positions::none;
  config.output = Output::separate;
  Model<float> weights = random_model(config, {}, 1);
  weights.embedding = (1.0F + 0x1p-14F * weights.embedding.array()).matrix();
  return model_of("ill-conditioned", std::move(weights));
}

bool has_bundled(std::string_view name) {
  const std::vector<std::string> names = bundled_names();
  return std::ranges::find(names, name) != names.end();
}

ModelRun whole_run(const ModelData& model) {
  return {model, {{Source::all, PrefixTree::all(model.weights.config)}}, {}};
}

ModelRun random_run(const ModelData& model, int count) {
  const Config& config = model.weights.config;
  return {
      model,
      {{Source::random, PrefixTree::of(random_sequences(config, {1, 0, count}), config.context)}},
      {}};
}

double& first_logit(Logits& logits, int row) {
  return logits.values.at(static_cast<std::size_t>(row * logits.vocabulary));
}

EngineFactory positions_plus_one() {
  return [](const ModelData& model, const EngineSetup& setup) {
    const int context = model.weights.config.context;
    const PlanRewrite rewrite = [context](StepPlan& plan, PlannedFeeds) {
      for (PlannedRow& row : plan.rows) {
        if (row.position > 0) row.position = (row.position + 1) % context;
      }
    };
    return setup.scalar == ScalarKind::f32 ? rewritten<float>(model, setup.arithmetic, rewrite)
                                           : rewritten<double>(model, setup.arithmetic, rewrite);
  };
}

EngineFactory half_precision_rows() {
  return by_scalar(rounding_to_half<float>, rounding_to_half<double>);
}

bool PlantedFault::seen_by(std::string_view check) const {
  if (check == "schedules") return on_schedules;
  if (check == "causality") return on_causality;
  if (check == "accounting") return on_accounting;
  if (check == "generation") return on_prefixes || on_generation;
  return on_prefixes;
}

std::vector<PlantedFault> planted_faults() {
  return {
      {"positions-plus-one", positions_plus_one(), true, true, false, true},
      {"stale-keys", stale_keys(), true, true, false, true},
      {"keys-and-values-swapped", keys_and_values_swapped(), true, true, false, true},
      {"first-slot-overwritten", first_slot_overwritten(), true, true, false, true},
      {"nan-swallowed", nan_swallowed(), true, true, false, true},
      {"half-precision-rows", half_precision_rows(), true, true, false, true},
      {"last-row-repeated", last_row_repeated(), false, true, false, true},
      {"full-sees-the-next-token", full_sees_the_next_token(), false, false, true, false},
      {"roll-back-from-the-front",
       by_scalar(rolling_back_from_the_front<float>, rolling_back_from_the_front<double>), false,
       false, false, true},
      {"row-lost-to-refusals",
       by_scalar(losing_a_row_to_refusals<float>, losing_a_row_to_refusals<double>), false, false,
       false, true},
      {"truncate-keeps-one", truncate_keeps_one(), false, false, false, true},
      {"one-row-too-many", held_wrong([](Held& h) { ++h.rows; }), false, false, false, true, true},
      {"next-position-late", held_wrong([](Held& h) { --h.next_position; }), false, false, false,
       true, true},
      {"bytes-of-one-scalar-more", held_wrong([](Held& h) { h.bytes += 4; }), false, false, false,
       true},
  };
}

std::string describe(const CaseResult& result) {
  std::string text =
      fmt::format("{} {} position {} rows {} note '{}'", name(result.verdict), name(result.mark),
                  result.position, result.rows_compared, result.note);
  if (const auto& row = result.row) {
    text += fmt::format(" row {} at {}: {} {} ulps {} argmax {} {} largest {} {} {} {}",
                        row->max_abs_difference, row->token_at_max, row->uncached, row->cached,
                        row->ulps, row->argmax_uncached, row->argmax_cached, row->largest,
                        row->uncached_finite, row->cached_finite, row->same_bits);
  }
  if (result.noise) text += fmt::format(" floor {} {}", result.noise->floor, result.noise->kappa);
  if (result.ratio) text += fmt::format(" ratio {}", *result.ratio);
  return text;
}

std::string describe(const CaseRecord& record) {
  return fmt::format("{} {} {}", record.index, to_token(record.subject), describe(record.result));
}

std::string describe(const CheckSummary& s) {
  const Counts& c = s.counts;
  return fmt::format(
      "{} {} {} {} {} cases {} prefixes {} logits {} marks {} {} {} {} {} {} ratio {} worst {} {}",
      s.check, s.model, name(s.arithmetic), name(s.scalar), to_text(s.policy), c.cases, c.prefixes,
      c.logits, c.diverged, c.undecided, c.gated, c.widened, c.flaky, c.crashed,
      s.worst_ratio.value_or(-1), s.worst_difference ? describe(*s.worst_difference) : "none",
      name(s.verdict));
}

void Collector::on_record(const CaseRecord& record) {
  records.push_back(record);
  text += describe(record) + "\n";
}

void Collector::on_check(const CheckSummary& summary) {
  summaries.push_back(summary);
  text += describe(summary) + "\n";
}

const CheckSummary& Collector::summary(std::string_view check) const {
  const auto found = std::ranges::find(summaries, check, &CheckSummary::check);
  if (found == summaries.end()) throw std::out_of_range("no such check: " + std::string(check));
  return *found;
}

std::vector<CaseRecord> Collector::records_of(std::string_view check) const {
  std::vector<CaseRecord> found;
  std::ranges::copy_if(records, std::back_inserter(found),
                       [&](const CaseRecord& record) { return record.subject.check == check; });
  return found;
}

SuiteOptions options_for(Arithmetic arithmetic) {
  SuiteOptions options;
  options.arithmetics = {arithmetic};
  return options;
}

RunResult run_on(const SuiteOptions& options, const ModelRun& run, const EngineFactory& factory,
                 Collector& collector) {
  const std::atomic<bool> never = false;
  return run_suite(options, {run}, factory, collector, never);
}

}  // namespace kvcheck
