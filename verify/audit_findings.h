// SPDX-License-Identifier: MIT
// What the comparisons of one step came to, kept in the order in which they depend on each other.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "engine/logged.h"
#include "engine/site.h"
#include "verify/audit.h"
#include "verify/tolerance.h"

namespace kvcheck {

// A line of values beside the oracle's.
struct ComparedLine {
  std::span<const double> uncached;
  std::span<const double> cached;
  std::optional<double> floor;
  ScalarKind scalar;
};

// The line's column `i` as a value.
[[nodiscard]] AuditValue value_at(const ComparedLine& line, std::size_t i, int sequence,
                                  const ValueIndex& at);

// How a site is called in a sentence: "stored key" for cached_key.
[[nodiscard]] std::string text_of(Site site);

class Findings {
 public:
  // A finding, and what its sentence and its explanation need.
  struct Kept {
    AuditFinding finding;
    std::optional<Site> site = {};
    std::vector<double> line = {};  // cached, where the worst value lies
    std::optional<SeenRow> row =
        {};  // whose key or value that is, at sites of rows as they are held
    int slot = -1;
  };

  // ---- Whole numbers. Those of a question that is asked before another one come first.
  enum class Stage { step, token, question, site, answer, held, held_row };
  void add(Stage stage, int order, AuditFinding finding);

  // ---- Values
  // Where the value of a line's column stands.
  struct Place {
    Stage stage = Stage::site;
    Site site;
    int layer;
    std::optional<SeenRow> row = {};
    int slot = -1;
  };
  // Judges a line; `worst` names the place of its worst column.
  void take(const Place& place, const Policy& policy, const ComparedLine& line,
            const AuditValue& worst);
  // Tensors of another shape than the oracle's.
  void add_shape(const Place& place, std::string wrong);

  void clear() { kept_.clear(); }
  [[nodiscard]] const Kept* first_diverging() const;
  [[nodiscard]] const Kept* find(Site site) const;  // outside the layers
  [[nodiscard]] std::vector<AuditFinding> all() const;

 private:
  Kept& at(const Place& place);

  std::map<std::tuple<Stage, int, int>, Kept> kept_;  // by stage, layer and order within it
};

// Index of the worst column: where the two values differ most.
[[nodiscard]] std::size_t worst_column(const ComparedLine& line);

}  // namespace kvcheck
