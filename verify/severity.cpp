// SPDX-License-Identifier: MIT
// Disturbances of a size, and the sweep over their sizes.
#include "verify/severity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "engine/random.h"

namespace kvcheck {
namespace {

double size_of(const FaultStep& step) { return std::pow(10.0, step.amount()); }

// Between -1 and 1, the same for one entry of one row whatever it is fed with.
double sign_of(int layer, int position, int column) {
  const std::uint64_t bits =
      hash(static_cast<std::uint64_t>(layer), static_cast<std::uint64_t>(position),
           static_cast<std::uint64_t>(column));
  return std::ldexp(static_cast<double>(bits >> 11), -52) - 1;
}

int position_of(const FaultStep& step, int row) {
  return step.plan.rows[static_cast<std::size_t>(row)].position;
}

// Rows that a cache stores.
template <typename Tensor>
void disturb_rows(const Tensor& tensor, const FaultStep& step) {
  using T = std::remove_cvref_t<decltype(tensor.at(0, 0))>;
  for (int r = 0; r < tensor.rows; ++r) {
    for (int c = 0; c < tensor.columns; ++c) {
      const double factor = 1 + size_of(step) * sign_of(tensor.layer, position_of(step, r), c);
      tensor.at(r, c) = static_cast<T>(static_cast<double>(tensor.at(r, c)) * factor);
    }
  }
}

template <typename Tensor>
void disturb_scores(const Tensor& tensor, const FaultStep& step) {
  using T = std::remove_cvref_t<decltype(tensor.at(0, 0))>;
  for (int h = 0; h < tensor.rows; ++h) {
    for (int c = 0; c < tensor.columns; ++c) {
      const double factor = 1 + size_of(step) * sign_of(tensor.layer, h, c);
      tensor.at(h, c) = static_cast<T>(static_cast<double>(tensor.at(h, c)) * factor);
    }
  }
}

// Keys stand a part of a position too far: each pair of dimensions is turned by that part of its
// frequency.
template <typename Tensor>
void turn_keys(const Tensor& tensor, const FaultStep& step) {
  using T = std::remove_cvref_t<decltype(tensor.at(0, 0))>;
  const Config& config = step.config;
  const int pairs = config.rotated() / 2;
  const std::vector<double> bases = config.rotary_bases();
  const double base = bases[static_cast<std::size_t>(config.rotary_base_of(tensor.layer))];
  const bool halves = config.rotary_pairs == RotaryPairs::halves;
  for (int r = 0; r < tensor.rows; ++r) {
    for (int i = 0; i < config.kv_heads * pairs; ++i) {
      const int pair = i % pairs;
      const int first = i / pairs * config.head_size + (halves ? pair : 2 * pair);
      const int second = first + (halves ? pairs : 1);
      const double angle = size_of(step) * std::pow(base, -2.0 * pair / config.rotated());
      const auto a = static_cast<double>(tensor.at(r, first));
      const auto b = static_cast<double>(tensor.at(r, second));
      tensor.at(r, first) = static_cast<T>(a * std::cos(angle) - b * std::sin(angle));
      tensor.at(r, second) = static_cast<T>(a * std::sin(angle) + b * std::cos(angle));
    }
  }
}

constexpr std::array kDisturbances{
    Fault{"stored-keys",
          "key",
          "noise on every stored key",
          "rounding of storage",
          {},
          "flat",
          {},
          at_sites(SiteSet().with(Site::key),
                   [](const auto& tensor, const FaultStep& step) { disturb_rows(tensor, step); })},
    Fault{"stored-values",
          "value",
          "noise on every stored value",
          "rounding of storage",
          {},
          "flat",
          {},
          at_sites(SiteSet().with(Site::value),
                   [](const auto& tensor, const FaultStep& step) { disturb_rows(tensor, step); })},
    Fault{"positions",
          "key",
          "keys rotated by a part of a position too far",
          "positions in low precision",
          {Feature::rotary},
          "flat",
          {},
          at_sites(SiteSet().with(Site::key),
                   [](const auto& tensor, const FaultStep& step) { turn_keys(tensor, step); })},
    Fault{
        "scores",
        "scores",
        "noise on every score",
        "rounding of products",
        {},
        "flat",
        {},
        at_sites(SiteSet().with(Site::scores),
                 [](const auto& tensor, const FaultStep& step) { disturb_scores(tensor, step); })},
};

std::string cell_text(const DetectionFloor& floor) {
  if (!floor.applicable) return "-";
  return floor.power ? fmt::format("1e{}", *floor.power) : "none";
}

}  // namespace

std::span<const Fault> disturbances() { return kDisturbances; }

std::vector<DetectionFloor> detection_floors(const ModelRun& run, const TrialOptions& options,
                                             const std::atomic<bool>& stop) {
  std::vector<DetectionFloor> floors;
  for (const Fault& disturbance : kDisturbances) {
    const std::size_t first = floors.size();
    for (const std::string_view check : trial_checks()) {
      floors.push_back({&disturbance, check, std::nullopt, false});
    }
    // From the largest size down: once a check has missed one, smaller ones do not count.
    std::vector<bool> seeing(trial_checks().size(), true);
    for (int power = 0; power >= kSmallestDisturbance && !stop.load(); --power) {
      const std::vector<TrialCell> cells =
          try_fault({&disturbance, {.amount = power}}, run, options);
      for (const TrialCell& cell : cells) {
        const auto i = static_cast<std::size_t>(std::ranges::find(trial_checks(), cell.check) -
                                                trial_checks().begin());
        DetectionFloor& floor = floors[first + i];
        floor.applicable = cell.outcome != Outcome::not_applicable;
        seeing[i] = seeing[i] && cell.outcome == Outcome::caught;
        if (seeing[i]) floor.power = power;
      }
    }
  }
  return floors;
}

std::string to_text(const std::vector<DetectionFloor>& floors) {
  std::string text = fmt::format("{:15}", "disturbance");
  for (const std::string_view check : trial_checks()) text += fmt::format("  {:>15}", check);
  const Fault* line = nullptr;
  for (const DetectionFloor& floor : floors) {
    if (floor.disturbance != line) text += fmt::format("\n{:15}", floor.disturbance->id);
    line = floor.disturbance;
    text += fmt::format("  {:>15}", cell_text(floor));
  }
  return text + "\n";
}

}  // namespace kvcheck
