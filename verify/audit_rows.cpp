// SPDX-License-Identifier: MIT
// Trying whose numbers a strange row may be.
#include "verify/audit_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kvcheck {
namespace {

class Search {
 public:
  Search(SiteMeter& meter, const Config& config, const FollowedSequences& sequences,
         const StrangeRow& strange)
      : meter_(meter),
        config_(config),
        sequences_(sequences),
        strange_(strange),
        own_(sequences.at(strange.sequence)) {}

  // From what is likely to what is far-fetched.
  std::optional<std::string> run() const {
    for (const auto attempt :
         {&Search::empty, &Search::other_position, &Search::other_row, &Search::other_head,
          &Search::other_layer, &Search::other_kind, &Search::other_sequence}) {
      if (auto text = (this->*attempt)()) return text;
    }
    return std::nullopt;
  }

 private:
  using Answer = std::optional<std::string>;

  [[nodiscard]] bool matches(std::span<const double> row, int head) const {
    const std::size_t size = strange_.found.size();
    const auto candidate = row.subspan(static_cast<std::size_t>(head) * size, size);
    for (std::size_t i = 0; i < size; ++i) {
      // Written so that a NaN matches nothing.
      if (!(std::abs(candidate[i] - strange_.found[i]) <= strange_.tolerance)) return false;
    }
    return true;
  }

  [[nodiscard]] bool is(const FollowedSequence& sequence, Site site, int layer, int row,
                        int head) const {
    const SiteLines* const lines = sequence.reference.find(site, layer, row);
    return lines != nullptr && matches(lines->line(0), head);
  }

  [[nodiscard]] std::string_view kind(Site site) const {
    return site == Site::cached_key ? "key" : "value";
  }

  [[nodiscard]] Answer empty() const {
    const auto all = [&](auto is_so) { return std::ranges::all_of(strange_.found, is_so); };
    if (all([](double value) { return std::isnan(value); })) {
      return fmt::format("nothing, not even numbers, where row {} was expected", strange_.row.row);
    }
    if (all([](double value) { return value == 0; })) {
      return fmt::format("zeros where row {} was expected", strange_.row.row);
    }
    return std::nullopt;
  }

  [[nodiscard]] Answer other_position() const {
    if (strange_.site != Site::cached_key) return std::nullopt;
    const auto raw = meter_.raw_keys(own_.log, strange_.layer);
    const std::vector<double>& key = raw[static_cast<std::size_t>(strange_.row.row)];
    for (int position = 0; position < std::min(config_.context, kPositionsTried); ++position) {
      if (position == strange_.row.position) continue;
      if (!matches(meter_.placed(key, strange_.layer, position), strange_.head)) continue;
      return fmt::format("position {} where {} was expected", position, strange_.row.position);
    }
    return std::nullopt;
  }

  [[nodiscard]] Answer other_row() const {
    for (int row = 0; row < static_cast<int>(own_.log.size()); ++row) {
      if (row == strange_.row.row || !is(own_, strange_.site, strange_.layer, row, strange_.head)) {
        continue;
      }
      return fmt::format("row {} where row {} was expected", row, strange_.row.row);
    }
    return std::nullopt;
  }

  [[nodiscard]] Answer other_head() const {
    for (int head = 0; head < config_.kv_heads; ++head) {
      if (head == strange_.head ||
          !is(own_, strange_.site, strange_.layer, strange_.row.row, head)) {
        continue;
      }
      return fmt::format("K/V head {} where {} was expected", head, strange_.head);
    }
    return std::nullopt;
  }

  // Of the same row first.
  [[nodiscard]] Answer other_layer() const {
    for (int layer = 0; layer < config_.layers; ++layer) {
      if (layer == strange_.layer) continue;
      if (!is(own_, strange_.site, layer, strange_.row.row, strange_.head)) continue;
      return fmt::format("the {} of layer {} where layer {}'s was expected", kind(strange_.site),
                         layer, strange_.layer);
    }
    for (int layer = 0; layer < config_.layers; ++layer) {
      for (int row = 0; layer != strange_.layer && row < static_cast<int>(own_.log.size()); ++row) {
        if (!is(own_, strange_.site, layer, row, strange_.head)) continue;
        return fmt::format("row {} of layer {} where row {} of layer {} was expected", row, layer,
                           strange_.row.row, strange_.layer);
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] Answer other_kind() const {
    const Site other = strange_.site == Site::cached_key ? Site::cached_value : Site::cached_key;
    if (!is(own_, other, strange_.layer, strange_.row.row, strange_.head)) return std::nullopt;
    return fmt::format("the {} where the {} was expected", kind(other), kind(strange_.site));
  }

  [[nodiscard]] Answer other_sequence() const {
    for (const auto& [handle, sequence] : sequences_) {
      if (handle == strange_.sequence) continue;
      for (int row = 0; row < static_cast<int>(sequence.log.size()); ++row) {
        if (!is(sequence, strange_.site, strange_.layer, row, strange_.head)) continue;
        return fmt::format("row {} of sequence {} where row {} of sequence {} was expected", row,
                           handle, strange_.row.row, strange_.sequence);
      }
    }
    return std::nullopt;
  }

  SiteMeter& meter_;
  const Config& config_;
  const FollowedSequences& sequences_;
  const StrangeRow& strange_;
  const FollowedSequence& own_;
};

}  // namespace

SiteLines expected_row(SiteMeter& meter, const FollowedSequence& sequence, Site site, int layer,
                       SeenRow row) {
  const SiteLines* const lines = sequence.reference.find(site, layer, row.row);
  require(lines != nullptr, "the oracle computes every row of a log");
  const bool fed_there = sequence.log[static_cast<std::size_t>(row.row)].position == row.position;
  if (fed_there || site == Site::cached_value) return *lines;
  SiteLines moved = *lines;
  moved.values = meter.placed(
      meter.raw_keys(sequence.log, layer)[static_cast<std::size_t>(row.row)], layer, row.position);
  return moved;
}

std::optional<std::string> explain(SiteMeter& meter, const Config& config,
                                   const FollowedSequences& sequences, const StrangeRow& strange) {
  return Search(meter, config, sequences, strange).run();
}

}  // namespace kvcheck
