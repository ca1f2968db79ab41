// SPDX-License-Identifier: MIT
// Every fault on every model: rows are tried in parallel and put together in order.
#include "verify/kill_matrix.h"

#include <fmt/format.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/parallel_pipeline.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "engine/error.h"
#include "engine/features.h"
#include "verify/case_text.h"
#include "verify/models.h"
#include "verify/replicas.h"
#include "verify/smaller.h"

namespace kvcheck {
namespace {

constexpr Fault kNoFault{"none",
                         "nothing",
                         "nothing is wrong",
                         "the right engine",
                         {},
                         "flat",
                         {},
                         PlanFault{[](StepPlan&, const FaultStep&) {}}};

// Values as they are read from a cache count double: wrong on every model that reads any.
constexpr Fault kCanary{
    "canary",
    "rows as they are read",
    "values count double",
    "the canary",
    {},
    "flat",
    {},
    at_sites(SiteSet().with(Site::cached_value), [](const auto& tensor, const FaultStep& step) {
      if (!step.warm(tensor.row)) return;
      for (int r = 0; r < tensor.rows; ++r) {
        for (int c = 0; c < tensor.columns; ++c) {
          tensor.at(r, c) *= 2;
        }
      }
    })};

// A model with what all faults on it share.
struct MatrixModel {
  MatrixModel(const ModelRun* of, bool is_smallest) : run(of), smallest(is_smallest) {}

  const ModelRun* run;
  bool smallest;
  SharedOracle oracle = {};
  // By kind of cache, the replicas that fail without a fault; filled by the baseline.
  std::map<std::string, std::vector<std::string_view>> failing = {};
};

struct Task {
  FaultVariant variant;
  MatrixModel* model;
};

// A kind of cache on a model, as some fault needs it.
struct Baseline {
  MatrixModel* model;
  CacheKind cache;
  std::string broken = {};
  std::vector<std::string_view> failing = {};  // replicas
  std::vector<TrialCell> canary = {};
};

const ModelData& data(const MatrixModel& model) { return model.run->model; }

// The smallest models by name, loaded once.
class TinyModels {
 public:
  const ModelRun& of(const Fault& fault) {
    const std::string name = tiny_name(fault.needs, kTinySeed);
    const auto found = runs_.find(name);
    if (found != runs_.end()) return found->second;
    const ModelData& model = models_.emplace_back(load_model(name));
    return runs_.try_emplace(name, ModelRun{model, matrix_sources(model, kTinySeed), {}})
        .first->second;
  }

 private:
  std::deque<ModelData> models_;
  std::map<std::string, ModelRun> runs_;
};

int rank(Outcome outcome) { return static_cast<int>(outcome); }

// What several cells come to together: the first in the order of Outcome.
Outcome best(Outcome a, Outcome b) { return rank(a) < rank(b) ? a : b; }

class MatrixRun {
 public:
  MatrixRun(const MatrixOptions& options, const std::vector<ModelRun>& models,
            MatrixListener& listener, const std::atomic<bool>& stop)
      : options_(options), listener_(listener), stop_(stop) {
    for (const MatrixCheck& check : matrix_checks()) {
      const bool asked = options.checks.empty() || std::ranges::count(options.checks, check.id) > 0;
      if (asked) report_.checks.push_back({check, {}});
    }
    for (const ModelRun& run : models) {
      given_.push_back(&add_model(run, false));
      add_baseline(*given_.back(), {});
    }
    for (const Fault* fault : options.faults) add_tasks(*fault);
  }

  MatrixReport run() {
    const tbb::global_control threads(tbb::global_control::max_allowed_parallelism,
                                      static_cast<std::size_t>(std::max(options_.jobs, 1)));
    listener_.on_start(tasks_.size());
    run_baselines();
    run_tasks();
    finish_variants();
    make_cases_smaller();
    report_.interrupted = stop_.load();
    report_.models = static_cast<std::int64_t>(models_.size());
    return std::move(report_);
  }

