// SPDX-License-Identifier: MIT
// Running a case again.
#include "verify/replay.h"

#include <fmt/format.h>

#include <limits>
#include <numeric>

#include "engine/builtin.h"
#include "engine/echo.h"
#include "engine/error.h"
#include "verify/checks.h"

namespace kvcheck {
namespace {

// What is computed beside a case.
struct Effort {
  Floors floors = Floors::measured;
  OracleChoice oracle = OracleChoice::per_prefix;
  const std::atomic<bool>* stop = nullptr;
};

Replayed run_on(Bench& bench, const Case& subject, const Effort& effort) {
  bench.keep_rows = true;
  const Config& config = bench.model.weights.config;
  const PrefixTree tree =
      subject.siblings ? PrefixTree::all(config) : PrefixTree::of({subject.tokens}, config.context);
  const Probe probe{.tree = tree,
                    .scope = {.path = subject.tokens, .path_only = true},
                    .only_schedule = subject.schedule,
                    .stop = effort.stop,
                    .oracle = effort.oracle};
  Replayed replayed{{}, {}, bench.scalar};
  const auto failure = run_probe(
      probe_of(find_check(subject.check, "case")), bench, probe, [&](const Measured& measured) {
        replayed.result = judge_case(subject.policy, measured, bench.scalar);
        const auto worst = worst_row(subject.policy, measured, bench.scalar);
        if (worst) replayed.row = measured.rows[*worst];
      });
  if (failure) replayed.result = crashed(failure->what);
  return replayed;
}

Replayed run_operations(const Case& subject, const ModelData& model, ScalarKind scalar,
                        const EngineFactory& factory, const OperationRunner::Watcher& watch,
                        Floors floors) {
  OperationRunner runner(model, {scalar, subject.arithmetic, subject.cache_kind}, subject.policy,
                         subject.seed, factory, floors);
  Replayed replayed{runner.run(subject.operations, watch), {}, scalar};
  replayed.row = runner.worst();
  if (replayed.result.verdict == Verdict::agree && replayed.result.rows_compared == 0) {
    replayed.result.verdict = Verdict::gave_up;
    replayed.result.note = "no row of logits was compared";
  }
  return replayed;
}

Replayed run_once(const Case& subject, const ModelData& model, ScalarKind scalar,
                  const EngineFactory& factory, const OperationRunner::Watcher& watch = {},
                  Effort effort = {}) {
  try {
    if (!subject.operations.empty()) {
      return run_operations(subject, model, scalar, factory, watch, effort.floors);
    }
    Bench bench = make_bench(model, {scalar, subject.arithmetic, subject.cache_kind}, subject.seed,
                             factory, effort.floors);
    return run_on(bench, subject, effort);
  } catch (const EngineError& error) {
    return {crashed(error.what()), {}, scalar};
  }
}

// A floor of float32 in the smaller units of float64.
NoiseFloor narrowed(NoiseFloor floor) {
  floor.floor *=
      std::numeric_limits<double>::epsilon() / double{std::numeric_limits<float>::epsilon()};
  return floor;
}

// Each operation can be asked for where it stands.
void require_valid_operations(const Case& subject, const ModelData& model, std::string_view where) {
  const Config& config = model.weights.config;
  TokenLog log(
      operation_space(config, subject.cache_kind, builtin_capabilities(config, subject.cache_kind))
          .limits);
  for (std::size_t i = 0; i < subject.operations.size(); ++i) {
    const Operation& operation = subject.operations[i];
    if (const auto why = log.why_not(operation)) {
      throw bad_input({where, fmt::format("operation {}, {}", i + 1, to_text(operation)),
                       "one that is valid there", *why});
    }
    log.apply(operation);
  }
}

}  // namespace

CaseResult crashed(std::string_view why) {
  return {.verdict = Verdict::broken, .mark = Mark::crash, .note = std::string(why)};
}

std::optional<InFloat64> in_float64(const CaseRecord& record, const ModelData& model,
                                    const EngineFactory& factory, const std::atomic<bool>* stop) {
  const CaseResult& narrow = record.result;
  const bool differs = narrow.row && !narrow.row->same_bits;
  if (record.subject.scalar != ScalarKind::f32 || narrow.mark == Mark::widened || !differs ||
      parameter_count(model.weights.config) > kFloat64ParametersMax) {
    return std::nullopt;
  }
  Case subject = record.subject;
  subject.policy = RelativeLimit{};
  Effort effort{.floors = Floors::none, .oracle = OracleChoice::per_prefix, .stop = stop};
  // Where nothing is wrong one forward is enough for all rows, however many there are.
  const auto length = static_cast<std::int64_t>(subject.tokens.size());
  if (narrow.verdict == Verdict::agree && !subject.siblings &&
      fits_one_forward(length, model.weights.config.vocabulary)) {
    effort.oracle = OracleChoice::full;
  }
  CaseResult wide;
  try {
    wide = run_once(subject, model, ScalarKind::f64, factory, {}, effort).result;
  } catch (const Stopped&) {
    return std::nullopt;
  }
  if (!wide.row) return InFloat64{wide.verdict, std::numeric_limits<double>::infinity()};
  const bool explained =
      narrow.noise && wide.note.empty() &&
      judge(NoiseLimit{}, *wide.row, narrowed(*narrow.noise), ScalarKind::f64).verdict ==
          Verdict::agree;
  return InFloat64{explained ? Verdict::agree : wide.verdict, wide.row->max_abs_difference};
}

CaseResult decided(CaseResult narrow, CaseResult wide) {
  if (wide.verdict == Verdict::gave_up) return narrow;
  if (wide.mark == Mark::none) wide.mark = Mark::widened;
  return wide;
}

std::string short_hash(const ModelData& model) { return model.sha256.substr(0, 8); }

void require_same_model(const Case& subject, const ModelData& model, std::string_view where) {
  if (subject.model_hash != short_hash(model)) {
    throw bad_input({where, fmt::format("another model named {}", one_line(model.name)),
                     fmt::format("SHA-256 {}...", one_line(subject.model_hash)),
                     fmt::format("{}...", short_hash(model))});
  }
  if (!subject.operations.empty()) return require_valid_operations(subject, model, where);
  validate_tokens(model.weights.config, subject.tokens, static_cast<int>(subject.tokens.size()),
                  where);
  if (subject.check == "golden" && !model.golden) {
    throw bad_input({where, fmt::format("no golden logits of {}", one_line(model.name)),
                     "a folder with golden.f64", "none"});
  }
  if (const std::int64_t all = PrefixTree::all(model.weights.config).count();
      subject.siblings && all > kPrefixesMax) {
    throw bad_input({where, "computed beside siblings, of a whole vocabulary",
                     fmt::format("at most {} prefixes", kPrefixesMax), fmt::format("{}", all)});
  }
  const auto tokens = static_cast<std::int64_t>(subject.tokens.size());
  const auto scheduled =
      std::accumulate(subject.schedule.begin(), subject.schedule.end(), std::int64_t{0});
  if (!subject.schedule.empty() && scheduled != tokens) {
    throw bad_input({where, "schedule", fmt::format("{} tokens in all", subject.tokens.size()),
                     fmt::format("{}", scheduled)});
  }
}

Replayed run_case(const Case& subject, const ModelData& model, const EngineFactory& factory,
                  const OperationRunner::Watcher& watch) {
  Replayed replayed = run_once(subject, model, subject.scalar, factory, watch);
  // The command that a note may end with plants no fault by itself.
  std::string& note = replayed.result.note;
  if (!subject.fault.empty() && note.find("; kvcheck generate ") != note.npos) {
    note += " --fault " + subject.fault;
  }
  if (replayed.result.mark != Mark::gated) return replayed;
  Replayed wide = run_once(subject, model, ScalarKind::f64, factory, watch);
  if (wide.result.verdict == Verdict::gave_up) return replayed;
  wide.result = decided(std::move(replayed.result), std::move(wide.result));
  return wide;
}

}  // namespace kvcheck
