// SPDX-License-Identifier: MIT
// The classes put together, and finding a row by its name.
#include "verify/faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "engine/echo.h"
#include "engine/error.h"

namespace kvcheck {
namespace {

std::vector<Fault> all_faults() {
  std::vector<Fault> all;
  for (const auto& of_class :
       {position_faults, mask_faults, window_faults, storage_faults, lifecycle_faults, state_faults,
        move_faults, batch_faults, format_faults, paging_faults, path_faults}) {
    std::ranges::copy(of_class(), std::back_inserter(all));
  }
  return all;
}

// The number behind `key`, if the part is of that key.
std::optional<int> parameter(std::string_view part, std::string_view key, std::string_view where) {
  if (!part.starts_with(key)) return {};
  const std::string_view digits = part.substr(key.size());
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc() && end == digits.data() + digits.size() && !digits.empty()) return value;
  throw bad_input({where, "fault", fmt::format("{}NUMBER", key), one_line(part)});
}

void take_parameter(std::string_view part, std::string_view where, FaultParameters& at) {
  if (const auto layer = parameter(part, "layer", where)) {
    at.layer = layer;
  } else if (const auto onset = parameter(part, "onset", where)) {
    at.onset = onset;
  } else if (const auto amount = parameter(part, "amount", where)) {
    at.amount = amount;
  } else {
    throw bad_input({where, "fault", "ID[:layerN][:onsetN][:amountN]", one_line(part)});
  }
}

// Whether an axis has the value: just one of its own, or none where it has none.
bool on_axis(const FewNumbers& axis, std::optional<int> value) {
  const std::span<const int> all = axis.all();
  return value ? std::ranges::count(all, *value) > 0 : all.empty();
}

// Of a model with as many layers as the layer needs.
bool has_parameters(const Fault& fault, const FaultParameters& at) {
  const bool layer = !at.layer || (fault.axes.layers && *at.layer >= 0);
  return layer && on_axis(fault.axes.onsets, at.onset) && on_axis(fault.axes.amounts, at.amount);
}

}  // namespace

const std::vector<Fault>& faults() {
  static const std::vector<Fault> kFaults = all_faults();
  return kFaults;
}

const Fault& find_fault(std::string_view id, std::string_view where) {
  const auto found = std::ranges::find(faults(), id, &Fault::id);
  if (found != faults().end()) return *found;
  throw bad_input({where, "unknown fault", "an id that kvcheck faults --list shows", one_line(id)});
}

FaultVariant parse_fault(std::string_view text, std::string_view where) {
  const auto colon = text.find(':');
  FaultVariant variant{&find_fault(text.substr(0, colon), where), {}};
  std::string_view rest = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  while (!rest.empty()) {
    const auto next = rest.find(':');
    take_parameter(rest.substr(0, next), where, variant.at);
    rest = next == std::string_view::npos ? "" : rest.substr(next + 1);
  }
  if (to_text(variant) != text || !has_parameters(*variant.fault, variant.at)) {
    const FaultVariant known = variants(*variant.fault, 1).front();
    throw bad_input({where, "fault", fmt::format("as {}", to_text(known)), one_line(text)});
  }
  return variant;
}

}  // namespace kvcheck
