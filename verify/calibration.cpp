// SPDX-License-Identifier: MIT
// Measuring engines with and without faults in units of the same floors.
#include "verify/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "verify/faults.h"
#include "verify/probes.h"
#include "verify/shared_oracle.h"

namespace kvcheck {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The windows of a family's layers, over and over.
std::vector<int> windows_of(const Config& family, int layers) {
  std::vector<int> windows;
  for (int l = 0; l < layers; ++l) {
    windows.push_back(family.windows[static_cast<std::size_t>(l % family.layers)]);
  }
  return windows;
}

Config sized(Config c, int layers, int width) {
  c.windows = windows_of(c, layers);
  c.layers = layers;
  c.width = width;
  c.mlp_width = 2 * width;
  c.head_size = std::max(2, width / c.query_heads / 2 * 2);
  if (c.rotary_dimensions != 0) c.rotary_dimensions = std::max(2, c.head_size / 4 * 2);
  return c;
}

// All that is measured on one model: the oracle's rows and floors once, whatever the engine.
class Measurement {
 public:
  Measurement(const ModelData& model, const CalibrationScope& scope) : model_(model) {
    const Config& config = model.weights.config;
    std::vector<std::vector<int>> sequences;
    for (int i = 0; i < scope.sequences; ++i) {
      sequences.push_back(random_sequence(config, kSeed, static_cast<std::uint64_t>(i)));
    }
    tree_.emplace(PrefixTree::of(sequences, std::min(config.context, scope.length_max)));
  }

  // None where the fault cannot be planted, or changes nothing.
  CalibratedRows rows_with(std::string_view fault) {
    const FaultVariant variant = parse_fault(fault, "calibration");
    if (!variant.fault->applies(model_.weights.config, {})) return {};
    const auto trace = std::make_shared<FaultTrace>();
    Bench bench = bench_of(faulty_engine(variant, trace));
    CalibratedRows rows;
    // The first row is not read from a cache, and neither are those that are fed together.
    run(probe_prefixes, bench, [&](const MeasuredRow& row) {
      if (row.position > 0) rows.push_back(calibrated(row));
    });
    return trace->changes() == 0 ? CalibratedRows() : rows;
  }

  CalibratedRows rows_without_fault() {
    Bench bench = bench_of(builtin_engine);
    CalibratedRows rows;
    const auto take = [&](const MeasuredRow& row) { rows.push_back(calibrated(row)); };
    run(probe_prefixes, bench, take);
    run(probe_schedules, bench, take);
    return rows;
  }

  std::int64_t differing_rows() {
    constexpr EngineSetup kRow{ScalarKind::f32, Arithmetic::row};
    Bench bench = make_bench(model_, kRow, kSeed, builtin_engine, Floors::none);
    std::int64_t count = 0;
    const auto take = [&](const MeasuredRow& row) { count += row.comparison.same_bits ? 0 : 1; };
    run(probe_prefixes, bench, take);
    run(probe_schedules, bench, take);
    return count;
  }

 private:
  static constexpr std::uint64_t kSeed = 1;

  Bench bench_of(const EngineFactory& factory) {
    constexpr EngineSetup kMatrix{ScalarKind::f32, Arithmetic::matrix};
    Bench bench = make_bench(model_, kMatrix, kSeed, oracle_.around(factory));
    bench.noise = oracle_.around(std::move(bench.noise), kMatrix);
    return bench;
  }

  static CalibratedRow calibrated(const MeasuredRow& row) {
    const Judgement judged = judge(NoiseLimit{}, row.comparison, row.floor, ScalarKind::f32);
    return {row.floor->kappa, judged.ratio.value_or(kInfinity)};
  }

  template <typename Take>
  void run(ProbeFunction probe, Bench& bench, Take take) const {
    const Sink sink = [&](const Measured& measured) {
      for (const MeasuredRow& row : measured.rows) take(row);
    };
    probe(bench, {.tree = *tree_, .schedules = ScheduleChoice::single}, sink);
  }

