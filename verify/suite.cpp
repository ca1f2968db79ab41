// SPDX-License-Identifier: MIT
// The suite: assignments (a probe over a source on a model) are cut into units (the prefixes that
// begin with one token), which run in parallel and are put together in order.
#include "verify/suite.h"

#include <tbb/global_control.h>
#include <tbb/parallel_pipeline.h>

#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>

#include "engine/error.h"
#include "verify/assignments.h"
#include "verify/bench_pool.h"
#include "verify/operation_unit.h"
#include "verify/tally.h"

namespace kvcheck {
namespace {

struct UnitResult {
  Unit unit;
  std::vector<Tally> tallies;  // [checks of the assignment]
  double seconds = 0;          // of the probe, without the floors
  double noise_seconds = 0;    // of the floors
  double others_seconds = 0;   // of judging the same measurements again for other checks
  OperationCoverage coverage = {};
  Loss loss = {};
};

// Adds the time until it goes out of scope.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  ~Stopwatch() {
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& seconds_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

class Runner {
 public:
  Runner(const SuiteOptions& options, const EngineFactory& factory, RunListener& listener,
         const std::atomic<bool>& stop)
      : options_(options),
        factory_(factory),
        listener_(listener),
        stop_(stop),
        pool_(factory, options.seed) {}

  UnitResult run(Unit unit) {
    UnitResult result{std::move(unit), {}};
    const Assignment& assignment = *result.unit.assignment;
    const Keep keep = options_.record_all ? Keep::all : Keep::worst;
    for (const JudgedCheck& judged : assignment.checks) {
      result.tallies.emplace_back(judged.policy, kWorstKept, keep);
    }
    if (assignment.space) {
      measure_operations(result);
      return result;
    }
    const PrefixTree& tree = assignment.source->tree;
    const std::vector<PrefixTree::Child> first = tree.children(tree.root());
    if (first.empty()) return result;
    const std::optional<int> failed = measure(result, result.unit.path);
    if (!failed || !result.unit.path.empty()) return result;
    // What begins with a later token than the prefix that the engine failed at is still to come.
    for (const PrefixTree::Child& child : first) {
      if (child.token > *failed) (void)measure(result, {child.token});
    }
    return result;
  }

  // Puts the units of an assignment together and reports; called in order.
  void put_together(UnitResult&& part) {
    const Assignment& assignment = *part.unit.assignment;
    if (whole_.tallies.empty()) {
      whole_ = std::move(part);
    } else {
      for (std::size_t i = 0; i < whole_.tallies.size(); ++i) {
        whole_.tallies[i].append(std::move(part.tallies[i]));
      }
      whole_.seconds += part.seconds;
      whole_.noise_seconds += part.noise_seconds;
      whole_.coverage += part.coverage;
      whole_.loss += part.loss;
      whole_.unit.last = part.unit.last;
    }
    for (std::size_t i = 0; i < whole_.tallies.size(); ++i) {
      report_cases(assignment, i, whole_.tallies[i].take_listed());
    }
    if (whole_.unit.last) finish(assignment);
  }

  // What is left of an assignment that was stopped.
  void finish_stopped() {
    if (!whole_.tallies.empty()) finish(*whole_.unit.assignment);
  }

  std::vector<CheckSummary> take_summaries() { return std::move(summaries_); }

  // Earlier failures that were judged alike, run first.
  void run_stored(const ModelData& model, const std::vector<Case>& stored) {
    const auto start = std::chrono::steady_clock::now();
    const Case& first = stored.front();
    Tally tally(first.policy, kWorstKept, Keep::all);
    CheckSummary summary{.check = "stored",
                         .model = model.name,
                         .arithmetic = first.arithmetic,
                         .scalar = first.scalar,
                         .policy = first.policy};
    for (const Case& subject : stored) {
      if (stop_.load()) break;
      const Replayed replayed = run_case(subject, model, factory_);
      const CaseRecord record{.index = tally.counts().cases,
                              .subject = subject,
                              .result = replayed.result,
                              .reported_as = "stored"};
      if (replayed.result.verdict == Verdict::diverge) listener_.on_failure(record);
      const std::int64_t logits = replayed.result.rows_compared * model.weights.config.vocabulary;
      if (subject.operations.empty()) {
        tally.add(subject.tokens, subject.schedule, replayed.result, logits);
      } else {
        tally.add(subject.operations, std::nullopt, replayed.result, logits);
      }
      listener_.on_record(record);
    }
    summary.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    add_summary(std::move(summary), tally, model, [&](const TalliedCase& worst) {
      return CaseRecord{.index = worst.index,
                        .subject = stored[static_cast<std::size_t>(worst.index)],
                        .result = worst.result,
                        .reported_as = "stored"};
    });
  }

