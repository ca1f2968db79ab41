// SPDX-License-Identifier: MIT
// Collecting, judging and ordering what was compared.
#include "verify/audit_findings.h"

#include <cmath>
#include <limits>
#include <utility>

namespace kvcheck {
namespace {

// After all layers.
constexpr int kBehindLayers = std::numeric_limits<int>::max();

int layer_order(Site site, int layer) {
  return site == Site::final_norm || site == Site::logits ? kBehindLayers : layer;
}

// In units of the floor where there is one. What cannot be measured may be as bad as anything.
double badness(const std::optional<AuditValue>& value) {
  if (!value) return -1;
  if (value->ratio) return *value->ratio;
  const double apart = std::abs(value->cached - value->uncached);
  if (value->cached == value->uncached) return 0;
  return std::isfinite(apart) ? apart : std::numeric_limits<double>::infinity();
}

std::optional<NoiseFloor> noise_floor(const std::optional<double>& floor) {
  if (!floor) return std::nullopt;
  // Conditioning is part of the floor of a line: nothing is gated here.
  return NoiseFloor{.floor = *floor, .kappa = 0};
}

}  // namespace

AuditValue value_at(const ComparedLine& line, std::size_t i, int sequence, const ValueIndex& at) {
  const double u = line.uncached[i];
  const double c = line.cached[i];
  AuditValue value{.sequence = sequence,
                   .at = at,
                   .uncached = u,
                   .cached = c,
                   .ulps = ulps_between(u, c, line.scalar),
                   .floor = line.floor};
  const RowComparison one = compare_rows({&u, 1}, {&c, 1}, line.scalar);
  value.ratio = judge(NoiseLimit{}, one, noise_floor(line.floor), line.scalar).ratio;
  return value;
}

std::size_t worst_column(const ComparedLine& line) {
  return static_cast<std::size_t>(
      compare_rows(line.uncached, line.cached, line.scalar).token_at_max);
}

std::string text_of(Site site) {
  std::string text(name(site));
  if (text.starts_with("cached_")) text.replace(0, std::string_view("cached_").size(), "stored ");
  for (char& c : text) {
    if (c == '_') c = ' ';
  }
  return text;
}

void Findings::add(Stage stage, int order, AuditFinding finding) {
  if (!finding.wrong.empty()) finding.verdict = Verdict::diverge;
  Kept& kept = kept_[{stage, 0, order}];
  const std::int64_t compared = kept.finding.compared + finding.compared;
  const bool first = kept.finding.point.name.empty();
  if (first || (kept.finding.wrong.empty() && !finding.wrong.empty())) {
    kept.finding = std::move(finding);
  }
  kept.finding.compared = compared;
}

Findings::Kept& Findings::at(const Place& place) {
  const int layer = layer_order(place.site, place.layer);
  Kept& kept = kept_[{place.stage, layer, static_cast<int>(place.site)}];
  if (kept.finding.point.name.empty()) {
    std::string name = text_of(place.site);
    if (place.stage == Stage::answer) name = "answer";
    if (place.stage == Stage::held_row) name.replace(0, std::string_view("stored").size(), "held");
    kept.finding.point = {std::move(name), place.layer};
    kept.site = place.site;
  }
  return kept;
}

void Findings::take(const Place& place, const Policy& policy, const ComparedLine& line,
                    const AuditValue& worst) {
  Kept& kept = at(place);
  const RowComparison row = compare_rows(line.uncached, line.cached, line.scalar);
  const Judgement judgement = judge(policy, row, noise_floor(line.floor), line.scalar);
  AuditFinding& finding = kept.finding;
  finding.compared += static_cast<std::int64_t>(line.uncached.size());
  const bool worse =
      judgement.verdict > finding.verdict ||
      (judgement.verdict == finding.verdict && badness(worst) > badness(finding.worst));
  if (!worse) return;
  finding.verdict = judgement.verdict;
  finding.worst = worst;
  kept.line.assign(line.cached.begin(), line.cached.end());
  kept.row = place.row;
  kept.slot = place.slot;
}

void Findings::add_shape(const Place& place, std::string wrong) {
  AuditFinding& finding = at(place).finding;
  finding.verdict = Verdict::diverge;
  if (finding.wrong.empty()) finding.wrong = std::move(wrong);
}

const Findings::Kept* Findings::first_diverging() const {
  for (const auto& [order, kept] : kept_) {
    if (kept.finding.verdict == Verdict::diverge) return &kept;
  }
  return nullptr;
}

const Findings::Kept* Findings::find(Site site) const {
  const auto found = kept_.find({Stage::site, layer_order(site, -1), static_cast<int>(site)});
  return found == kept_.end() ? nullptr : &found->second;
}

std::vector<AuditFinding> Findings::all() const {
  std::vector<AuditFinding> all;
  for (const auto& [order, kept] : kept_) all.push_back(kept.finding);
  return all;
}

}  // namespace kvcheck
