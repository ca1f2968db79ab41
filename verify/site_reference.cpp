// SPDX-License-Identifier: MIT
// Watching the oracles at every site.
#include "verify/site_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/error.h"
#include "engine/ops.h"
#include "engine/rotary_tables.h"
#include "engine/uncached.h"
#include "verify/perturb.h"

namespace kvcheck {
namespace {

bool is_plain(std::span<const LoggedRow> log) {
  for (std::size_t r = 0; r < log.size(); ++r) {
    const int row = static_cast<int>(r);
    if (log[r].position != row || log[r].sees.size() != r + 1) return false;
    for (int i = 0; i <= row; ++i) {
      if (log[r].sees[static_cast<std::size_t>(i)] != SeenRow{i, i}) return false;
    }
  }
  return true;
}

// The oracles of one scalar, asked for all rows of a log.
template <Scalar T>
class Oracle {
 public:
  Oracle(const Weights<T>& weights, const Ops<T>& ops)
      : config_(weights.config()),
        tables_(rotary_tables<T>(config_)),
        plain_(weights, ops),
        logged_(weights, ops) {}

  // Gives `line` every line at every site: line(site, layer, row, line, values). `perturb` is
  // called on each tensor before, and `store` on keys and values between what is computed and what
  // a cache holds of it.
  template <typename Perturb, typename Store, typename Line>
  void run(const SiteQuestion& question, Perturb perturb, Store store, Line line) {
    const std::span<const LoggedRow> log = question.log;
    const bool plain = is_plain(log);
    const Observer<T> observer = [&](const SiteTensor<T>& tensor) {
      perturb(tensor);
      const bool key = tensor.site == Site::key;
      if (!key && tensor.site != Site::value) return give_lines(tensor, question, line);
      const bool unrotated = key && !plain;
      give_rows(tensor, question, unrotated, 0, line);
      store(tensor);
      SiteTensor<T> stored = tensor;
      stored.site = key ? Site::cached_key : Site::cached_value;
      give_rows(stored, question, unrotated, 0, line);
    };
    if (!plain) {
      (void)logged_.logits(log, static_cast<int>(log.size()), &observer);
      return;
    }
    std::vector<int> tokens;
    for (const LoggedRow& row : log) tokens.push_back(row.token);
    (void)plain_.logits({tokens, 1}, Rows::all, &observer);
  }

  // Keys of a layer before any position, [row][kv_heads * head_size].
  [[nodiscard]] std::vector<std::vector<T>> raw_keys(std::span<const LoggedRow> log, int layer) {
    std::vector<std::vector<T>> keys;
    const Observer<T> observer = [&](const SiteTensor<T>& tensor) {
      if (tensor.site != Site::key || tensor.layer != layer) return;
      for (int r = 0; r < tensor.rows; ++r) keys.push_back(row_of(tensor, r));
    };
    (void)logged_.logits(log, 1, &observer);
    return keys;
  }

  void rotate_to(std::vector<T>& key, int layer, int position) const {
    if (config_.positions != Positions::rotary) return;
    const auto base = static_cast<std::size_t>(config_.rotary_base_of(layer));
    rotate(*tables_[base], config_.rotary_pairs, std::span(&position, 1), config_.head_size,
           View<T>{key.data(), 1, static_cast<int>(key.size()), 1});
  }

 private:
  static std::vector<T> row_of(const SiteTensor<T>& tensor, int row) {
    std::vector<T> values;
    for (int c = 0; c < tensor.columns; ++c) values.push_back(tensor.at(row, c));
    return values;
  }

  template <typename Line>
  void give_lines(const SiteTensor<T>& tensor, const SiteQuestion& question, Line& line) {
    if (tensor.site != Site::scores && tensor.site != Site::probabilities) {
      return give_rows(tensor, question, false, question.first, line);
    }
    if (tensor.row < question.first) return;
    for (int h = 0; h < tensor.rows; ++h) {
      line(tensor.site, tensor.layer, tensor.row, h, row_of(tensor, h));
    }
  }

  // Sites that have fewer rows than the log have its last ones.
  template <typename Line>
  void give_rows(const SiteTensor<T>& tensor, const SiteQuestion& question, bool unrotated,
                 int first, Line& line) {
    const int before = static_cast<int>(question.log.size()) - tensor.rows;
    for (int r = 0; r < tensor.rows; ++r) {
      const int row = before + r;
      if (row < first) continue;
      std::vector<T> values = row_of(tensor, r);
      if (unrotated) {
        const int position = question.log[static_cast<std::size_t>(row)].position;
        rotate_to(values, tensor.layer, position);
      }
      line(tensor.site, tensor.layer, row, 0, values);
    }
  }

