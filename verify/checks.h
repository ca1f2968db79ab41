// SPDX-License-Identifier: MIT
// The checks: one table row each. A row says what is claimed, over which prefixes, how it is
// probed, and by which policy it is judged. Adding a check is adding a row.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "verify/probes.h"

namespace kvcheck {

inline constexpr std::string_view kAccountingCheck = "accounting";

// Where prefixes come from.
enum class Source {
  corpus,  // of the model's corpus
  all,     // every sequence over the vocabulary
  random,  // of random sequences
  file,    // of sequences that the user gives
};

// Which option a check belongs to: naming one option runs only its checks.
enum class Group { prefixes, schedules, operations };

// What a check is asked to look at: a model with a source of prefixes in one arithmetic.
struct Subject {
  const ModelData& model;
  Source source;
  bool largest;  // the source with the most prefixes of this model's run
  Arithmetic arithmetic;
  bool lossy = false;  // the cache keeps fewer bits than the scalar has
};

// How a check's probe feeds the cached path.
enum class Feeds {
  none,    // not at all
  single,  // one token at a time
  whole,   // everything in one feed
  any,     // by the schedule of the case
};

struct Check {
  std::string_view id;
  std::string_view claim;
  Group group;
  // Null: re-judges, under its own policy, what the prefix probe of the largest source measured.
  ProbeFunction probe;
  bool (*applies)(const Subject&);
  // Its own policy, whatever the user asks for; none: the policy in force.
  std::optional<Policy> (*own_policy)(const ModelData&);
  // Its own scalar; none: the user's.
  std::optional<ScalarKind> scalar;
  Feeds feeds;
};

[[nodiscard]] std::span<const Check> checks();
// Throws Error for an unknown id.
[[nodiscard]] const Check& find_check(std::string_view id, std::string_view where);
// Whether the check can feed so. An empty schedule is every check's: a case at which the engine
// failed before it was fed has none.
[[nodiscard]] bool feeds_by(const Check& check, const Schedule& schedule);
// What a case of this check is run with: its probe, or the prefix probe where it re-judges.
[[nodiscard]] ProbeFunction probe_of(const Check& check);

// row: exact; matrix: the model's contract, else the noise floor. A contract is about whole rows:
// where they are rounded, the noise floor judges.
[[nodiscard]] Policy default_policy(const ModelData& model, Arithmetic arithmetic,
                                    bool lossy = false);

}  // namespace kvcheck