 private:
  MatrixModel& add_model(const ModelRun& run, bool smallest) {
    const auto found = std::ranges::find_if(
        models_, [&](const MatrixModel& model) { return data(model).name == run.model.name; });
    if (found != models_.end()) return *found;
    return models_.emplace_back(&run, smallest);
  }

  void add_tasks(const Fault& fault) {
    std::vector<MatrixModel*> on{&add_model(tiny_.of(fault), true)};
    for (MatrixModel* model : given_) {
      if (model != on.front()) on.push_back(model);
    }
    const CacheKind cache = cache_kind(fault.cache, "fault");
    for (MatrixModel* model : on) {
      const Config& config = data(*model).weights.config;
      bool any = false;
      for (const FaultVariant& variant : matrix_variants(fault, config)) {
        if (options_.wanted && !options_.wanted(variant)) continue;
        tasks_.push_back({variant, model});
        any = true;
      }
      if (any && fault.applies(config, cache)) add_baseline(*model, cache);
    }
  }

  void add_baseline(MatrixModel& model, const CacheKind& cache) {
    const auto same = [&](const Baseline& other) {
      return other.model == &model && other.cache == cache;
    };
    if (std::ranges::none_of(baselines_, same)) baselines_.push_back({&model, cache});
  }

  [[nodiscard]] TrialOptions trial_options(MatrixModel& model) const {
    TrialOptions options{.seed = options_.seed,
                         .sequences = options_.sequences,
                         .draw = options_.draw,
                         .checks = std::vector<std::string_view>{},
                         .oracle = &model.oracle};
    for (const CheckReport& check : report_.checks) {
      if (check.check.own) options.checks->push_back(check.check.id);
    }
    return options;
  }

  // ---- Without a fault

  void run_baselines() {
    tbb::parallel_for(std::size_t{0}, baselines_.size(), [&](std::size_t i) {
      if (!stop_.load()) run_baseline(baselines_[i]);
    });
    for (const Baseline& baseline : baselines_) {
      if (!baseline.broken.empty()) throw EngineError(baseline.broken);
      baseline.model->failing[name(baseline.cache)] = baseline.failing;
      for (const std::string_view replica : baseline.failing) {
        report_.false_alarms.push_back(fmt::format(
            "{} on {} ({})", replica, data(*baseline.model).name, name(baseline.cache)));
      }
    }
    if (!stop_.load()) require_canaries();
  }

  std::vector<TrialCell> try_planted(const Fault& fault, const Baseline& baseline) const {
    const auto trace = std::make_shared<FaultTrace>();
    return try_engine(
        {.factory = faulty_engine({&fault, {}}, trace), .trace = trace, .cache = baseline.cache},
        *baseline.model->run, trial_options(*baseline.model));
  }

  void run_baseline(Baseline& baseline) const {
    const TrialSubject right{.factory = builtin_engine,
                             .trace = std::make_shared<FaultTrace>(),
                             .cache = baseline.cache};
    require_agreement(baseline, "",
                      try_engine(right, *baseline.model->run, trial_options(*baseline.model)));
    require_agreement(baseline, " with nothing planted", try_planted(kNoFault, baseline));
    baseline.canary = try_planted(*options_.canary, baseline);
    const auto trace = std::make_shared<FaultTrace>();
    ReplicaBench bench = make_replica_bench(data(*baseline.model), baseline.cache, options_.seed,
                                            {&kNoFault, {}}, trace);
    for (const Replica& replica : asked_replicas()) {
      if (!run_replica(replica, bench).passed) baseline.failing.push_back(replica.id);
    }
  }

  static void require_agreement(Baseline& baseline, std::string_view how,
                                const std::vector<TrialCell>& cells) {
    for (const TrialCell& cell : cells) {
      if (cell.outcome != Outcome::caught || !baseline.broken.empty()) continue;
      baseline.broken =
          fmt::format("baseline: {} on {} ({}) without a fault{}, expected agreement, got {}: {}",
                      cell.check, data(*baseline.model).name, name(baseline.cache), how,
                      name(cell.first->result.verdict), repro_line(cell.first->subject));
    }
  }

