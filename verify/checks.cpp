// SPDX-License-Identifier: MIT
// The table of checks.
#include "verify/checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "engine/error.h"
#include "verify/generation.h"

namespace kvcheck {
namespace {

template <Source Wanted>
bool over(const Subject& subject) {
  return subject.source == Wanted;
}

// Not a walk over prefixes.
bool nowhere(const Subject&) { return false; }

bool over_largest(const Subject& subject) { return subject.largest; }

bool in_row_arithmetic(const Subject& subject) {
  return subject.largest && subject.arithmetic == Arithmetic::row;
}

bool in_matrix_arithmetic(const Subject& subject) {
  return subject.largest && subject.arithmetic == Arithmetic::matrix;
}

// What a model promises, and what another program computed, is about rows that nothing rounds.
bool with_contract(const Subject& subject) {
  return subject.largest && !subject.lossy && subject.model.contract_abs.has_value();
}

bool with_golden(const Subject& subject) {
  return subject.source == Source::all && !subject.lossy && subject.model.golden != nullptr;
}

std::optional<Policy> in_force(const ModelData&) { return std::nullopt; }
std::optional<Policy> exact(const ModelData&) { return Exact{}; }
std::optional<Policy> noise(const ModelData&) { return NoiseLimit{}; }
std::optional<Policy> relative(const ModelData&) { return RelativeLimit{}; }
std::optional<Policy> contract(const ModelData& model) {
  return AbsLimit{model.contract_abs.value()};
}

constexpr std::array kChecks{
    Check{"corpus-prefixes", "a cached step gives the oracle's logits on every corpus prefix",
          Group::prefixes, probe_prefixes, over<Source::corpus>, in_force, std::nullopt,
          Feeds::single},
    Check{"all-prefixes", "a cached step gives the oracle's logits on every sequence of valid ids",
          Group::prefixes, probe_prefixes, over<Source::all>, in_force, std::nullopt,
          Feeds::single},
    Check{"random-prefixes", "a cached step gives the oracle's logits on random prefixes",
          Group::prefixes, probe_prefixes, over<Source::random>, in_force, std::nullopt,
          Feeds::single},
    Check{"file-prefixes", "a cached step gives the oracle's logits on the given prefixes",
          Group::prefixes, probe_prefixes, over<Source::file>, in_force, std::nullopt,
          Feeds::single},
    Check{"exact", "those rows agree to the last bit in row arithmetic", Group::prefixes, nullptr,
          in_row_arithmetic, exact, std::nullopt, Feeds::single},
    Check{"contract", "those rows keep the model's declared tolerance", Group::prefixes, nullptr,
          with_contract, contract, std::nullopt, Feeds::single},
    Check{"noise", "those rows differ by no more than rounding explains", Group::prefixes, nullptr,
          in_matrix_arithmetic, noise, std::nullopt, Feeds::single},
    Check{"causality", "row i of a full forward is the own forward of the first i + 1 tokens",
          Group::prefixes, probe_causality, over_largest, in_force, std::nullopt, Feeds::none},
    Check{"golden", "both decoders give the logits of an independent float64 implementation",
          Group::prefixes, probe_golden, with_golden, relative, ScalarKind::f64, Feeds::single},
    Check{"schedules", "however a prefix is cut into feeds, every row is the oracle's",
          Group::schedules, probe_schedules, over_largest, in_force, std::nullopt, Feeds::any},
    Check{kAccountingCheck,
          "rows, positions and bytes count what was fed; a roll back and a refusal leave the rest",
          Group::schedules, probe_accounting, over_largest, in_force, std::nullopt, Feeds::any},
    Check{kGenerationCheck,
          "generation returns the same tokens and stops for the same reason with and without cache",
          Group::schedules, probe_generation, over_largest, in_force, std::nullopt, Feeds::whole},
    Check{kOperationsCheck,
          "after any operations every row is the oracle's, and nothing else changed",
          Group::operations, nullptr, nowhere, in_force, std::nullopt, Feeds::none},
};

}  // namespace

std::span<const Check> checks() { return kChecks; }

const Check& find_check(std::string_view id, std::string_view where) {
  const auto* found = std::find_if(kChecks.begin(), kChecks.end(),
                                   [&](const Check& check) { return check.id == id; });
  if (found != kChecks.end()) return *found;
  std::vector<std::string_view> ids;
  for (const Check& check : kChecks) ids.push_back(check.id);
  throw bad_input({where, "unknown check", fmt::format("one of {}", fmt::join(ids, ", ")), id});
}

bool feeds_by(const Check& check, const Schedule& schedule) {
  if (schedule.empty() || check.feeds == Feeds::any) return true;
  if (check.feeds == Feeds::whole) return schedule.size() == 1;
  const auto one = [](int length) { return length == 1; };
  return check.feeds == Feeds::single && std::ranges::all_of(schedule, one);
}

ProbeFunction probe_of(const Check& check) {
  return check.probe != nullptr ? check.probe : probe_prefixes;
}

Policy default_policy(const ModelData& model, Arithmetic arithmetic, bool lossy) {
  if (arithmetic == Arithmetic::row) return Exact{};
  if (model.contract_abs && !lossy) return AbsLimit{*model.contract_abs};
  return NoiseLimit{};
}

}  // namespace kvcheck
