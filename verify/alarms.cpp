// SPDX-License-Identifier: MIT
// Random models, one after another, each under every kind of comparison.
#include "verify/alarms.h"

#include <fmt/format.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <vector>

#include "engine/cache_kind.h"
#include "engine/generated.h"
#include "engine/random.h"
#include "verify/case_text.h"
#include "verify/checks.h"
#include "verify/models.h"
#include "verify/operation_run.h"
#include "verify/replay.h"

namespace kvcheck {
namespace {

constexpr std::string_view kSaturated = "saturated";
// Trials whose counts are held at once.
constexpr std::size_t kTogether = 1024;

class AlarmTrial {
 public:
  AlarmTrial(const AlarmOptions& options, const EngineFactory& factory, std::uint64_t number)
      : options_(options),
        factory_(factory),
        number_(number),
        family_(families()[static_cast<std::size_t>(number % families().size())]),
        model_(load_model(generated_name(family_, hash(options.seed, number, 0)))) {}

  AlarmCount run() {
    for (const Arithmetic arithmetic : {Arithmetic::row, Arithmetic::matrix}) {
      prefixes({ScalarKind::f32, arithmetic});
      operations({ScalarKind::f32, arithmetic, cache()});
    }
    count_.trials = 1;
    count_.alarms = count_.first ? 1 : 0;
    return std::move(count_);
  }

 private:
  [[nodiscard]] CacheKind cache() const {
    const std::vector<CacheKind> kinds = cache_kinds();
    return kinds[static_cast<std::size_t>(number_ / families().size() % kinds.size())];
  }

  void prefixes(const EngineSetup& setup) {
    const Config& config = model_.weights.config;
    const PrefixTree tree =
        PrefixTree::of({random_sequence(config, options_.seed, number_)}, config.context);
    Bench bench = make_bench(model_, setup, options_.seed, factory_);
    for (const std::string_view id : {"random-prefixes", "schedules"}) {
      const auto take_measured = [&](const Measured& measured) {
        const Case subject =
            case_of(id, setup, {measured.tokens.begin(), measured.tokens.end()}, measured.schedule);
        take(subject, judge_case(subject.policy, measured, setup.scalar));
      };
      const auto failure =
          run_probe(find_check(id, "alarms").probe, bench, {.tree = tree}, take_measured);
      if (failure) {
        take(case_of(id, setup, failure->tokens, failure->schedule),
             {.verdict = Verdict::broken, .mark = Mark::crash, .note = failure->what});
      }
    }
  }

  void operations(const EngineSetup& setup) {
    Case subject = case_of(kOperationsCheck, setup, {}, {});
    OperationRunner runner(model_, setup, subject.policy, options_.seed, factory_);
    subject.operations = options_.draw(runner.space(), options_.seed, number_);
    take(subject, runner.run(subject.operations));
  }

  void take(const Case& subject, CaseResult result) {
    const bool gated = result.mark == Mark::gated;
    if (gated) result = run_case(subject, model_, factory_).result;
    const bool saturated = family_.id == kSaturated;
    ++count_.cases;
    // Row arithmetic is judged to the last bit, however ill-conditioned.
    const bool by_noise = std::holds_alternative<NoiseLimit>(subject.policy);
    count_.by_noise += by_noise ? 1 : 0;
    count_.saturated += saturated && by_noise ? 1 : 0;
    (saturated ? count_.saturated_gated : count_.gated) += gated ? 1 : 0;
    if (result.ratio) count_.worst_ratio = std::max(count_.worst_ratio, *result.ratio);
    if (result.verdict == Verdict::agree || count_.first) return;
    count_.first = CaseRecord{.index = static_cast<std::int64_t>(number_),
                              .subject = subject,
                              .result = std::move(result)};
  }

  [[nodiscard]] Case case_of(std::string_view check, const EngineSetup& setup,
                             std::vector<int> tokens, const Schedule& schedule) const {
    return {.check = std::string(check),
            .model = model_.name,
            .model_hash = short_hash(model_),
            .scalar = setup.scalar,
            .arithmetic = setup.arithmetic,
            .cache_kind = setup.cache,
            .policy = default_policy(model_, setup.arithmetic, setup.cache.lossy()),
            .seed = options_.seed,
            .tokens = std::move(tokens),
            .schedule = schedule};
  }

  const AlarmOptions& options_;
  const EngineFactory& factory_;
  const std::uint64_t number_;
  const Family& family_;
  const ModelData model_;
  AlarmCount count_;
};

double share(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

AlarmCount& AlarmCount::operator+=(const AlarmCount& later) {
  trials += later.trials;
  alarms += later.alarms;
  cases += later.cases;
  by_noise += later.by_noise;
  saturated += later.saturated;
  saturated_gated += later.saturated_gated;
  gated += later.gated;
  worst_ratio = std::max(worst_ratio, later.worst_ratio);
  if (!first) first = later.first;
  return *this;
}

AlarmCount count_alarms(const AlarmOptions& options, const EngineFactory& factory,
                        const std::atomic<bool>& stop) {
  const tbb::global_control threads(tbb::global_control::max_allowed_parallelism,
                                    static_cast<std::size_t>(options.jobs));
  AlarmCount all;
  std::vector<AlarmCount> counts;
  const auto trials = static_cast<std::size_t>(options.trials);
  for (std::size_t first = 0; first < trials && !stop.load(); first += kTogether) {
    counts.assign(std::min(kTogether, trials - first), {});
    tbb::parallel_for(std::size_t{0}, counts.size(), [&](std::size_t i) {
      if (!stop.load()) counts[i] = AlarmTrial(options, factory, first + i).run();
    });
    for (const AlarmCount& count : counts) all += count;
  }
  return all;
}

std::string to_text(const AlarmCount& count) {
  const std::int64_t others = count.by_noise - count.saturated;
  std::string text = fmt::format("{} of {} random models and sequences raise an alarm",
                                 count.alarms, count.trials);
  if (count.alarms == 0 && count.trials > 3) {
    text += fmt::format(": a rate below {:.1g} (95 %)", 3.0 / static_cast<double>(count.trials));
  }
  text += fmt::format(
      "\n{} cases, worst ratio {:.3g}; too ill-conditioned for single precision: {:.2f} %, and "
      "{:.0f} % of the family that is made so\n",
      count.cases, count.worst_ratio, share(count.gated, others),
      share(count.saturated_gated, count.saturated));
  if (count.first) {
    text += fmt::format("first: {}\n  {}\n", count.first->result.note,
                        repro_line(count.first->subject));
  }
  return text;
}

}  // namespace kvcheck
