// SPDX-License-Identifier: MIT
// What the oracle computes at every site for the rows of one sequence, and by how much rounding
// alone moves it there. As for noise floors, no cache is involved.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "engine/logged.h"
#include "engine/model.h"
#include "engine/row_format.h"
#include "engine/site.h"

namespace kvcheck {

// The values of one row of the log at a site, [lines, columns]: a line for each query head at
// scores and probabilities, else one. Each line has a floor of its own, if floors were asked for.
struct SiteLines {
  int columns = 0;
  std::vector<double> values;
  std::vector<double> floors;

  [[nodiscard]] int lines() const { return static_cast<int>(values.size()) / columns; }
  [[nodiscard]] std::span<const double> line(int i) const {
    return std::span(values).subspan(
        static_cast<std::size_t>(i) * static_cast<std::size_t>(columns),
        static_cast<std::size_t>(columns));
  }
};

// At the sites of cached keys and values: the row that a cache must hold, as it was fed, [kv_heads
// * head_size]. Keys there and at their own site are rotated by the position at which they were
// fed.
class SiteReference {
 public:
  // Null where there is none.
  [[nodiscard]] const SiteLines* find(Site site, int layer, int row) const {
    const auto found = lines_.find({layer, site, row});
    return found == lines_.end() ? nullptr : &found->second;
  }
  [[nodiscard]] SiteLines& at(Site site, int layer, int row) { return lines_[{layer, site, row}]; }
  [[nodiscard]] auto begin() { return lines_.begin(); }
  [[nodiscard]] auto end() { return lines_.end(); }

 private:
  std::map<std::tuple<int, Site, int>, SiteLines> lines_;
};

// Which rows of which log, and what of them.
struct SiteQuestion {
  std::span<const LoggedRow> log;
  int first = 0;  // row from which on all sites are wanted; of earlier ones, keys and values only
  std::uint64_t seed = 1;  // of the perturbations
  bool floors = true;
};

class SiteMeter {
 public:
  virtual ~SiteMeter() = default;
  // By the oracle of plain sequences where the log is such a one's. The floor of a line is the
  // largest over it of |u - u_wide| and |u - u_k| as for a noise floor, plus epsilon x its largest
  // value.
  [[nodiscard]] virtual SiteReference measure(const SiteQuestion& question) = 0;
  // The keys of a layer before they have a position, [row][kv_heads * head_size].
  [[nodiscard]] virtual std::vector<std::vector<double>> raw_keys(std::span<const LoggedRow> log,
                                                                  int layer) = 0;
  // Such a key as it must be held at a position.
  [[nodiscard]] virtual std::vector<double> placed(const std::vector<double>& raw, int layer,
                                                   int position) const = 0;
};

[[nodiscard]] std::unique_ptr<SiteMeter> make_site_meter(HeldModel model, ScalarKind scalar,
                                                         Arithmetic arithmetic, RowFormat format);

}  // namespace kvcheck
