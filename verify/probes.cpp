// SPDX-License-Identifier: MIT
// The probes on logits.
#include "verify/probes.h"

#include <chrono>
#include <exception>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "engine/builtin.h"
#include "engine/error.h"

namespace kvcheck {
namespace {

// Adds up what the floors cost, so that a check is not charged for another one's yardstick.
class TimedMeter final : public NoiseMeter {
 public:
  TimedMeter(NoiseMeter& meter, double& seconds) : meter_(meter), seconds_(seconds) {}

  void floors(const TokenBlock& block, const Logits& uncached, std::uint64_t seed,
              std::vector<NoiseFloor>& out, const EnoughFloors& enough) override {
    measure(block, uncached, seed, out, enough);
  }
  void floors(std::span<const LoggedRow> log, const Logits& uncached, std::uint64_t seed,
              std::vector<NoiseFloor>& out, const EnoughFloors& enough) override {
    measure(log, uncached, seed, out, enough);
  }

 private:
  template <typename Input>  // a block or a log
  void measure(const Input& input, const Logits& uncached, std::uint64_t seed,
               std::vector<NoiseFloor>& out, const EnoughFloors& enough) {
    const auto start = std::chrono::steady_clock::now();
    meter_.floors(input, uncached, seed, out, enough);
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  NoiseMeter& meter_;
  double& seconds_;
};

void stop_if_asked(const Probe& probe) {
  if (probe.stop != nullptr && probe.stop->load(std::memory_order_relaxed)) throw Stopped{};
}

// The schedules that a probe runs at the walk's place.
std::vector<Schedule> schedules_at(const Probe& probe, const PrefixWalk& walk) {
  if (probe.only_schedule) return {*probe.only_schedule};
  const int length = static_cast<int>(walk.prefix().size());
  if (probe.schedules == ScheduleChoice::standard && length > kAllCutsLengthMax && !walk.leaf()) {
    return {single_schedule(length)};
  }
  return schedules_of(probe.schedules, length);
}

void feed_schedule(Bench& bench, PrefixWalk& walk, const Schedule& schedule,
                   std::vector<MeasuredRow>& rows) {
  Logits logits;
  const SequenceId sequence = bench.engine->open();
  std::span<const int> tokens = walk.prefix();
  int fed = 0;
  for (const int length : schedule) {
    bench.engine->feed(sequence, tokens.first(static_cast<std::size_t>(length)), Rows::all, logits);
    require_rows(*bench.engine, logits, static_cast<std::size_t>(length));
    tokens = tokens.subspan(static_cast<std::size_t>(length));
    for (int i = 0; i < length; ++i) {
      rows.push_back(measure_row(bench, walk, fed + i + 1, logits.row(i)));
    }
    fed += length;
  }
  bench.engine->close(sequence);
}

// The first prefix that the probe's walk comes by; none in an empty tree.
std::vector<int> first_prefix(const Probe& probe) {
  if (!probe.scope.path.empty()) return probe.scope.path;
  const auto children = probe.tree.children(probe.tree.root());
  return children.empty() ? std::vector<int>{} : std::vector<int>{children.front().token};
}

}  // namespace

MeasuredRow measure_row(Bench& bench, PrefixWalk& walk, int n, std::span<const double> row) {
  MeasuredRow measured;
  const std::span<const double> reference = walk.reference(n);
  measured.position = n - 1;
  measured.comparison = compare_rows(reference, row, bench.scalar);
  const bool differs = !measured.comparison.same_bits;
  if (bench.noise && (differs || bench.arithmetic == Arithmetic::matrix)) {
    TimedMeter timed(*bench.noise, bench.noise_seconds);
    measured.floor = walk.floor(n, timed, bench.seed);
  }
  if (bench.keep_rows) {
    measured.uncached.assign(reference.begin(), reference.end());
    measured.cached.assign(row.begin(), row.end());
  }
  return measured;
}

void walk_prefixes(PrefixWalk& walk, const Probe& probe, const ProbeVisitor& visit) {
  Schedule schedule;
  const auto failed = [&](const std::exception& error) {
    // Between two visits the schedule is that of the last one, and not how the failing prefix was
    // fed.
    const int fed = std::accumulate(schedule.begin(), schedule.end(), 0);
    if (fed != static_cast<int>(walk.prefix().size())) schedule.clear();
    std::vector<int> tokens(walk.prefix().begin(), walk.prefix().end());
    // An engine may fail before the first prefix, at opening a sequence: a case has tokens, though.
    if (tokens.empty()) tokens = first_prefix(probe);
    throw ProbeFailure{std::move(tokens), schedule, error.what()};
  };
  try {
    walk.run(probe.scope, [&](PrefixWalk& at) {
      stop_if_asked(probe);
      visit(at, schedule);
    });
  } catch (const EngineError& error) {
    failed(error);
  } catch (const Error& error) {
    failed(error);
  }
}

std::unique_ptr<Engine> builtin_engine(const ModelData& model, const EngineSetup& setup) {
  return make_builtin(model.weights, setup.scalar, setup.arithmetic, setup.cache);
}

std::unique_ptr<Engine> start_engine(const EngineFactory& factory, const ModelData& model,
                                     const EngineSetup& setup) {
  try {
    return factory(model, setup);
  } catch (const std::runtime_error& error) {
    throw EngineError(error.what());
  }
}

Bench make_bench(const ModelData& model, const EngineSetup& setup, std::uint64_t seed,
                 const EngineFactory& factory, Floors floors) {
  Bench bench{.model = model,
              .scalar = setup.scalar,
              .arithmetic = setup.arithmetic,
              .cache = setup.cache,
              .seed = seed,
              .engine = start_engine(factory, model, setup),
              .noise = nullptr};
  if (floors == Floors::measured) {
    bench.noise =
        make_noise_meter(model.weights, setup.scalar, setup.arithmetic, setup.cache.format);
  }
  return bench;
}

void probe_prefixes(Bench& bench, const Probe& probe, const Sink& sink) {
  PrefixWalk walk(probe.tree, *bench.engine, PrefixWalk::CachedSteps::along, probe.oracle);
  walk_prefixes(walk, probe, [&](PrefixWalk& at, Schedule& schedule) {
    const int length = static_cast<int>(at.prefix().size());
    schedule.assign(static_cast<std::size_t>(length), 1);
    const MeasuredRow row = measure_row(bench, at, length, at.cached());
    sink({at.prefix(), schedule, std::span(&row, 1)});
  });
}

void probe_schedules(Bench& bench, const Probe& probe, const Sink& sink) {
  PrefixWalk walk(probe.tree, *bench.engine, PrefixWalk::CachedSteps::none, probe.oracle);
  std::vector<MeasuredRow> rows;
  walk_prefixes(walk, probe, [&](PrefixWalk& at, Schedule& schedule) {
    for (const Schedule& next : schedules_at(probe, at)) {
      schedule = next;
      rows.clear();
      feed_schedule(bench, at, schedule, rows);
      sink({at.prefix(), schedule, rows});
    }
  });
}

void probe_causality(Bench& bench, const Probe& probe, const Sink& sink) {
  // Against the very forwards that are the oracle there is nothing to compare.
  const bool some = probe.oracle == OracleChoice::full;
  PrefixWalk walk(probe.tree, *bench.engine, PrefixWalk::CachedSteps::none,
                  some ? OracleChoice::sampled : OracleChoice::per_prefix);
  Logits logits;
  std::vector<MeasuredRow> rows;
  walk_prefixes(walk, probe, [&](PrefixWalk& at, Schedule& none) {
    if (!at.leaf() && !probe.scope.path_only) return;
    rows.clear();
    bench.engine->full({at.prefix(), 1}, Rows::all, logits);
    require_rows(*bench.engine, logits, at.prefix().size());
    for (int i = 0; i < logits.rows(); ++i) {
      if (at.reference(i + 1).empty()) continue;
      rows.push_back(measure_row(bench, at, i + 1, logits.row(i)));
    }
    sink({at.prefix(), none, rows});
  });
}

void probe_golden(Bench& bench, const Probe& probe, const Sink& sink) {
  require(bench.model.golden != nullptr, "a model with golden logits");
  const GoldenLogits& golden = *bench.model.golden;
  PrefixWalk walk(probe.tree, *bench.engine, PrefixWalk::CachedSteps::along);
  const Schedule uncached;
  walk_prefixes(walk, probe, [&](PrefixWalk& at, Schedule& cached) {
    const int length = static_cast<int>(at.prefix().size());
    const std::span<const double> expected = golden.row(at.prefix());
    cached.assign(static_cast<std::size_t>(length), 1);
    const auto measure = [&](const Schedule& schedule, std::span<const double> found) {
      MeasuredRow row;
      row.position = length - 1;
      row.comparison = compare_rows(expected, found, bench.scalar);
      if (bench.keep_rows) {
        row.uncached.assign(expected.begin(), expected.end());
        row.cached.assign(found.begin(), found.end());
      }
      sink({at.prefix(), schedule, std::span(&row, 1)});
    };
    if (!probe.only_schedule || probe.only_schedule->empty())
      measure(uncached, at.reference(length));
    if (!probe.only_schedule || !probe.only_schedule->empty()) measure(cached, at.cached());
  });
}

std::optional<ProbeFailure> run_probe(ProbeFunction function, Bench& bench, const Probe& probe,
                                      const Sink& sink) {
  // What the sink throws is no failure of the engine, and passes through the probe as a stop.
  std::exception_ptr from_sink;
  const Sink guarded = [&](const Measured& measured) {
    try {
      sink(measured);
    } catch (...) {
      from_sink = std::current_exception();
      throw Stopped{};
    }
  };
  try {
    function(bench, probe, guarded);
  } catch (const ProbeFailure& failure) {
    return failure;
  } catch (const Stopped&) {
    if (from_sink) std::rethrow_exception(from_sink);
    throw;
  }
  return std::nullopt;
}

}  // namespace kvcheck
