// SPDX-License-Identifier: MIT
// Measuring noise floors on the built-in oracle.
#include "verify/noise.h"

#include <cmath>
#include <limits>
#include <utility>

#include "engine/logged.h"
#include "engine/round_site.h"
#include "engine/uncached.h"
#include "verify/perturb.h"

namespace kvcheck {
namespace {

// The two oracles of one model.
template <Scalar T>
struct Oracles {
  Uncached<T> plain;
  Logged<T> logged;

  Oracles(const Weights<T>& weights, const Ops<T>& ops)
      : plain(weights, ops), logged(weights, ops) {}
};

template <Scalar T>
class Meter final : public NoiseMeter {
 public:
  using Wide = Wider<T>;

  Meter(HeldModel model, Arithmetic arithmetic, RowFormat format)
      : format_(format),
        model_(model.in<T>()),
        wide_weights_(Weights<Wide>::widened(std::move(model))),
        oracles_(*model_, ops_for<T>(arithmetic)),
        wide_oracles_(wide_weights_, row_ops<Wide>()) {}

  void floors(const TokenBlock& block, const Logits& uncached, std::uint64_t seed,
              std::vector<NoiseFloor>& out, const EnoughFloors& enough) override {
    if (uncached.rows() == 0) return floors(block, own_rows(block), seed, out, enough);
    const auto logits = [&](auto& oracles, const auto* observer) {
      const bool last = uncached.rows() == block.sequences;
      return oracles.plain.logits(block, last ? Rows::last : Rows::all, observer);
    };
    measure(logits, {seed, block.sequences}, uncached, out, enough);
  }

  void floors(std::span<const LoggedRow> log, const Logits& uncached, std::uint64_t seed,
              std::vector<NoiseFloor>& out, const EnoughFloors& enough) override {
    const auto logits = [&](auto& oracles, const auto* observer) {
      return oracles.logged.logits(log, uncached.rows(), observer);
    };
    measure(logits, {seed, 1}, uncached, out, enough);
  }

 private:
  static constexpr double kEpsilon = double{std::numeric_limits<T>::epsilon()};

  const Logits& own_rows(const TokenBlock& block) {
    const Observer<T> round = [&](const SiteTensor<T>& tensor) { round_site<T>(tensor, format_); };
    const Observer<T>* const observer = format_ == RowFormat::native ? nullptr : &round;
    copy_rows(oracles_.plain.logits(block, Rows::all, observer), own_);
    return own_;
  }

  // `logits` asks the right one of the oracles that it is given for the rows of `uncached`.
  template <typename Question>
  void measure(Question logits, Signs signs, const Logits& uncached, std::vector<NoiseFloor>& out,
               const EnoughFloors& enough) {
    out.assign(static_cast<std::size_t>(uncached.rows()), {});
    const Observer<Wide> largest = [&](const SiteTensor<Wide>& tensor) {
      if (tensor.site == Site::final_norm) largest_terms(tensor);
      if (format_ != RowFormat::native) round_site<T>(tensor, format_);
    };
    apart_.assign(out.size(), 0);
    widen(logits(wide_oracles_, &largest), uncached);
    add_terms(out);
    for (int k = 0; k < kPerturbedOracles; ++k) {
      if (enough && enough(out)) return;
      const Observer<T> perturb = [&](const SiteTensor<T>& tensor) {
        if (tensor.site == Site::embedding) move_by_epsilon(tensor, {signs, k});
        if (format_ != RowFormat::native) round_either_way(tensor, format_, {signs, k});
      };
      widen(logits(oracles_, &perturb), uncached);
      add_terms(out);
    }
  }

  // The floors, from how far the oracles so far are apart.
  void add_terms(std::vector<NoiseFloor>& out) const {
    const std::size_t before = largest_.size() - out.size();
    for (std::size_t r = 0; r < out.size(); ++r) {
      const auto term = static_cast<double>(largest_[before + r]) * kEpsilon;
      out[r].floor = apart_[r] + term;
      out[r].kappa = out[r].floor / term;
    }
  }

  // The largest terms of the output product.
  void largest_terms(const SiteTensor<Wide>& normed) {
    const View<Wide> x = normed_.reshape(normed.rows, normed.columns);
    for (int f = 0; f < normed.columns; ++f) {
      for (int r = 0; r < normed.rows; ++r) x.feature(f)[r] = std::abs(normed.at(r, f));
    }
    largest_.assign(static_cast<std::size_t>(x.rows), Wide(0));
    wide_weights_.each_output([&](int, const Matrix<Wide>& columns) {
      absolute_output_ = columns.cwiseAbs();
      const View<Wide> sums = sums_.reshape(x.rows, static_cast<int>(columns.cols()));
      row_ops<Wide>().product(x, absolute_output_, no_bias_, sums);
      for (int o = 0; o < sums.features; ++o) {
        for (int r = 0; r < x.rows; ++r) {
          Wide& most = largest_[static_cast<std::size_t>(r)];
          most = larger(most, sums.feature(o)[r]);
        }
      }
    });
  }

  // Raises what is apart to the largest difference of each row; a NaN makes a floor NaN, which
  // judges nothing.
  template <typename U>
  void widen(View<const U> other, const Logits& uncached) {
    const int before = other.rows - uncached.rows();  // rows that nobody asks for
    for (int r = before; r < other.rows; ++r) {
      double& apart = apart_[static_cast<std::size_t>(r - before)];
      const std::span<const double> row = uncached.row(r - before);
      for (int o = 0; o < other.features; ++o) {
        const U difference = U(row[static_cast<std::size_t>(o)]) - other.feature(o)[r];
        apart = larger(apart, static_cast<double>(std::abs(difference)));
      }
    }
  }

  const RowFormat format_;
  const std::shared_ptr<const Model<T>> model_;
  Weights<Wide> wide_weights_;
  Matrix<Wide> absolute_output_;  // of the columns at hand
  const Vector<Wide> no_bias_;
  Oracles<T> oracles_;
  Oracles<Wide> wide_oracles_;
  Block<Wide> normed_, sums_;
  Logits own_;
  std::vector<Wide> largest_;  // [rows]
  std::vector<double> apart_;  // [rows]: the largest difference of the oracles so far
};

}  // namespace

std::unique_ptr<NoiseMeter> make_noise_meter(HeldModel model, ScalarKind scalar,
                                             Arithmetic arithmetic, RowFormat format) {
  if (scalar == ScalarKind::f32)
    return std::make_unique<Meter<float>>(std::move(model), arithmetic, format);
  return std::make_unique<Meter<double>>(std::move(model), arithmetic, format);
}

}  // namespace kvcheck