 private:
  // Runs the probe over the prefixes that begin with `path`. If the engine fails, the first token
  // of where it did.
  std::optional<int> measure(UnitResult& result, const std::vector<int>& path) {
    auto bench = take_bench(result, path);
    if (!bench) return first_token(result, path);
    bench->noise_seconds = 0;
    bench->invariants = {};
    const double others_before = result.others_seconds;
    const auto start = std::chrono::steady_clock::now();
    double aside = 0;  // spent on failures and on deciding in float64
    const Probed probed = probe(result, path, *bench, aside);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    const double others = result.others_seconds - others_before;
    result.noise_seconds += bench->noise_seconds;
    result.tallies.front().add_invariants(bench->invariants);
    result.seconds += elapsed.count() - bench->noise_seconds - others - aside;
    if (probed.intact) pool_.give_back(std::move(bench));
    return probed.failed_at;
  }

  [[nodiscard]] static int first_token(const UnitResult& result, const std::vector<int>& path) {
    const PrefixTree& tree = result.unit.assignment->source->tree;
    return path.empty() ? tree.children(tree.root()).front().token : path.front();
  }

  void measure_operations(UnitResult& result) {
    const Stopwatch watch(result.seconds);
    const OperationUnit::Context context{options_,
                                         factory_,
                                         stop_,
                                         [&](const CaseRecord& record) { tell(record); },
                                         [&] { return smaller_left_.fetch_sub(1) > 0; },
                                         [&](const CaseRecord& record, const SmallerCase& smaller) {
                                           const std::lock_guard lock(mutex_);
                                           listener_.on_smaller(record, smaller);
                                         }};
    OperationUnit unit(context, *result.unit.assignment, result.tallies.front());
    unit.run(result.unit.first, result.unit.count);
    result.coverage = unit.coverage();
    result.loss = unit.loss();
  }

  std::unique_ptr<Bench> take_bench(UnitResult& result, const std::vector<int>& path) {
    const Assignment& assignment = *result.unit.assignment;
    try {
      return pool_.take(assignment.run->model,
                        {assignment.scalar, assignment.arithmetic, assignment.cache});
    } catch (const EngineError& error) {
      record_crash(result, {{first_token(result, path)}, {}, error.what()});
      return nullptr;
    }
  }

  struct Probed {
    bool intact;  // or the engine must not be used again
    std::optional<int> failed_at = {};
  };

  Probed probe(UnitResult& result, const std::vector<int>& path, Bench& bench, double& aside) {
    const Assignment& assignment = *result.unit.assignment;
    const Probe what{
        .tree = assignment.source->tree,
        .scope = {.path = path, .shortest = result.unit.shortest, .longest = result.unit.longest},
        .schedules = options_.schedule_choice,
        .stop = &stop_,
        .oracle = assignment.oracle};
    std::vector<int> reruns(result.tallies.size(), 0);
    const int vocabulary = bench.engine->hello().vocabulary;
    double counted_with_the_others = 0;
    const auto take = [&](const Measured& measured, std::size_t i) {
      CaseResult judged = judge_case(assignment.checks[i].policy, measured, assignment.scalar);
      if (judged.verdict == Verdict::diverge || judged.mark == Mark::gated) {
        const Stopwatch watch(i == 0 ? aside : counted_with_the_others);
        look_again(assignment, i, measured, reruns[i], judged);
      }
      const std::int64_t logits = judged.rows_compared * vocabulary;
      result.tallies[i].add(measured.tokens, measured.schedule, std::move(judged), logits);
    };
    const Sink sink = [&](const Measured& measured) {
      take(measured, 0);
      if (result.tallies.size() == 1) return;
      const Stopwatch watch(result.others_seconds);
      for (std::size_t i = 1; i < result.tallies.size(); ++i) take(measured, i);
    };
    try {
      const auto failure = run_probe(assignment.checks.front().check->probe, bench, what, sink);
      if (!failure) return {.intact = true};
      record_crash(result, *failure);
      return {.intact = false, .failed_at = failure->tokens.front()};
    } catch (const Stopped&) {
      return {.intact = false};
    }
  }

