// SPDX-License-Identifier: MIT
// Policies: their text, and how they judge.
#include "verify/tolerance.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>

#include "engine/error.h"

namespace kvcheck {
namespace {

template <typename... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <typename... F>
Overloaded(F...) -> Overloaded<F...>;

double parse_limit(std::string_view text, std::string_view where) {
  double limit = 0;
  const char* const end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, limit);
  if (error != std::errc() || next != end || !std::isfinite(limit) || limit < 0) {
    throw bad_input({where, "limit", "a finite number that is not negative", text});
  }
  return limit;
}

double positive(double limit, std::string_view text, std::string_view where) {
  if (!(limit > 0)) throw bad_input({where, "limit", "a number above 0", text});
  return limit;
}

bool within(const Policy& policy, const RowComparison& row, const std::optional<double>& ratio) {
  if (!std::isfinite(row.max_abs_difference)) return false;
  return std::visit(
      Overloaded{
          [&](Exact) { return row.same_bits; },
          [&](AbsLimit abs) { return row.max_abs_difference <= abs.limit; },
          [&](NoiseLimit noise) { return ratio.has_value() && *ratio <= noise.limit; },
          [&](RelativeLimit rel) { return row.max_abs_difference <= rel.limit * row.largest; },
      },
      policy);
}

// No difference is no multiple of any floor; a difference over a floor of 0 is infinitely many of
// it, and a floor that is not finite measures nothing.
std::optional<double> ratio_of(const RowComparison& row, const std::optional<NoiseFloor>& floor) {
  if (row.max_abs_difference == 0) return 0.0;
  if (!floor || !std::isfinite(floor->floor)) return std::nullopt;
  return row.max_abs_difference / floor->floor;
}

}  // namespace

std::string to_text(const Policy& policy) {
  return std::visit(Overloaded{
                        [](Exact) { return std::string("exact"); },
                        [](AbsLimit abs) { return fmt::format("abs:{}", abs.limit); },
                        [](NoiseLimit noise) { return fmt::format("noise:{}", noise.limit); },
                        [](RelativeLimit rel) { return fmt::format("rel:{}", rel.limit); },
                    },
                    policy);
}

Policy parse_policy(std::string_view text, std::string_view where) {
  if (text == "exact") return Exact{};
  if (text == "noise") return NoiseLimit{};
  const auto colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  if (colon != std::string_view::npos) {
    const std::string_view number = text.substr(colon + 1);
    if (kind == "abs") return AbsLimit{parse_limit(number, where)};
    if (kind == "noise") return NoiseLimit{positive(parse_limit(number, where), number, where)};
    if (kind == "rel") return RelativeLimit{positive(parse_limit(number, where), number, where)};
  }
  throw bad_input({where, "policy", "exact, abs:X or noise[:LIMIT]", text});
}

double smallest_floor(const RowComparison& row, ScalarKind scalar) {
  const double epsilon = scalar == ScalarKind::f32 ? double{std::numeric_limits<float>::epsilon()}
                                                   : std::numeric_limits<double>::epsilon();
  return (1 - kFloorSlack) * epsilon * row.largest;
}

bool agrees_at_any_floor(NoiseLimit noise, const RowComparison& row, ScalarKind scalar) {
  return row.uncached_finite && row.cached_finite &&
         row.max_abs_difference <= noise.limit * smallest_floor(row, scalar);
}

Judgement judge(const Policy& policy, const RowComparison& row,
                const std::optional<NoiseFloor>& floor, ScalarKind scalar) {
  Judgement judgement;
  // Against stored logits nothing was measured that a ratio could be in units of.
  if (!std::holds_alternative<RelativeLimit>(policy)) judgement.ratio = ratio_of(row, floor);
  if (!row.uncached_finite) {
    judgement.verdict = Verdict::broken;  // nothing to compare with
    judgement.note = kNotFinite;
    return judgement;
  }
  if (!row.cached_finite) {
    judgement.verdict = Verdict::diverge;
    return judgement;
  }
  const bool by_noise = std::holds_alternative<NoiseLimit>(policy);
  if (by_noise &&
      !judgement.ratio) {  // gave up: no floor to measure by, perhaps a wider scalar has one
    judgement.gated = scalar == ScalarKind::f32 && floor.has_value();
    return judgement;
  }
  judgement.verdict = within(policy, row, judgement.ratio) ? Verdict::agree : Verdict::diverge;
  // Written so that a kappa that is not a number is gated too.
  const bool ill_conditioned = floor && !(floor->kappa <= kKappaGate);
  if (by_noise && scalar == ScalarKind::f32 && ill_conditioned &&
      !agrees_at_any_floor(std::get<NoiseLimit>(policy), row, scalar)) {
    judgement.verdict = Verdict::gave_up;
    judgement.gated = true;
  }
  return judgement;
}

}  // namespace kvcheck