  const Config& config_;
  const RotaryTables<T> tables_;  // by base
  Uncached<T> plain_;
  Logged<T> logged_;
};

template <Scalar T>
class Meter final : public SiteMeter {
 public:
  using Wide = Wider<T>;

  Meter(HeldModel model, Arithmetic arithmetic, RowFormat format)
      : format_(format),
        model_(model.in<T>()),
        oracle_(*model_, ops_for<T>(arithmetic)),
        wide_(Weights<Wide>::widened(std::move(model)), row_ops<Wide>()) {}

  SiteReference measure(const SiteQuestion& question) override {
    SiteReference reference;
    const auto nothing = [](const auto&) {};
    const auto round = [this](const auto& tensor) {
      if (format_ != RowFormat::native) round_site<T>(tensor, format_);
    };
    oracle_.run(question, nothing, round,
                [&](Site site, int layer, int row, int, const std::vector<T>& values) {
                  SiteLines& lines = reference.at(site, layer, row);
                  lines.columns = static_cast<int>(values.size());
                  lines.values.insert(lines.values.end(), values.begin(), values.end());
                });
    if (question.floors) measure_floors(question, reference);
    return reference;
  }

  std::vector<std::vector<double>> raw_keys(std::span<const LoggedRow> log, int layer) override {
    std::vector<std::vector<double>> keys;
    for (const auto& key : oracle_.raw_keys(log, layer)) keys.emplace_back(key.begin(), key.end());
    return keys;
  }

  std::vector<double> placed(const std::vector<double>& raw, int layer,
                             int position) const override {
    std::vector<T> key;
    for (const double value : raw) key.push_back(static_cast<T>(value));
    oracle_.rotate_to(key, layer, position);
    if (format_ != RowFormat::native) round_row<T>(format_, key);
    return {key.begin(), key.end()};
  }

 private:
  void measure_floors(const SiteQuestion& question, SiteReference& reference) {
    for (auto& [address, lines] : reference) {
      lines.floors.assign(static_cast<std::size_t>(lines.lines()), 0.0);
    }
    const auto widen = [&](Site site, int layer, int row, int line, const auto& values) {
      raise_floor(reference.at(site, layer, row), line, values);
    };
    const auto nothing = [](const auto&) {};
    wide_.run(
        question, nothing,
        [this](const auto& tensor) {
          if (format_ != RowFormat::native) round_site<T>(tensor, format_);
        },
        widen);
    for (int k = 0; k < kPerturbedOracles; ++k) {
      const Perturbation by{{question.seed, 1}, k};
      oracle_.run(
          question,
          [&](const SiteTensor<T>& tensor) {
            if (tensor.site == Site::embedding) move_by_epsilon(tensor, by);
          },
          [&](const SiteTensor<T>& tensor) {
            if (format_ != RowFormat::native) round_either_way(tensor, format_, by);
          },
          widen);
    }
    for (auto& [address, lines] : reference) add_epsilon(lines);
  }

  template <typename U>
  static void raise_floor(SiteLines& lines, int line, const std::vector<U>& other) {
    require(static_cast<int>(other.size()) == lines.columns, "oracles see the same rows");
    const std::span<const double> right = lines.line(line);
    double& floor = lines.floors[static_cast<std::size_t>(line)];
    for (std::size_t i = 0; i < right.size(); ++i) {
      floor = larger(floor, static_cast<double>(std::abs(U(right[i]) - other[i])));
    }
  }

  static void add_epsilon(SiteLines& lines) {
    for (int line = 0; line < lines.lines(); ++line) {
      double largest = 0;
      for (const double value : lines.line(line)) largest = larger(largest, std::abs(value));
      lines.floors[static_cast<std::size_t>(line)] +=
          largest * double{std::numeric_limits<T>::epsilon()};
    }
  }

  const RowFormat format_;
  const std::shared_ptr<const Model<T>> model_;
  Oracle<T> oracle_;
  Oracle<Wide> wide_;
};

}  // namespace

std::unique_ptr<SiteMeter> make_site_meter(HeldModel model, ScalarKind scalar,
                                           Arithmetic arithmetic, RowFormat format) {
  if (scalar == ScalarKind::f32)
    return std::make_unique<Meter<float>>(std::move(model), arithmetic, format);
  return std::make_unique<Meter<double>>(std::move(model), arithmetic, format);
}

}  // namespace kvcheck
