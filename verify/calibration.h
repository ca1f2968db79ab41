// SPDX-License-Identifier: MIT
// What the limit of the noise policy and the gate of kappa stand on: the ratios that an engine
// without a fault comes to, and those of faults that must never be missed, on models of any size.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/generated.h"
#include "verify/models.h"

namespace kvcheck {

// Wrong indices and wrong rows: each must be seen on every model that it changes anything on.
inline constexpr std::array<std::string_view, 4> kNeverMissed{
    "pos-decode-offset:onset1:amount1", "read-value-stale:onset1", "read-exchanged:onset1",
    "kv-head-neighbour:onset1:amount1"};
// The weakest fault: rows that are rounded to half precision.
inline constexpr std::string_view kWeakestFault = "dtype-narrow-f16";

// A model of the family of so many layers, each so wide: heads and MLP grow with it, and layers
// beyond the family's own have its windows again.
[[nodiscard]] ModelData sized_model(const Family& family, int layers, int width,
                                    std::uint64_t seed = 1);

// A row of logits in float32 and matrix arithmetic.
struct CalibratedRow {
  double kappa;
  double ratio;  // infinite where it is no number
};
using CalibratedRows = std::vector<CalibratedRow>;

struct Calibrated {
  std::string model;
  int layers = 0;
  int width = 0;
  CalibratedRows right = {};                // without a fault
  CalibratedRows weakest = {};              // with kWeakestFault; none where that changes nothing
  std::vector<CalibratedRows> faulty = {};  // [kNeverMissed], likewise
  std::int64_t row_differs = 0;  // rows of row arithmetic, without a fault, with other bits
};

// The prefixes of a few random sequences, each fed token by token and, without a fault, at once.
struct CalibrationScope {
  int sequences = 2;
  int length_max = 8;
};
[[nodiscard]] Calibrated calibrate(const ModelData& model, const CalibrationScope& scope = {});

// The largest ratio of rows below the gate; none where there are none.
[[nodiscard]] std::optional<double> worst_ratio(const CalibratedRows& rows);
// The never-to-be-missed fault that shows least, by its largest ratio on any row below the gate.
struct WeakestOf {
  std::string_view fault;
  double ratio;
};
[[nodiscard]] std::optional<WeakestOf> least_seen(const Calibrated& model);

// calibration.csv: a line for each model.
[[nodiscard]] std::string calibration_csv(const std::vector<Calibrated>& models);
// calibration_kappa.csv: a line for each power of ten of kappa, over the rows of all models.
[[nodiscard]] std::string kappa_csv(const std::vector<Calibrated>& models);

}  // namespace kvcheck
