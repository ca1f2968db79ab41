// SPDX-License-Identifier: MIT
// The probes of the suite, run on an engine with a fault, and judged into cells.
#include "verify/fault_trial.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "engine/error.h"
#include "verify/perturb.h"
#include "verify/replay.h"
#include "verify/wide_walk.h"

namespace kvcheck {
namespace {

constexpr std::array<std::string_view, 10> kChecks{
    "corpus-prefixes", "all-prefixes", "random-prefixes", "exact",      "contract",
    "noise",           "noise-f64",    "schedules",       "accounting", "operations"};

bool fails(Verdict verdict) { return verdict == Verdict::diverge || verdict == Verdict::broken; }

std::string_view check_of(Source source) {
  return source == Source::corpus ? "corpus-prefixes"
         : source == Source::all  ? "all-prefixes"
                                  : "random-prefixes";
}

// What a trial adds to a cell from a case of so many tokens; subject() is asked for the first, and
// for each that is shorter.
template <typename Subject>
void add(TrialCell& cell, std::size_t tokens, const CaseResult& result, Subject subject) {
  ++cell.cases;
  if (result.row) {
    cell.max_abs_difference = larger(cell.max_abs_difference, result.row->max_abs_difference);
  }
  if (result.ratio) cell.max_ratio = larger(cell.max_ratio.value_or(0), *result.ratio);
  if (!fails(result.verdict)) return;
  if (cell.first && cell.first->subject.tokens.size() <= tokens) return;
  cell.first = CaseRecord{.index = cell.cases - 1, .subject = subject(), .result = result};
}

std::vector<TrialCell> cells_of(const TrialOptions& options) {
  std::vector<TrialCell> cells;
  for (const std::string_view check : kChecks) {
    if (!options.checks || std::ranges::count(*options.checks, check) > 0) {
      cells.push_back({.check = check});
    }
  }
  return cells;
}

class Trial {
 public:
  Trial(const TrialSubject& subject, const ModelRun& run, const TrialOptions& options)
      : subject_(subject),
        run_(run),
        options_(options),
        factory_(options.oracle ? options.oracle->around(subject.factory) : subject.factory),
        cache_(subject.cache),
        cells_(cells_of(options)) {}

  std::vector<TrialCell> run() {
    for (const SourceOfPrefixes& source : run_.sources) prefixes(source);
    feeds("schedules", probe_schedules);
    feeds("accounting", probe_accounting);
    operations();
    return std::move(cells_);
  }

 private:
  struct Judged {
    TrialCell* cell;
    Policy policy;
  };

  // Null where the check was not asked for.
  TrialCell* cell(std::string_view check) {
    const auto found = std::ranges::find(cells_, check, &TrialCell::check);
    return found == cells_.end() ? nullptr : &*found;
  }

  void wanted(std::vector<Judged>& judged, std::string_view check, const Policy& policy) {
    if (TrialCell* const found = cell(check)) judged.push_back({found, policy});
  }

  void prefixes(const SourceOfPrefixes& source) {
    const bool largest = &source == &run_.sources.back();
    const std::string_view check = check_of(source.source);
    const Policy matrix = default_policy(run_.model, Arithmetic::matrix, cache_.lossy());
    std::vector<Judged> row;
    std::vector<Judged> narrow;
    std::vector<Judged> wide;
    wanted(row, check, Exact{});
    wanted(narrow, check, matrix);
    if (largest) {
      wanted(row, "exact", Exact{});
      if (run_.model.contract_abs) wanted(narrow, "contract", AbsLimit{*run_.model.contract_abs});
      wanted(narrow, "noise", NoiseLimit{});
      wanted(wide, "noise-f64", NoiseLimit{});
    }
    probe(probe_prefixes, source, {ScalarKind::f32, Arithmetic::row, cache_}, row);
    probe(probe_prefixes, source, {ScalarKind::f32, Arithmetic::matrix, cache_}, narrow);
    probe(probe_prefixes, source, {ScalarKind::f64, Arithmetic::matrix, cache_}, wide);
  }