  // Every check that is asked for sees the canary somewhere, and none is silent where it changed
  // something for all of them.
  void require_canaries() const {
    if (baselines_.empty()) return;
    for (std::size_t c = 0; c < baselines_.front().canary.size(); ++c) {
      Outcome outcome = Outcome::not_applicable;
      for (const Baseline& baseline : baselines_) {
        outcome = best(outcome, baseline.canary[c].outcome);
      }
      if (outcome == Outcome::caught || outcome == Outcome::not_applicable) continue;
      throw EngineError(
          fmt::format("baseline: {} with values counted double, expected caught, got {}",
                      baselines_.front().canary[c].check, name(outcome)));
    }
    for (const Baseline& baseline : baselines_) {
      Outcome outcome = Outcome::not_applicable;
      for (const TrialCell& cell : baseline.canary) outcome = best(outcome, cell.outcome);
      if (outcome != Outcome::missed) continue;
      throw EngineError(
          fmt::format("baseline: {} ({}) with values counted double, expected caught, got missed",
                      data(*baseline.model).name, name(baseline.cache)));
    }
  }

  // ---- With one

  [[nodiscard]] std::vector<Replica> asked_replicas() const {
    std::vector<Replica> asked;
    for (const Replica& replica : replicas()) {
      const auto same = [&](const CheckReport& check) { return check.check.id == replica.id; };
      if (std::ranges::any_of(report_.checks, same)) asked.push_back(replica);
    }
    return asked;
  }

  [[nodiscard]] std::vector<TrialCell> run_task(const Task& task) const {
    const MatrixModel& model = *task.model;
    std::vector<TrialCell> cells = try_fault(task.variant, *model.run, trial_options(*task.model));
    const Fault& fault = *task.variant.fault;
    const CacheKind cache = cache_kind(fault.cache, "fault");
    const bool applies = fault.applies(data(model).weights.config, cache);
    for (const Replica& replica : asked_replicas()) {
      TrialCell& cell = cells.emplace_back(TrialCell{.check = replica.id});
      if (applies) cell.outcome = try_replica(replica, task, cache);
    }
    return cells;
  }

  [[nodiscard]] Outcome try_replica(const Replica& replica, const Task& task,
                                    const CacheKind& cache) const {
    const auto& failing = task.model->failing.at(name(cache));
    if (std::ranges::count(failing, replica.id) > 0) return Outcome::not_applicable;
    const auto trace = std::make_shared<FaultTrace>();
    ReplicaBench bench =
        make_replica_bench(data(*task.model), cache, options_.seed, task.variant, trace);
    if (!run_replica(replica, bench).passed) return Outcome::caught;
    if (trace->changes() == 0) return Outcome::inert;
    return task.variant.fault->expected == Expected::equivalent ? Outcome::equivalent
                                                                : Outcome::missed;
  }

  void run_tasks() {
    using Result = std::shared_ptr<std::pair<std::size_t, std::vector<TrialCell>>>;
    std::size_t next = 0;
    const auto give = [&](tbb::flow_control& control) -> std::size_t {
      if (next < tasks_.size() && !stop_.load()) return next++;
      control.stop();
      return 0;
    };
    const auto run = [&](std::size_t task) -> Result {
      return std::make_shared<Result::element_type>(task, run_task(tasks_[task]));
    };
    const auto collect = [&](const Result& result) {
      const Task& task = tasks_[result->first];
      take({task.variant, data(*task.model), task.model->smallest, std::move(result->second)});
    };
    tbb::parallel_pipeline(
        static_cast<std::size_t>(2 * std::max(options_.jobs, 1)),
        tbb::make_filter<void, std::size_t>(tbb::filter_mode::serial_in_order, give) &
            tbb::make_filter<std::size_t, Result>(tbb::filter_mode::parallel, run) &
            tbb::make_filter<Result, void>(tbb::filter_mode::serial_in_order, collect));
  }

  // ---- Put together

