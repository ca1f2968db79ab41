// SPDX-License-Identifier: MIT
// Planning a run.
#include "verify/assignments.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/builtin.h"
#include "engine/cost.h"
#include "verify/exhaustive.h"

namespace kvcheck {
namespace {

bool largest_source(const ModelRun& run, const SourceOfPrefixes& source) {
  // Sources are listed from small to large.
  return &source == &run.sources.back();
}

bool wanted(const SuiteOptions& options, const Check& check) {
  return check.group == Group::prefixes ? options.prefixes : options.schedules;
}

class Planner {
 public:
  explicit Planner(const SuiteOptions& options) : options_(options) {}

  std::vector<std::unique_ptr<Assignment>> plan(const std::vector<ModelRun>& models) const {
    std::vector<std::unique_ptr<Assignment>> assignments;
    for (const ModelRun& run : models) {
      const std::size_t before = assignments.size();
      for (const SourceOfPrefixes& source : run.sources) plan(run, source, assignments);
      plan_operations(run, assignments);
      if (assignments.size() > before) assignments.back()->last_of_model = true;
    }
    return assignments;
  }

 private:
  void plan(const ModelRun& run, const SourceOfPrefixes& source,
            std::vector<std::unique_ptr<Assignment>>& assignments) const {
    for (const Check& check : checks()) {
      for (const Arithmetic arithmetic : options_.arithmetics) {
        auto assignment = assign(run, source, check, arithmetic);
        if (assignment) assignments.push_back(std::move(assignment));
      }
    }
  }

  void plan_operations(const ModelRun& run,
                       std::vector<std::unique_ptr<Assignment>>& assignments) const {
    const OperationChoice& choice = options_.operations;
    if (choice.kind == OperationChoice::Kind::none) return;
    const Check& check = find_check(kOperationsCheck, "plan");
    for (const CacheKind& cache : choice.caches) {
      for (const Arithmetic arithmetic : options_.arithmetics) {
        auto assignment = std::make_unique<Assignment>(
            Assignment{&run, nullptr, arithmetic, options_.scalar, {}});
        const Subject subject{run.model, Source::random, true, arithmetic, cache.lossy()};
        assignment->checks.push_back({&check, policy(check, subject)});
        assignment->cache = cache;
        assignment->space = operation_space(run.model.weights.config, cache,
                                            builtin_capabilities(run.model.weights.config, cache));
        assignment->sequences = sequences_of(*assignment->space);
        assignments.push_back(std::move(assignment));
      }
    }
  }

  std::size_t sequences_of(OperationSpace& space) const {
    const OperationChoice& choice = options_.operations;
    if (choice.kind == OperationChoice::Kind::random) return static_cast<std::size_t>(choice.count);
    space.live_max = kLiveEnumerated;
    return count_longest(space, choice.depth);
  }

  std::unique_ptr<Assignment> assign(const ModelRun& run, const SourceOfPrefixes& source,
                                     const Check& check, Arithmetic arithmetic) const {
    const Subject subject{run.model, source.source, largest_source(run, source), arithmetic,
                          options_.cache.lossy()};
    if (check.probe == nullptr || !wanted(options_, check) || !check.applies(subject)) return {};
    auto assignment = std::make_unique<Assignment>(
        Assignment{&run, &source, arithmetic, check.scalar.value_or(options_.scalar), {}});
    assignment->cache = options_.cache;
    assignment->oracle = oracle(run.model.weights.config, source.tree);
    assignment->checks.push_back({&check, policy(check, subject)});
    if (check.probe == probe_prefixes) {
      for (const Check& other : checks()) {
        if (other.probe != nullptr || !wanted(options_, other) || !other.applies(subject)) continue;
        assignment->checks.push_back({&other, policy(other, subject)});
      }
    }
    return assignment;
  }

  OracleChoice oracle(const Config& config, const PrefixTree& tree) const {
    if (tree.whole_vocabulary() || !fits_one_forward(tree.depth_max(), config.vocabulary)) {
      return OracleChoice::per_prefix;
    }
    if (options_.oracle) return *options_.oracle;
    const double sequences = static_cast<double>(tree.count()) / tree.depth_max();
    const Count one = run_work(config, tree.depth_max(), 1).uncached;
    return one.approximate() * sequences > kWorkPerPrefixMax ? OracleChoice::full
                                                             : OracleChoice::per_prefix;
  }