  // Of the smallest source: cutting all prefixes of a vocabulary in all ways says no more.
  void feeds(std::string_view check, ProbeFunction function) {
    for (const Arithmetic arithmetic : {Arithmetic::row, Arithmetic::matrix}) {
      std::vector<Judged> judged;
      wanted(judged, check, default_policy(run_.model, arithmetic, cache_.lossy()));
      probe(function, run_.sources.front(), {ScalarKind::f32, arithmetic, cache_}, judged);
    }
  }

  void probe(ProbeFunction function, const SourceOfPrefixes& source, const EngineSetup& setup,
             const std::vector<Judged>& judged) {
    if (judged.empty()) return;
    const std::int64_t before = subject_.trace->changes();
    Bench bench = make_bench(run_.model, setup, options_.seed, factory_);
    if (options_.oracle) bench.noise = options_.oracle->around(std::move(bench.noise), setup);
    std::vector<Policy> policies{NoiseLimit{}};
    for (const Judged& by : judged) {
      if (std::ranges::count(policies, by.policy) == 0) policies.push_back(by.policy);
    }
    WideWalk wide({run_.model, setup, options_.seed, factory_, options_.oracle, function,
                   source.tree, std::move(policies)});
    const auto failure =
        run_probe(function, bench, {.tree = source.tree}, [&](const Measured& measured) {
          for (const Judged& by : judged) take(by, measured, setup, wide);
        });
    for (const Judged& by : judged) {
      if (failure) add_broken(by, *failure, setup);
      settle(*by.cell, before);
    }
  }

  void take(const Judged& by, const Measured& measured, const EngineSetup& setup, WideWalk& wide) {
    const auto subject = [&] {
      return case_of(by, setup, {measured.tokens.begin(), measured.tokens.end()},
                     measured.schedule);
    };
    CaseResult result = judge_case(by.policy, measured, setup.scalar);
    if (result.mark == Mark::gated) {
      const CaseResult* const found = wide.find(by.policy, measured);
      result = found ? decided(std::move(result), *found)
                     : run_case(subject(), run_.model, factory_).result;
    }
    if (needs_excuse(by.policy, result)) {
      const CaseResult* const found = wide.find(NoiseLimit{}, measured);
      const bool excuse = found ? found->verdict == Verdict::agree : excused(subject());
      if (excuse) result.verdict = Verdict::agree;
    }
    add(*by.cell, measured.tokens.size(), result, subject);
  }

  // A fault that is said to be equivalent may round otherwise: to the last bit says nothing of it.
  // Its numbers must then agree within the noise floor in the wider scalar.
  [[nodiscard]] bool needs_excuse(const Policy& policy, const CaseResult& result) const {
    return subject_.expected == Expected::equivalent && policy == Policy{Exact{}} &&
           result.verdict == Verdict::diverge;
  }

  [[nodiscard]] bool excused(Case subject) const {
    subject.policy = NoiseLimit{};
    subject.scalar = ScalarKind::f64;
    return run_case(subject, run_.model, factory_).result.verdict == Verdict::agree;
  }

  void add_broken(const Judged& by, const ProbeFailure& failure, const EngineSetup& setup) {
    constexpr std::array<std::string_view, 4> kOfLogits{"exact", "contract", "noise", "noise-f64"};
    if (std::ranges::find(kOfLogits, by.cell->check) != kOfLogits.end()) {
      by.cell->crashed = true;
      return;
    }
    add(*by.cell, failure.tokens.size(),
        {.verdict = Verdict::broken, .mark = Mark::crash, .note = failure.what},
        [&] { return case_of(by, setup, failure.tokens, failure.schedule); });
  }