  FaultReport& report_of(const Fault& fault) {
    if (!report_.faults.empty() && report_.faults.back().fault == &fault) {
      return report_.faults.back();
    }
    finish_variants();
    return report_.faults.emplace_back(FaultReport{
        .fault = &fault,
        .checks = std::vector<Outcome>(report_.checks.size(), Outcome::not_applicable)});
  }

  void take(const MatrixRow& row) {
    FaultReport& fault = report_of(*row.variant.fault);
    Outcome own = Outcome::not_applicable;
    for (std::size_t c = 0; c < row.cells.size(); ++c) {
      const TrialCell& cell = row.cells[c];
      CheckReport& check = report_.checks[c];
      ++check.cells[static_cast<std::size_t>(rank(cell.outcome))];
      fault.checks[c] = best(fault.checks[c], cell.outcome);
      if (!check.check.own) continue;
      own = best(own, cell.outcome);
      if (cell.outcome == Outcome::caught) {
        fault.max_abs_difference = std::max(fault.max_abs_difference, cell.max_abs_difference);
      }
      if (cell.first) take_case(fault, row, *cell.first);
    }
    take_model(fault, row, own);
    auto& variant =
        variants_.try_emplace(to_text(row.variant), Outcome::not_applicable).first->second;
    variant = best(variant, own);
    ++report_.rows;
    listener_.on_row(row);
  }

  void take_model(FaultReport& fault, const MatrixRow& row, Outcome own) {
    if (own == Outcome::not_applicable) return;
    if (row.smallest) {
      fault.seen_on_smallest = fault.seen_on_smallest || own == Outcome::caught;
      return;
    }
    if (fault_models_.insert({row.model.name, false}).second) ++fault.models;
    if (own == Outcome::caught && !std::exchange(fault_models_[row.model.name], true)) {
      fault.seen_on.push_back(row.model.name);
    }
  }

  // The fewest tokens, else the fewest operations, on the first model that shows it.
  void take_case(FaultReport& fault, const MatrixRow& row, const CaseRecord& found) {
    const auto size = [](const CaseRecord& record) {
      const Case& subject = record.subject;
      return std::pair(!subject.operations.empty(),
                       std::max(subject.operations.size(), subject.tokens.size()));
    };
    if (fault.smallest && (shown_on_ != &row.model || size(*fault.smallest) <= size(found))) {
      return;
    }
    shown_on_ = &row.model;
    fault.smallest = found;
    fault.shown_by = row.variant;
  }

  // All variants of the last fault have been tried.
  void finish_variants() {
    if (!report_.faults.empty()) {
      FaultReport& fault = report_.faults.back();
      for (const auto& [text, outcome] : variants_) {
        ++fault.variants[static_cast<std::size_t>(rank(outcome))];
        const std::string wrong = unexpected(fault, outcome);
        if (!wrong.empty()) fault.unexpected.push_back(fmt::format("{}: {}", text, wrong));
      }
    }
    variants_.clear();
    fault_models_.clear();
    shown_on_ = nullptr;
  }

  // A variant may have nothing to change, in a layer that sees no cached row; a fault must.
  [[nodiscard]] bool all_inert() const {
    return std::ranges::all_of(variants_, [](const auto& variant) {
      return variant.second == Outcome::inert || variant.second == Outcome::not_applicable;
    });
  }

  [[nodiscard]] std::string unexpected(const FaultReport& fault, Outcome outcome) const {
    const Expected expected = fault.fault->expected;
    const bool own = std::ranges::any_of(report_.checks,
                                         [](const CheckReport& check) { return check.check.own; });
    if (!own || outcome == Outcome::not_applicable) return {};
    if (outcome == Outcome::inert) return all_inert() ? "inert on every model" : "";
    if (expected == Expected::caught && outcome != Outcome::caught) return "missed by every check";
    if (expected != Expected::caught && outcome == Outcome::caught) {
      return fmt::format("caught, and expected to be {}", name(expected));
    }
    return {};
  }

