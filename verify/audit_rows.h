// SPDX-License-Identifier: MIT
// The rows that caches must hold, and whose numbers a cache holds instead.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/port.h"
#include "verify/site_reference.h"

namespace kvcheck {

// A sequence as its log has it, beside the engine's.
struct FollowedSequence {
  SequenceId id = 0;                // the engine's name of it
  std::vector<LoggedRow> log = {};  // of what is held, and all that it was computed from
  std::vector<SeenRow> held = {};   // oldest first
  bool moved = false;               // keys of some rows were rotated once more
  SiteReference reference = {};
};
using FollowedSequences = std::map<int, FollowedSequence>;  // by handle

// The key or value row (by the site: cached_key, cached_value) that a cache must hold for a row.
[[nodiscard]] SiteLines expected_row(SiteMeter& meter, const FollowedSequence& sequence, Site site,
                                     int layer, SeenRow row);

// Numbers of one K/V head that are not the expected ones.
struct StrangeRow {
  int sequence;  // handle
  Site site;     // cached_key or cached_value
  int layer;
  int head;
  SeenRow row;                    // whose numbers were expected
  std::span<const double> found;  // [head_size]
  double tolerance;               // absolute
};

// Positions that are tried.
inline constexpr int kPositionsTried = 512;

// "position 0 where 3 was expected": whose numbers they are: those of the row at another position,
// of another row, K/V head, layer or sequence, of a value instead of a key, or nothing at all. None
// where nothing gives these numbers.
[[nodiscard]] std::optional<std::string> explain(SiteMeter& meter, const Config& config,
                                                 const FollowedSequences& sequences,
                                                 const StrangeRow& strange);

}  // namespace kvcheck