  void operations() {
    TrialCell* const found = cell("operations");
    if (found == nullptr || !options_.draw) return;
    const std::int64_t before = subject_.trace->changes();
    for (const Arithmetic arithmetic : {Arithmetic::row, Arithmetic::matrix}) {
      if (!found->first) run_operations(*found, {ScalarKind::f32, arithmetic, cache_});
    }
    settle(*found, before);
  }

  // Ends at the first sequence that shows the fault.
  void run_operations(TrialCell& cell, const EngineSetup& setup) {
    const Policy policy = default_policy(run_.model, setup.arithmetic, cache_.lossy());
    OperationRunner runner(run_.model, setup, policy, options_.seed, factory_);
    const int sequences = options_.sequences * subject_.rarity;
    for (int i = 0; i < sequences && !cell.first; ++i) {
      Case subject = case_of({&cell, policy}, setup, {}, {});
      subject.operations =
          options_.draw(runner.space(), options_.seed, static_cast<std::uint64_t>(i));
      CaseResult result = runner.run(subject.operations);
      if (result.mark == Mark::gated) result = run_case(subject, run_.model, factory_).result;
      if (needs_excuse(policy, result) && excused(subject)) result.verdict = Verdict::agree;
      add(cell, subject.tokens.size(), result, [&] { return subject; });
    }
  }

  [[nodiscard]] Case case_of(const Judged& by, const EngineSetup& setup, std::vector<int> tokens,
                             const Schedule& schedule) const {
    const bool whole = run_.sources.back().tree.whole_vocabulary();
    const std::string_view check = by.cell->check == "noise-f64" ? "noise" : by.cell->check;
    return {.check = std::string(check),
            .model = run_.model.name,
            .model_hash = short_hash(run_.model),
            .scalar = setup.scalar,
            .arithmetic = setup.arithmetic,
            .cache_kind = cache_,
            .policy = by.policy,
            .seed = options_.seed,
            .siblings = whole && find_check(check, "trial").group == Group::prefixes &&
                        check != "corpus-prefixes",
            .tokens = std::move(tokens),
            .schedule = schedule,
            .fault = subject_.fault};
  }

  // What a cell came to, now that a part of its check has run; `before`: changes until then.
  void settle(TrialCell& cell, std::int64_t before) {
    if (cell.first) {
      cell.outcome = Outcome::caught;
    } else if (cell.crashed) {
      cell.outcome = Outcome::not_applicable;
    } else if (cell.outcome != Outcome::missed) {
      const bool equivalent = subject_.expected == Expected::equivalent;
      cell.outcome = subject_.trace->changes() == before ? Outcome::inert
                     : equivalent                        ? Outcome::equivalent
                                                         : Outcome::missed;
    }
  }

  const TrialSubject& subject_;
  const ModelRun& run_;
  const TrialOptions& options_;
  const EngineFactory factory_;
  const CacheKind cache_;
  std::vector<TrialCell> cells_;
};

}  // namespace

std::string_view name(Outcome outcome) {
  static constexpr std::array<std::string_view, 5> kNames{"caught", "missed", "inert", "equivalent",
                                                          "not applicable"};
  return kNames[static_cast<std::size_t>(outcome)];
}

std::span<const std::string_view> trial_checks() { return kChecks; }

std::vector<TrialCell> try_engine(const TrialSubject& subject, const ModelRun& run,
                                  const TrialOptions& options) {
  return Trial(subject, run, options).run();
}

std::vector<TrialCell> try_fault(const FaultVariant& variant, const ModelRun& run,
                                 const TrialOptions& options) {
  const CacheKind cache = cache_kind(variant.fault->cache, "fault");
  if (!variant.fault->applies(run.model.weights.config, cache)) return cells_of(options);
  const auto trace = std::make_shared<FaultTrace>();
  return try_engine({.factory = faulty_engine(variant, trace),
                     .trace = trace,
                     .cache = cache,
                     .fault = to_text(variant),
                     .expected = variant.fault->expected,
                     .rarity = variant.fault->rarity},
                    run, options);
}

}  // namespace kvcheck