  // Tries alone bound it: a clock would give other cases on other machines.
  void make_cases_smaller() {
    tbb::parallel_for(std::size_t{0}, report_.faults.size(), [&](std::size_t f) {
      FaultReport& fault = report_.faults[f];
      if (!fault.smallest || fault.smallest->subject.operations.empty() || stop_.load()) return;
      const Case& subject = fault.smallest->subject;
      const auto on = std::ranges::find_if(
          models_, [&](const MatrixModel& model) { return data(model).name == subject.model; });
      const auto trace = std::make_shared<FaultTrace>();
      const EngineFactory factory = faulty_engine(*fault.shown_by, trace);
      constexpr int kTries = 200;
      const SmallerCase smaller = make_smaller(subject, fault.smallest->result, data(*on), factory,
                                               ShrinkBudget{.tries = kTries});
      fault.smallest->subject = smaller.subject;
      fault.smallest->result = smaller.result;
      fault.shrunk = smaller.complete;
    });
  }

  const MatrixOptions& options_;
  MatrixListener& listener_;
  const std::atomic<bool>& stop_;
  TinyModels tiny_;
  std::deque<MatrixModel> models_;
  std::vector<MatrixModel*> given_;
  std::vector<Task> tasks_;
  std::vector<Baseline> baselines_;
  MatrixReport report_;

  // Of the fault whose rows are being taken.
  std::map<std::string, Outcome> variants_;
  std::map<std::string, bool> fault_models_;  // whether it was seen there
  const ModelData* shown_on_ = nullptr;
};

}  // namespace

const std::vector<MatrixCheck>& matrix_checks() {
  static const std::vector<MatrixCheck> kAll = [] {
    std::vector<MatrixCheck> all;
    for (const std::string_view id : trial_checks()) all.push_back({id, true, {}});
    for (const Replica& replica : replicas())
      all.push_back({replica.id, false, replica.stands_for});
    return all;
  }();
  return kAll;
}

std::vector<FaultVariant> matrix_variants(const Fault& fault, const Config& config) {
  std::vector<FaultVariant> found = variants(fault, config.layers);
  std::erase_if(found, [&](const FaultVariant& variant) {
    if (!variant.at.layer) return false;
    const int layer = *variant.at.layer;
    // A query that sees itself alone reads no cached row.
    const bool reads_nothing = config.windows[static_cast<std::size_t>(layer)] == 1;
    return reads_nothing || (layer != 0 && layer != config.layers - 1);
  });
  return found;
}

std::optional<double> CheckReport::kill_rate() const {
  const std::int64_t caught = cells[static_cast<std::size_t>(Outcome::caught)];
  const std::int64_t could = caught + cells[static_cast<std::size_t>(Outcome::missed)];
  if (could == 0) return {};
  return static_cast<double>(caught) / static_cast<double>(could);
}

bool MatrixReport::judged() const {
  constexpr auto kOutside = static_cast<std::size_t>(Outcome::not_applicable);
  const auto ran = [](const CheckReport& of) {
    const std::span<const std::int64_t> tried = std::span(of.cells).first(kOutside);
    return of.check.own && std::ranges::any_of(tried, [](std::int64_t n) { return n > 0; });
  };
  return rows > 0 && std::ranges::any_of(checks, ran);
}

Verdict MatrixReport::verdict() const {
  if (interrupted || !judged()) return Verdict::gave_up;
  return as_expected() ? Verdict::agree : Verdict::diverge;
}

bool MatrixReport::as_expected() const {
  return std::ranges::all_of(faults,
                             [](const FaultReport& fault) { return fault.unexpected.empty(); });
}

MatrixReport run_kill_matrix(const MatrixOptions& options, const std::vector<ModelRun>& models,
                             MatrixListener& listener, const std::atomic<bool>& stop) {
  return MatrixRun(options, models, listener, stop).run();
}

std::vector<SourceOfPrefixes> matrix_sources(const ModelData& model, std::uint64_t seed) {
  return sources_of(model, {}, {seed, 0, kMatrixSequences});
}

const Fault& no_fault() { return kNoFault; }

const Fault& canary_fault() { return kCanary; }

}  // namespace kvcheck