  // A gated case is decided in float64; a diverging one is shown at once and run again.
  void look_again(const Assignment& assignment, std::size_t check, const Measured& measured,
                  int& reruns, CaseResult& judged) {
    Case subject = case_of(assignment, check, measured.tokens, measured.schedule);
    if (judged.mark == Mark::gated) {
      judged = run_case(subject, assignment.run->model, factory_).result;
      if (judged.verdict != Verdict::diverge) return;
    }
    tell(CaseRecord{.subject = subject, .result = judged});
    if (++reruns > kRerunsMax || judged.mark == Mark::widened) return;
    const Replayed again = run_case(subject, assignment.run->model, factory_);
    if (again.result.verdict == Verdict::diverge) return;
    // A case is run again beside a forward of its own.
    if (assignment.oracle == OracleChoice::full && again.result.verdict == Verdict::agree) {
      judged.note = "differs from the forward of its whole sequence, and not from one of its own";
    } else {
      judged.mark = Mark::flaky;
    }
  }

  void record_crash(UnitResult& result, const ProbeFailure& failure) {
    const Assignment& assignment = *result.unit.assignment;
    const CaseResult broken{.verdict = Verdict::broken, .mark = Mark::crash, .note = failure.what};
    for (std::size_t i = 0; i < result.tallies.size(); ++i) {
      result.tallies[i].add(failure.tokens, failure.schedule, broken, 0);
    }
    tell(CaseRecord{.subject = case_of(assignment, 0, failure.tokens, failure.schedule),
                    .result = broken});
  }

  void tell(const CaseRecord& record) {
    const std::lock_guard lock(mutex_);
    listener_.on_failure(record);
  }

  Case case_of(const Assignment& assignment, std::size_t check, std::span<const int> tokens,
               const Schedule& schedule) const {
    const JudgedCheck& judged = assignment.checks[check];
    return {.check = std::string(judged.check->id),
            .model = assignment.run->model.name,
            .model_hash = short_hash(assignment.run->model),
            .scalar = assignment.scalar,
            .arithmetic = assignment.arithmetic,
            .cache_kind = assignment.cache,
            .policy = judged.policy,
            .seed = options_.seed,
            .siblings = assignment.source->tree.whole_vocabulary(),
            .tokens = {tokens.begin(), tokens.end()},
            .schedule = schedule};
  }

  CaseRecord record_of(const Assignment& assignment, std::size_t check,
                       const TalliedCase& tallied) const {
    const bool prefix = tallied.operations.empty();
    return {.index = tallied.index,
            .subject = prefix ? case_of(assignment, check, tallied.tokens, tallied.schedule)
                              : operations_case(assignment, options_.seed, tallied.operations),
            .result = tallied.result,
            .number = tallied.number};
  }

  void report_cases(const Assignment& assignment, std::size_t check,
                    const std::vector<TalliedCase>& found) {
    for (const TalliedCase& tallied : found) {
      listener_.on_record(record_of(assignment, check, tallied));
    }
  }

  void finish(const Assignment& assignment) {
    for (std::size_t i = 0; i < whole_.tallies.size(); ++i) {
      Tally& tally = whole_.tallies[i];
      report_cases(assignment, i, tally.take_worst());
      const Check& check = *assignment.checks[i].check;
      CheckSummary summary{.check = std::string(check.id),
                           .model = assignment.run->model.name,
                           .arithmetic = assignment.arithmetic,
                           .scalar = assignment.scalar,
                           .policy = assignment.checks[i].policy,
                           .cache_kind = assignment.cache,
                           .full_oracle = assignment.oracle == OracleChoice::full};
      if (assignment.space) {
        summary.coverage = whole_.coverage;
        summary.not_covered = missing(whole_.coverage, *assignment.space);
        if (assignment.cache.lossy()) summary.loss = whole_.loss;
      }
      summary.seconds = i == 0 ? whole_.seconds : 0;
      if (std::holds_alternative<NoiseLimit>(tally.policy()) && check.probe == nullptr &&
          !assignment.space) {
        summary.seconds = whole_.noise_seconds;
      }
      add_summary(std::move(summary), tally, assignment.run->model,
                  [&](const TalliedCase& worst) { return record_of(assignment, i, worst); });
    }
    whole_ = {};
    if (assignment.last_of_model) pool_.forget(assignment.run->model);
  }

