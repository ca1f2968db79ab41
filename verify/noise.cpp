// SPDX-License-Identifier: MIT
// Measuring noise floors on the built-in oracle.
#include "verify/noise.h"

#include <cmath>
#include <limits>

#include "engine/error.h"
#include "engine/random.h"
#include "engine/uncached.h"

namespace kvcheck {
namespace {

// A NaN, once met, stays.
template <typename T>
T larger(T a, T b) {
  return a >= b || std::isnan(a) ? a : b;
}

template <Scalar T>
class Meter final : public NoiseMeter {
 public:
  using Wide = Wider<T>;

  Meter(const Model<float>& model, Arithmetic arithmetic)
      : model_(cast<T>(model)),
        wide_model_(cast<Wide>(model)),
        absolute_output_(wide_model_.output.cwiseAbs()),
        oracle_(model_, ops_for<T>(arithmetic)),
        wide_oracle_(wide_model_, row_ops<Wide>()) {}

  void floors(const TokenBlock& block, const Logits& uncached, std::uint64_t seed,
              std::vector<NoiseFloor>& out) override {
    const int rows = block.sequences;
    out.assign(static_cast<std::size_t>(rows), {});
    measure_wide(block, uncached, out);
    for (int k = 0; k < kPerturbedOracles; ++k) {
      const Observer<T> perturb = [&](const SiteTensor<T>& tensor) {
        if (tensor.site == Site::embedding) move_by_epsilon(tensor, block.sequences, seed, k);
      };
      widen(oracle_.logits(block, Rows::last, &perturb), uncached, out);
    }
    for (int r = 0; r < rows; ++r) {
      NoiseFloor& floor = out[static_cast<std::size_t>(r)];
      const auto term = static_cast<double>(largest_[static_cast<std::size_t>(r)]) * kEpsilon;
      floor.floor += term;
      floor.kappa = floor.floor / term;
    }
  }

 private:
  static constexpr double kEpsilon = double{std::numeric_limits<T>::epsilon()};

  // The wide oracle's logits, and the largest terms of its output product.
  void measure_wide(const TokenBlock& block, const Logits& uncached, std::vector<NoiseFloor>& out) {
    const Observer<Wide> largest = [&](const SiteTensor<Wide>& tensor) {
      if (tensor.site == Site::final_norm) largest_terms(tensor);
    };
    widen(wide_oracle_.logits(block, Rows::last, &largest), uncached, out);
  }

  void largest_terms(const SiteTensor<Wide>& normed) {
    const View<Wide> x = normed_.reshape(normed.rows, normed.columns);
    for (int f = 0; f < normed.columns; ++f) {
      for (int r = 0; r < normed.rows; ++r) x.feature(f)[r] = std::abs(normed.at(r, f));
    }
    const View<Wide> sums = sums_.reshape(x.rows, static_cast<int>(absolute_output_.cols()));
    row_ops<Wide>().product(x, absolute_output_, no_bias_, sums);
    largest_.assign(static_cast<std::size_t>(x.rows), Wide(0));
    for (int o = 0; o < sums.features; ++o) {
      for (int r = 0; r < x.rows; ++r) {
        Wide& most = largest_[static_cast<std::size_t>(r)];
        most = larger(most, sums.feature(o)[r]);
      }
    }
  }

  static void move_by_epsilon(const SiteTensor<T>& x, int sequences, std::uint64_t seed, int k) {
    for (int r = 0; r < x.rows; ++r) {
      // By the position, not the row: a prefix gets the same signs alone and beside its siblings.
      const auto position = static_cast<std::uint64_t>(r / sequences);
      for (int f = 0; f < x.columns; ++f) {
        const std::uint64_t counter =
            position * static_cast<std::uint64_t>(x.columns) + static_cast<std::uint64_t>(f);
        const bool up = (hash(seed, static_cast<std::uint64_t>(k), counter) & 1U) != 0;
        x.at(r, f) *=
            T(1) + (up ? std::numeric_limits<T>::epsilon() : -std::numeric_limits<T>::epsilon());
      }
    }
  }

  // Raises the floors to the largest difference of each row; a NaN makes a floor NaN, which judges
  // nothing.
  template <typename U>
  static void widen(View<const U> other, const Logits& uncached, std::vector<NoiseFloor>& out) {
    for (int r = 0; r < other.rows; ++r) {
      double& floor = out[static_cast<std::size_t>(r)].floor;
      const std::span<const double> row = uncached.row(r);
      for (int o = 0; o < other.features; ++o) {
        const U apart = U(row[static_cast<std::size_t>(o)]) - other.feature(o)[r];
        const auto distance = static_cast<double>(std::abs(apart));
        floor = larger(floor, distance);
      }
    }
  }

  const Model<T> model_;
  const Model<Wide> wide_model_;
  const Matrix<Wide> absolute_output_;  // [width, vocabulary]
  const Vector<Wide> no_bias_;
  Uncached<T> oracle_;
  Uncached<Wide> wide_oracle_;
  Block<Wide> normed_, sums_;
  std::vector<Wide> largest_;  // [sequences]
};

}  // namespace

std::unique_ptr<NoiseMeter> make_noise_meter(const Model<float>& model, ScalarKind scalar,
                                             Arithmetic arithmetic) {
  if (scalar == ScalarKind::f32) return std::make_unique<Meter<float>>(model, arithmetic);
  return std::make_unique<Meter<double>>(model, arithmetic);
}

}  // namespace kvcheck