  const ModelData& model_;
  std::optional<PrefixTree> tree_;
  SharedOracle oracle_;
};

// Written so that a kappa that is not a number is above the gate.
bool above_gate(const CalibratedRow& row) { return !(row.kappa <= kKappaGate); }

std::string cell(const std::optional<double>& number) {
  return number ? fmt::format("{:.3g}", *number) : "";
}

// ---- By kappa

struct KappaClass {
  double most;  // kappa of its rows is at most so large
  std::int64_t rows = 0;
  double worst = 0;
  std::int64_t weakest_rows = 0, weakest_seen = 0;
  std::int64_t faulty_rows = 0, faulty_seen = 0;
};

KappaClass& class_of(std::vector<KappaClass>& classes, double kappa) {
  const auto own =
      std::ranges::find_if(classes, [&](const KappaClass& c) { return kappa <= c.most; });
  return own == classes.end() ? classes.back() : *own;  // what is no number
}

void count_seen(const CalibratedRows& rows, std::vector<KappaClass>& classes,
                std::int64_t KappaClass::*all, std::int64_t KappaClass::*seen) {
  for (const CalibratedRow& row : rows) {
    KappaClass& own = class_of(classes, row.kappa);
    ++(own.*all);
    own.*seen += row.ratio > kNoiseLimit ? 1 : 0;
  }
}

std::string share(std::int64_t part, std::int64_t whole) {
  if (whole == 0) return "";
  return fmt::format("{:.3f}", static_cast<double>(part) / static_cast<double>(whole));
}

}  // namespace

ModelData sized_model(const Family& family, int layers, int width, std::uint64_t seed) {
  const std::uint64_t own = hash(seed, stream_of(family.id), 0);
  Draw draw{.seed = own, .stream = stream_of("config")};
  const Config config = sized(family.config(draw), layers, width);
  ModelData model;
  model.name = generated_name(family, seed);
  model.weights = random_model(config, family.scales, own);
  return model;
}

Calibrated calibrate(const ModelData& model, const CalibrationScope& scope) {
  Measurement measurement(model, scope);
  Calibrated found{.model = model.name,
                   .layers = model.weights.config.layers,
                   .width = model.weights.config.width,
                   .right = measurement.rows_without_fault(),
                   .weakest = measurement.rows_with(kWeakestFault),
                   .faulty = {},
                   .row_differs = measurement.differing_rows()};
  for (const std::string_view fault : kNeverMissed) {
    found.faulty.push_back(measurement.rows_with(fault));
  }
  return found;
}

std::optional<double> worst_ratio(const CalibratedRows& rows) {
  std::optional<double> worst;
  for (const CalibratedRow& row : rows) {
    if (!above_gate(row) && !(worst && row.ratio <= *worst)) worst = row.ratio;
  }
  return worst;
}

std::optional<WeakestOf> least_seen(const Calibrated& model) {
  std::optional<WeakestOf> least;
  for (std::size_t i = 0; i < model.faulty.size(); ++i) {
    const auto worst = worst_ratio(model.faulty[i]);
    if (worst && !(least && *worst >= least->ratio)) least = WeakestOf{kNeverMissed[i], *worst};
  }
  return least;
}

std::string calibration_csv(const std::vector<Calibrated>& models) {
  std::string text =
      "model,layers,width,rows,gated,kappa,ratio,half_ratio,fault,fault_ratio,row_differs\n";
  for (const Calibrated& model : models) {
    const auto most = std::ranges::max_element(model.right, {}, &CalibratedRow::kappa);
    const auto least = least_seen(model);
    text +=
        fmt::format("{},{},{},{},{},{},{},{},{},{},{}\n", model.model, model.layers, model.width,
                    model.right.size(), std::ranges::count_if(model.right, above_gate),
                    most == model.right.end() ? "" : cell(most->kappa),
                    cell(worst_ratio(model.right)), cell(worst_ratio(model.weakest)),
                    least ? least->fault : "", least ? cell(least->ratio) : "", model.row_differs);
  }
  return text;
}

std::string kappa_csv(const std::vector<Calibrated>& models) {
  std::vector<KappaClass> classes;
  for (const double most : {1e1, 1e2, 1e3, 1e4, 1e5, 1e6, kInfinity}) classes.push_back({most});
  for (const Calibrated& model : models) {
    for (const CalibratedRow& row : model.right) {
      KappaClass& own = class_of(classes, row.kappa);
      ++own.rows;
      own.worst = std::max(own.worst, row.ratio);
    }
    count_seen(model.weakest, classes, &KappaClass::weakest_rows, &KappaClass::weakest_seen);
    for (const CalibratedRows& rows : model.faulty) {
      count_seen(rows, classes, &KappaClass::faulty_rows, &KappaClass::faulty_seen);
    }
  }
  std::string text = "kappa_max,rows,ratio,half_seen,faults_seen\n";
  for (const KappaClass& c : classes) {
    text += fmt::format("{:g},{},{:.3g},{},{}\n", c.most, c.rows, c.worst,
                        share(c.weakest_seen, c.weakest_rows), share(c.faulty_seen, c.faulty_rows));
  }
  return text;
}

}  // namespace kvcheck
