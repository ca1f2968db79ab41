// SPDX-License-Identifier: MIT
// The names of single values.
#include "verify/set_value.h"

#include <fmt/format.h>

#include <charconv>
#include <string>

#include "engine/echo.h"
#include "engine/error.h"

namespace kvcheck {
namespace {

bool of_layer(Site site) {
  return site != Site::embedding && site != Site::input && site != Site::final_norm &&
         site != Site::logits;
}

bool of_scores(Site site) { return site == Site::scores || site == Site::probabilities; }

bool of_kv_heads(Site site) {
  return site == Site::key || site == Site::value || site == Site::cached_key ||
         site == Site::cached_value;
}

// Columns of a row of a site without heads.
int columns_of(Site site, const Config& config) {
  if (site == Site::logits) return config.vocabulary;
  return site == Site::mlp_hidden ? config.mlp_width : config.width;
}

// "layer1.key[row R][head H][C]"
std::string pattern(Site site) {
  const IndexParts parts = parts_of(site);
  return fmt::format("{}{}[row R]{}{}{}=VALUE", of_layer(site) ? "layerL." : "", name(site),
                     parts.key ? "[key K]" : "", parts.head ? "[head H]" : "",
                     parts.column ? "[C]" : "");
}

class Parser {
 public:
  Parser(std::string_view text, std::string_view where) : rest_(text), text_(text), where_(where) {}

  SetValue parse() {
    SetValue set{};
    if (take("layer")) {
      set.layer = number("layerL.SITE");
      if (!take(".")) fail("layerL.SITE");
    }
    set.site = site();
    while (take("[")) index(set);
    if (!take("=")) fail(pattern(set.site));
    set.value = value();
    require_just_these(set);
    return set;
  }

 private:
  [[noreturn]] void fail(const std::string& expected) const {
    throw bad_input({where_, "value to set", expected, one_line(text_)});
  }

  bool take(std::string_view what) {
    if (!rest_.starts_with(what)) return false;
    rest_.remove_prefix(what.size());
    return true;
  }

  int number(const std::string& expected) {
    int value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc() || value < 0) fail(expected);
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }

  Site site() {
    const std::string_view word = rest_.substr(0, rest_.find_first_of("[="));
    for (int s = 0; s <= static_cast<int>(Site::logits); ++s) {
      const Site site = static_cast<Site>(s);
      if (name(site) != word) continue;
      rest_.remove_prefix(word.size());
      return site;
    }
    fail("a site: embedding, input, layerL.attention_norm, layerL.key, ... logits");
  }

  // What stands between brackets, the first of which was taken.
  void index(SetValue& set) {
    struct Index {
      std::string_view word;
      int* into;
    };
    int sequence = -1;
    for (const Index& index :
         {Index{"sequence ", &sequence}, Index{"row ", &set.at.row}, Index{"key ", &set.at.key},
          Index{"head ", &set.at.head}, Index{"", &set.at.column}}) {
      if (!take(index.word)) continue;
      if (*index.into >= 0) fail("each index once");
      *index.into = number("a whole number");
      break;
    }
    if (sequence >= 0) set.sequence = sequence;
    if (!take("]")) fail("]");
  }

  double value() {
    double value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc() || end != rest_.data() + rest_.size()) fail("a number behind =");
    return value;
  }

  void require_just_these(const SetValue& set) const {
    const IndexParts parts = parts_of(set.site);
    const bool right = of_layer(set.site) == (set.layer >= 0) && set.at.row >= 0 &&
                       parts.key == (set.at.key >= 0) && parts.head == (set.at.head >= 0) &&
                       parts.column == (set.at.column >= 0);
    if (!right) fail(pattern(set.site));
  }

  std::string_view rest_;
  std::string_view text_;
  std::string_view where_;
};

void require_below(int value, int end, std::string_view what, std::string_view where) {
  if (value < end) return;
  throw bad_input({where, what, fmt::format("from 0 to {}", end - 1), fmt::format("{}", value)});
}

}  // namespace

IndexParts parts_of(Site site) {
  const bool read = site == Site::cached_key || site == Site::cached_value;
  return {.key = read || of_scores(site),
          .head = of_scores(site) || of_kv_heads(site) || site == Site::query ||
                  site == Site::attention,
          .column = !of_scores(site)};
}

int head_columns(Site site, const Config& config) {
  return parts_of(site).head && parts_of(site).column ? config.head_size : 0;
}

SetValue parse_set_value(std::string_view text, const Config& config, std::string_view where) {
  const SetValue set = Parser(text, where).parse();
  require_below(set.layer, config.layers, "layer", where);
  require_below(set.at.row, config.context, "row", where);
  require_below(set.at.key, config.context, "key", where);
  if (set.at.head >= 0) {
    const int heads = of_kv_heads(set.site) ? config.kv_heads : config.query_heads;
    require_below(set.at.head, heads, "head", where);
    require_below(set.at.column, config.head_size, "column", where);
  } else {
    require_below(set.at.column, columns_of(set.site, config), "column", where);
  }
  return set;
}

}  // namespace kvcheck
