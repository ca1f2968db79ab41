// SPDX-License-Identifier: MIT
// Adds up over models and kinds of cache.
#include "reports/operations_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <vector>

#include "reports/number_text.h"

namespace kvcheck {
namespace {

constexpr std::size_t kNamed = 4;  // of what was not reached

struct Reached {
  std::size_t reached = 0;
  std::size_t possible = 0;
};

// Of some counts, those above 0; possible are these and those that are named as missing.
template <typename Counts>
Reached reached(const Counts& counts, std::size_t missing) {
  const auto met = static_cast<std::size_t>(
      std::ranges::count_if(counts, [](std::uint64_t count) { return count > 0; }));
  return {met, met + missing};
}

std::string text(std::string_view what, const Reached& of) {
  return fmt::format("{} of {} {}", of.reached, of.possible, what);
}

// Names that some check could have reached, and none did.
std::vector<std::string> nowhere(std::span<const CheckSummary> summaries,
                                 const OperationCoverage& all) {
  OperationSpace everything;
  everything.limits = {.vocabulary = 8, .context = 64};
  everything.window = 4;
  everything.block = 4;
  std::set<std::string> possible;
  for (const CheckSummary& summary : summaries) {
    possible.insert(summary.not_covered.begin(), summary.not_covered.end());
  }
  std::vector<std::string> names = missing(all, everything);
  std::erase_if(names, [&](const std::string& name) { return !possible.contains(name); });
  return names;
}

bool names_pair(const std::string& name) { return name.find('.') != std::string::npos; }

bool names_verb(const std::string& named) {
  for (int v = 0; v < kVerbs; ++v) {
    if (name(static_cast<Verb>(v)) == named) return true;
  }
  return false;
}

// One kind of cache, over all models.
std::string coverage_of_kind(const std::string& kind, std::span<const CheckSummary> summaries) {
  OperationCoverage all;
  std::int64_t reused = 0;
  std::int64_t refused = 0;
  for (const CheckSummary& summary : summaries) {
    all += *summary.coverage;
    reused += summary.counts.reused;
    refused += summary.counts.refused;
  }
  const std::vector<std::string> not_reached = nowhere(summaries, all);
  const auto pairs_missing =
      static_cast<std::size_t>(std::ranges::count_if(not_reached, names_pair));
  const auto verbs_missing =
      static_cast<std::size_t>(std::ranges::count_if(not_reached, names_verb));
  std::vector<std::uint64_t> pairs;
  for (const auto& row : all.pairs) pairs.insert(pairs.end(), row.begin(), row.end());
  std::string line = fmt::format(
      "operations {}: {} of them in {} sequences; {}, {}, {}", kind,
      grouped(static_cast<std::int64_t>(all.operations)),
      grouped(static_cast<std::int64_t>(all.sequences)),
      text("verbs", reached(all.verbs, verbs_missing)),
      text("pairs", reached(pairs, pairs_missing)),
      text("edges", reached(all.edges, not_reached.size() - pairs_missing - verbs_missing)));
  if (!not_reached.empty()) {
    const std::span shown = std::span(not_reached).first(std::min(kNamed, not_reached.size()));
    line += fmt::format(", not {}{}", fmt::join(shown, ", "),
                        not_reached.size() > kNamed ? " ..." : "");
  }
  if (refused > 0) line += fmt::format("; {} roll backs refused", grouped(refused));
  if (reused > 0) line += fmt::format("; {} rows reused by prompts", grouped(reused));
  const bool paged = summaries.front().cache_kind.layout == CacheLayout::paged;
  if (paged && reused == 0) line += "; no prompt reused a row, so reuse was not put to the test";
  return line + "\n";
}

}  // namespace

std::string coverage_text(std::span<const CheckSummary> summaries) {
  std::vector<std::string> kinds;  // in the order in which they come
  std::map<std::string, std::vector<CheckSummary>> by_kind;
  for (const CheckSummary& summary : summaries) {
    if (!summary.coverage || summary.coverage->sequences == 0) continue;
    const std::string kind = name(summary.cache_kind);
    if (!by_kind.contains(kind)) kinds.push_back(kind);
    by_kind[kind].push_back(summary);
  }
  std::string text;
  for (const std::string& kind : kinds) text += coverage_of_kind(kind, by_kind[kind]);
  return text;
}

std::string loss_text(std::span<const CheckSummary> summaries) {
  std::map<std::string, Loss> by_kind;
  for (const CheckSummary& summary : summaries) {
    if (summary.loss) by_kind[name(summary.cache_kind)] += *summary.loss;
  }
  std::string text;
  for (const auto& [kind, loss] : by_kind) {
    if (loss.rows == 0) continue;
    text += fmt::format(
        "{} rows: logits differ from unrounded ones by at most {}, divergence at most {} nats, the "
        "same token is largest in {:.2f} % of {} rows\n",
        kind, three_digits(loss.max_abs_difference), three_digits(loss.max_divergence),
        100.0 * static_cast<double>(loss.same_choice) / static_cast<double>(loss.rows),
        grouped(loss.rows));
  }
  return text;
}

}  // namespace kvcheck