  template <typename ToRecord>
  void add_summary(CheckSummary&& summary, const Tally& tally, const ModelData& model,
                   ToRecord to_record) {
    summary.counts = tally.counts();
    summary.worst_ratio = tally.worst_ratio();
    summary.verdict = tally.verdict();
    // Bookkeeping alone says nothing of the cache.
    const bool nothing = summary.coverage && summary.counts.logits == 0;
    if (nothing) summary.verdict = worst(summary.verdict, Verdict::gave_up);
    if (tally.worst_difference()) {
      summary.worst_difference = to_record(*tally.worst_difference());
      if (!stop_.load()) {
        summary.in_float64 = in_float64(*summary.worst_difference, model, factory_, &stop_);
      }
    }
    listener_.on_check(summary);
    summaries_.push_back(std::move(summary));
  }

  const SuiteOptions& options_;
  const EngineFactory& factory_;
  RunListener& listener_;
  const std::atomic<bool>& stop_;
  BenchPool pool_;
  std::atomic<int> smaller_left_{kSmallerMaxOfRun};
  std::mutex mutex_;    // of on_failure
  UnitResult whole_{};  // what is put together so far of one assignment
  std::vector<CheckSummary> summaries_;
};

// The first exception of any thread. A pipeline that an exception leaves forgets the results under
// way, memory and all: so none leaves it, what is under way is let through, and the exception goes
// on from here.
class FirstException {
 public:
  void keep_current() {
    const std::lock_guard lock(mutex_);
    if (!first_) first_ = std::current_exception();
    met_.store(true);
  }
  [[nodiscard]] bool met() const { return met_.load(); }
  void rethrow() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr first_;
  std::atomic<bool> met_{false};
};

void run_units(const std::vector<Unit>& units, int jobs, Runner& runner,
               const std::atomic<bool>& stop) {
  using Result = std::shared_ptr<UnitResult>;
  const tbb::global_control threads(tbb::global_control::max_allowed_parallelism,
                                    static_cast<std::size_t>(jobs));
  FirstException exception;
  std::size_t next = 0;
  const auto give = [&](tbb::flow_control& control) -> std::size_t {
    if (next == units.size() || stop.load() || exception.met()) {
      control.stop();
      return 0;
    }
    return next++;
  };
  const auto run = [&](std::size_t unit) -> Result {
    try {
      return std::make_shared<UnitResult>(runner.run(units[unit]));
    } catch (...) {
      exception.keep_current();
      return nullptr;
    }
  };
  const auto collect = [&](const Result& result) {
    if (exception.met()) return;
    try {
      runner.put_together(std::move(*result));
    } catch (...) {
      exception.keep_current();
    }
  };
  // Twice as many units under way as threads: enough to keep all busy, and few results wait in
  // memory.
  tbb::parallel_pipeline(
      static_cast<std::size_t>(2 * jobs),
      tbb::make_filter<void, std::size_t>(tbb::filter_mode::serial_in_order, give) &
          tbb::make_filter<std::size_t, Result>(tbb::filter_mode::parallel, run) &
          tbb::make_filter<Result, void>(tbb::filter_mode::serial_in_order, collect));
  exception.rethrow();
}

}  // namespace

RunResult run_suite(const SuiteOptions& options, const std::vector<ModelRun>& models,
                    const EngineFactory& factory, RunListener& listener,
                    const std::atomic<bool>& stop) {
  Runner runner(options, factory, listener, stop);
  const auto assignments = plan_assignments(options, models);
  const std::vector<StoredCases> stored = group_stored(models);
  std::size_t checks = stored.size();
  for (const auto& assignment : assignments) checks += assignment->checks.size();
  listener.on_start(checks);
  for (const StoredCases& group : stored) runner.run_stored(group.run->model, group.cases);
  std::vector<Unit> units;
  for (const auto& assignment : assignments) {
    for (Unit& unit : cut(*assignment, options.operations.kind)) units.push_back(std::move(unit));
  }
  run_units(units, options.jobs, runner, stop);
  runner.finish_stopped();
  RunResult result;
  result.interrupted = stop.load();
  result.checks = runner.take_summaries();
  if (!result.checks.empty()) result.verdict = Verdict::agree;
  for (const CheckSummary& summary : result.checks) {
    result.verdict = worst(result.verdict, summary.verdict);
  }
  return result;
}

}  // namespace kvcheck
