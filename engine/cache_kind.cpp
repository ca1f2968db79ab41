// SPDX-License-Identifier: MIT
// Names of cache kinds.
#include "engine/cache_kind.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "engine/error.h"

namespace kvcheck {
namespace {

constexpr std::string_view kPaged = "paged";
constexpr std::pair<std::string_view, CacheKind> kNamed[] = {
    {"flat", {}},
    {"growing", {.layout = CacheLayout::growing}},
    {"ring", {.layout = CacheLayout::ring}},
    {kPaged, {.layout = CacheLayout::paged, .block = kBlockRows}},
    {"padded-left", {.layout = CacheLayout::padded_left}},
    {"padded-right", {.layout = CacheLayout::padded_right}},
    {"bf16", {.format = RowFormat::bf16}},
    {"f16", {.format = RowFormat::f16}},
    {"int8", {.format = RowFormat::int8}},
};

}  // namespace

std::string name(const CacheKind& kind) {
  for (const auto& [text, named] : kNamed) {
    if (named.layout != kind.layout || named.format != kind.format) continue;
    return kind.block > 0 ? fmt::format("{}:{}", text, kind.block) : std::string(text);
  }
  throw InternalError("a cache kind without a name");
}

CacheKind cache_kind(std::string_view text, std::string_view where) {
  for (const auto& [name, kind] : kNamed) {
    if (text == name) return kind;
  }
  if (text.starts_with(kPaged) && text.substr(kPaged.size()).starts_with(':')) {
    const std::string_view number = text.substr(kPaged.size() + 1);
    CacheKind kind{.layout = CacheLayout::paged};
    const auto [end, error] =
        std::from_chars(number.data(), number.data() + number.size(), kind.block);
    const bool whole =
        !number.starts_with('0') && error == std::errc{} && end == number.data() + number.size();
    if (whole && kind.block >= 1 && kind.block <= kBlockRowsMax) return kind;
    throw bad_input({where, "rows of a block", fmt::format("a number from 1 to {}", kBlockRowsMax),
                     fmt::format("\"{}\"", number)});
  }
  throw bad_input({where, "unknown cache kind",
                   "flat, growing, ring, paged[:B], padded-left, padded-right, bf16, f16 or int8",
                   fmt::format("\"{}\"", text)});
}

std::vector<CacheKind> cache_kinds() {
  std::vector<CacheKind> kinds;
  for (const auto& [text, kind] : kNamed) kinds.push_back(kind);
  return kinds;
}

}  // namespace kvcheck
