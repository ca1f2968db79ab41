// SPDX-License-Identifier: MIT
// Where a cached run first parts from the full recompute: every answer of its plans, every value at
// every site and every row that lies in a cache, beside the oracle's, in the order in which they
// depend on each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "verify/case.h"
#include "verify/probes.h"
#include "verify/set_value.h"

namespace kvcheck {

// What is compared: "token", a question of the plan ("position", "slot", "visible rows", "store",
// "K/V head", "constants", "length"), a site, the "answer" that the engine gives to a feed, what
// lies in a cache after a step ("held rows", "held position", "held key", "held value"), or "step":
// how a step is carried out.
struct AuditPoint {
  std::string name;
  int layer = -1;  // -1: none, or all

  bool operator==(const AuditPoint&) const = default;
};

// One value beside the oracle's.
struct AuditValue {
  int sequence = 0;  // handle
  ValueIndex at;
  double uncached = 0;
  double cached = 0;
  std::uint64_t ulps = 0;
  std::optional<double> floor = {};
  std::optional<double> ratio = {};  // difference / floor
};

// What was compared at one point of one step.
struct AuditFinding {
  AuditPoint point;
  Verdict verdict = Verdict::agree;
  std::int64_t compared = 0;             // numbers
  std::optional<AuditValue> worst = {};  // by verdict, then ratio or difference
  std::string wrong = {};                // what was found and what was expected
};

struct AuditedStep {
  int step = 0;                        // feed, operation or what else a check asks, from 0
  std::string what;                    // the tokens of a feed, or the operation
  std::vector<AuditFinding> findings;  // in the order of dependence
};

struct FirstDivergence {
  int step = 0;
  AuditPoint point;
  std::string sentence;  // where, what was found, what was expected

  bool operator==(const FirstDivergence&) const = default;
};

// A step in one line.
struct AuditSummary {
  int step = 0;
  std::string what;
  std::optional<AuditPoint> first = {};   // that diverges
  std::optional<AuditValue> logits = {};  // the worst one
};

struct AuditResult {
  Verdict verdict = Verdict::gave_up;
  std::optional<FirstDivergence> first = {};
  AuditedStep shown = {};  // the first step that diverges, else the last one
  std::vector<AuditSummary> steps = {};
  std::int64_t compared = 0;  // numbers, in all steps
  double worst_ratio = 0;     // of all values that agree
  AuditPoint worst_ratio_at = {};
  bool value_set = false;    // the value of AuditOptions::set was met
  bool interrupted = false;  // by AuditOptions::go_on
  std::string note = {};     // of a failing engine, or what is wrong besides all values
};

// Every value, as it is compared. `step` counts from 0.
using AuditTrace = std::function<void(int step, Site site, int layer, const AuditValue& value)>;

struct AuditOptions {
  bool floors = true;   // also where they decide nothing
  bool to_end = false;  // else the first step that diverges is the last one
  std::optional<SetValue> set = {};
  AuditTrace trace = {};
  std::function<bool(std::size_t done)> go_on = {};  // asked before each step; false: it is not run
};

// Whether a case feeds its tokens to one sequence by its schedule, and does nothing else.
[[nodiscard]] bool feeds_one_sequence(const Case& subject);

// Runs the case on a new engine, which must be the built-in one, perhaps with something planted in
// it: else an Error. In row arithmetic values must agree to the last bit, in matrix arithmetic
// within the noise floor of their line of a site; the case's own policy counts if it is one of
// these. Throws Error for a case without a cached path.
[[nodiscard]] AuditResult audit(const Case& subject, const ModelData& model,
                                const EngineFactory& factory, const AuditOptions& options = {});

// The same, with no more work than it takes; none where nothing diverges, or where the engine
// cannot be watched.
[[nodiscard]] std::optional<FirstDivergence> first_divergence(const Case& subject,
                                                              const ModelData& model,
                                                              const EngineFactory& factory);

}  // namespace kvcheck