  Policy policy(const Check& check, const Subject& subject) const {
    if (const auto own = check.own_policy(subject.model)) return *own;
    if (options_.tolerance) return *options_.tolerance;
    return default_policy(subject.model, subject.arithmetic, subject.lossy);
  }

  const SuiteOptions& options_;
};

bool judged_alike(const Case& a, const Case& b) {
  return a.scalar == b.scalar && a.arithmetic == b.arithmetic && a.policy == b.policy;
}

}  // namespace

std::vector<std::unique_ptr<Assignment>> plan_assignments(const SuiteOptions& options,
                                                          const std::vector<ModelRun>& models) {
  return Planner(options).plan(models);
}

std::vector<StoredCases> group_stored(const std::vector<ModelRun>& models) {
  std::vector<StoredCases> groups;
  for (const ModelRun& run : models) {
    for (const Case& subject : run.stored) {
      const auto group = std::ranges::find_if(groups, [&](const StoredCases& of) {
        return of.run == &run && judged_alike(of.cases.front(), subject);
      });
      if (group == groups.end()) {
        groups.push_back({&run, {subject}});
      } else {
        group->cases.push_back(subject);
      }
    }
  }
  return groups;
}

std::size_t count_longest(const OperationSpace& space, int depth) {
  std::size_t found = 0;
  each_longest(space, depth, 0, std::numeric_limits<std::size_t>::max(),
               [&](const Operations&) { ++found; });
  return found;
}

// A sequence that goes on is run as the beginning of each that it goes on to.
void each_longest(const OperationSpace& space, int depth, std::size_t first, std::size_t count,
                  const std::function<void(const Operations&)>& visit) {
  std::size_t number = 0;
  each_sequence(space, depth, [&](const Operations& path, const TokenLog& log) {
    const bool longest = static_cast<int>(path.size()) == depth || alphabet_at(log, space).empty();
    if (!longest) return true;
    if (number >= first && number - first < count) visit(path);
    ++number;
    return false;
  });
}

namespace {

struct Lengths {
  int shortest = 1;
  int longest = std::numeric_limits<int>::max();
};

std::vector<Lengths> lengths_of_parts(const Assignment& assignment) {
  const PrefixTree& tree = assignment.source->tree;
  const bool cut = assignment.checks.front().check->probe == probe_prefixes &&
                   assignment.oracle == OracleChoice::per_prefix && !tree.whole_vocabulary() &&
                   tree.depth_max() >= kCutLength;
  if (!cut) return {{}};
  std::vector<Lengths> parts;
  int before = 0;
  for (int i = 1; i <= kLengthParts; ++i) {
    // The work up to a length grows as its square.
    const int end = i == kLengthParts
                        ? tree.depth_max()
                        : static_cast<int>(tree.depth_max() * std::sqrt(double(i) / kLengthParts));
    parts.push_back({before + 1, end});
    before = end;
  }
  return parts;
}

std::vector<Unit> cut_operations(const Assignment& assignment, std::size_t together) {
  std::vector<Unit> units;
  for (std::size_t first = 0; first < assignment.sequences; first += together) {
    const std::size_t count = std::min(together, assignment.sequences - first);
    units.push_back({&assignment, {}, false, first, count});
  }
  if (units.empty()) units.push_back({&assignment, {}, false});
  units.back().last = true;
  return units;
}

}  // namespace

std::vector<Unit> cut(const Assignment& assignment, OperationChoice::Kind operations) {
  if (assignment.space) {
    const bool random = operations == OperationChoice::Kind::random;
    return cut_operations(
        assignment, random ? kUnitSequences
                           : std::max(kUnitEnumerated, assignment.sequences / kUnitsEnumerated));
  }
  const PrefixTree& tree = assignment.source->tree;
  const bool one_case_a_prefix = assignment.checks.front().check->group == Group::prefixes;
  const std::vector<Lengths> lengths = lengths_of_parts(assignment);
  if (one_case_a_prefix && tree.count() <= kUnitPrefixes && lengths.size() == 1) {
    return {{&assignment, {}, true}};
  }
  std::vector<Unit> units;
  for (const PrefixTree::Child& child : tree.children(tree.root())) {
    for (const Lengths& part : lengths) {
      units.push_back({&assignment, {child.token}, false, 0, 0, part.shortest, part.longest});
    }
  }
  if (units.empty()) units.push_back({&assignment, {}, false});
  units.back().last = true;
  return units;
}

}  // namespace kvcheck
