// SPDX-License-Identifier: MIT
// The noise floor: how far rounding alone moves a row of logits. No cache is involved, so no fault
// of a cache can raise it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/logged.h"
#include "engine/model.h"
#include "engine/port.h"
#include "engine/row_format.h"
#include "engine/weights.h"
#include "verify/tolerance.h"

namespace kvcheck {

// Oracles whose inputs are moved by one epsilon, as Verificarlo perturbs, besides the one in a
// wider scalar.
inline constexpr int kPerturbedOracles = 4;

// floor of a row = the largest over its logits of |u - u_wide| and |u - u_k|, k = 1..4, plus
// epsilon x the largest over the logits of sum |x_i w_ij| of the output product, where u_wide is
// computed in the next wider scalar and u_k from an embedding output of which every entry is
// multiplied by 1 + or - epsilon.
// Where rows are stored in fewer bits, all of these oracles round theirs, the perturbed ones after
// moving every key and value by kTieShare of the largest of its row: whatever lies so close to the
// middle of two stored values that rounding may send it either way is sent both ways. No log of
// dropped rows can be asked for then.
inline constexpr double kTieShare = 64;  // epsilons

// Asked after each oracle but the last one about the floors so far, which only grow: true if they
// are enough.
using EnoughFloors = std::function<bool(std::span<const NoiseFloor>)>;

class NoiseMeter {
 public:
  virtual ~NoiseMeter() = default;
  // The floor of the last row of each sequence; `uncached` are those rows, and signs come from
  // `seed`. Of a single sequence the last rows, as many as `uncached` has; if it has none, all
  // rows, as the meter computes them itself: no answer of an engine is in those floors. Without
  // `enough` the floors are whole.
  virtual void floors(const TokenBlock& block, const Logits& uncached, std::uint64_t seed,
                      std::vector<NoiseFloor>& out, const EnoughFloors& enough = {}) = 0;
  // The floors of the last rows of a log, as many as `uncached` has. A row of the log takes the
  // signs of the same row of a block, whatever its position: two rows may have had the same one.
  virtual void floors(std::span<const LoggedRow> log, const Logits& uncached, std::uint64_t seed,
                      std::vector<NoiseFloor>& out, const EnoughFloors& enough = {}) = 0;
};

[[nodiscard]] std::unique_ptr<NoiseMeter> make_noise_meter(HeldModel model, ScalarKind scalar,
                                                           Arithmetic arithmetic,
                                                           RowFormat format = RowFormat::native);

}  // namespace kvcheck
