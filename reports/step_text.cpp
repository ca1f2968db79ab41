// SPDX-License-Identifier: MIT
// Lays out the numbers of a step.
#include "reports/step_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "reports/number_text.h"
#include "reports/shown_part.h"

namespace kvcheck {
namespace {

constexpr ShownPart kLayers{3, 1};
constexpr ShownPart kReadRows{2, 6};  // stored rows that a query reads
constexpr ShownPart kNumbers{12, 4};  // of a line
constexpr std::size_t kTogether = 4;  // numbers side by side
constexpr std::size_t kNumberWidth = 11;

// What a reader of a decode step looks for, in its order, and the tensors that belong to it.
struct Section {
  std::string_view title;
  Site first;  // up to the site of the next section
};
constexpr std::array kSections{
    Section{"embedding", Site::embedding},
    Section{"projection of query, key and value", Site::attention_norm},
    Section{"append: the rows of the cache, as they are read", Site::cached_key},
    Section{"scores: query x key, scaled", Site::scores},
    Section{"softmax: how much of each row", Site::probabilities},
    Section{"context: the sum of values", Site::attention},
    Section{"residual: what attention adds", Site::attention_output},
    Section{"MLP, and the residual it adds to", Site::mlp_norm},
    Section{"logits", Site::final_norm},
};

std::string_view title_of(Site site) {
  const auto after =
      std::ranges::find_if(kSections, [&](const Section& section) { return section.first > site; });
  return std::prev(after)->title;
}

std::string_view what(Site site) {
  switch (site) {
    case Site::attention_norm:
    case Site::mlp_norm:
    case Site::final_norm:
      return "normed";
    case Site::attention:
      return "context";
    case Site::attention_output:
      return "attention output";
    case Site::attention_residual:
    case Site::residual:
      return "residual";
    case Site::mlp_hidden:
      return "MLP hidden";
    case Site::mlp_output:
      return "MLP output";
    case Site::cached_key:
      return "stored key";
    case Site::cached_value:
      return "stored value";
    default:
      return name(site);
  }
}

bool is_read(Site site) { return site == Site::cached_key || site == Site::cached_value; }
bool over_keys(Site site) { return site == Site::scores || site == Site::probabilities; }

// Values that stand on a line: of one row, head (of all, where those are small) and, where rows are
// read, key.
bool same_line(const StepValue& a, const StepValue& b, bool heads_together) {
  const ValueIndex& x = a.value.at;
  const ValueIndex& y = b.value.at;
  return a.site == b.site && a.layer == b.layer && a.value.sequence == b.value.sequence &&
         x.row == y.row &&
         (over_keys(a.site) ? x.head == y.head
                            : x.key == y.key && (heads_together || x.head == y.head));
}

using Values = std::vector<StepValue>;
using Line = std::pair<Values::const_iterator, Values::const_iterator>;

std::vector<Line> lines_of(const Values& values, bool heads_together) {
  std::vector<Line> lines;
  for (auto at = values.begin(); at != values.end();) {
    const auto end = std::find_if(at, values.end(), [&](const StepValue& value) {
      return !same_line(*at, value, heads_together);
    });
    lines.emplace_back(at, end);
    at = end;
  }
  return lines;
}

// `rows`: of the step, which name their lines if there are several.
std::string label_of(const Line& line, bool rows) {
  const StepValue& value = *line.first;
  const ValueIndex& at = value.value.at;
  const int last_head = std::prev(line.second)->value.at.head;
  std::string text = "    ";
  if (value.value.sequence > 0) text += fmt::format("sequence {} ", value.value.sequence);
  if (rows) text += fmt::format("row {}: ", at.row);
  text += what(value.site);
  if (is_read(value.site)) text += at.key == at.row ? ", new row" : fmt::format(", row {}", at.key);
  if (at.head < 0) return text;
  return text + (last_head == at.head ? fmt::format(", head {}", at.head)
                                      : fmt::format(", heads {} to {}", at.head, last_head));
}

// How far the two are apart, over the whole line.
std::string remark(const Line& line) {
  double largest = 0;
  std::uint64_t ulps = 0;
  for (auto at = line.first; at != line.second; ++at) {
    const bool same = at->value.cached == at->value.uncached;  // also where both are infinite
    const double difference = same ? 0 : std::abs(at->value.cached - at->value.uncached);
    // Written so that a NaN is larger than everything, and stays.
    if (!(difference <= largest) && !std::isnan(largest)) largest = difference;
    ulps = std::max(ulps, at->value.ulps);
  }
  if (ulps == 0 && largest == 0) return "same bits";
  if (std::isnan(largest)) return "<- not a number";
  return fmt::format("<- {} apart, {} ULPs", three_digits(largest), ulps);
}

std::string numbers(Line line, double AuditValue::*of) {
  std::string text;
  for (auto at = line.first; at != line.second; ++at) {
    text += fmt::format("{:>{}.4g}", at->value.*of, kNumberWidth);
  }
  return text;
}

std::string line_text(const Line& line, const std::string& label, std::size_t label_width) {
  const auto count = static_cast<std::size_t>(line.second - line.first);
  std::string text;
  for (std::size_t i = 0; i < count;) {
    if (!kNumbers.shows(i, count)) {
      text += fmt::format("{:{}}{}\n", "", label_width,
                          left_out_text(kNumbers.left_out(count), "number"));
      i = count - kNumbers.last;
      continue;
    }
    const std::size_t end = std::min(i + kTogether, count);
    const Line part{line.first + static_cast<std::ptrdiff_t>(i),
                    line.first + static_cast<std::ptrdiff_t>(end)};
    const std::size_t width = kTogether * kNumberWidth;
    text += fmt::format("{:<{}}{:<{}} |{:<{}}  {}", i == 0 ? label : "", label_width,
                        numbers(part, &AuditValue::uncached), width,
                        numbers(part, &AuditValue::cached), width, i == 0 ? remark(line) : "");
    text.erase(text.find_last_not_of(' ') + 1);
    text += "\n";
    i = end;
  }
  return text;
}

// Of the rows that a query reads, only the first and the last ones.
bool shown_row(const StepValue& value) {
  if (!is_read(value.site)) return true;
  return kReadRows.shows(static_cast<std::size_t>(value.value.at.key),
                         static_cast<std::size_t>(value.value.at.row) + 1);
}

class StepText {
 public:
  StepText(const Config& config, const std::vector<Line>& lines)
      : layers_(static_cast<std::size_t>(config.layers)) {
    const int row = lines.empty() ? 0 : lines.front().first->value.at.row;
    for (const Line& line : lines) rows_ = rows_ || line.first->value.at.row != row;
    for (const Line& line : lines) {
      label_width_ = std::max(label_width_, label_of(line, rows_).size() + 1);
    }
    text_ = fmt::format("{:{}}{:<{}} |  {}\n", "", label_width_ + 2, "uncached",
                        kTogether * kNumberWidth - 2, "cached");
  }

  void add(const Line& line) {
    const StepValue& value = *line.first;
    if (value.layer >= 0 && !kLayers.shows(static_cast<std::size_t>(value.layer), layers_)) {
      if (!cut_) text_ += left_out_text(kLayers.left_out(layers_), "layer") + "\n";
      cut_ = true;
      return;
    }
    if (!shown_row(value)) {
      hidden_ += hidden_ == 0 || value.value.at.key != hidden_key_ ? 1 : 0;
      hidden_key_ = value.value.at.key;
      return;
    }
    if (hidden_ > 0) text_ += "    " + left_out_text(hidden_, "row") + "\n";
    hidden_ = 0;
    add_titles(value);
    text_ += line_text(line, label_of(line, rows_), label_width_);
  }

  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  void add_titles(const StepValue& value) {
    if (value.layer != layer_ && value.layer >= 0) text_ += fmt::format("layer {}\n", value.layer);
    const std::string_view title = title_of(value.site);
    if (title != title_ || value.layer != layer_) text_ += fmt::format("  {}\n", title);
    title_ = title;
    layer_ = value.layer;
  }

  const std::size_t layers_;
  bool rows_ = false;  // several in this step
  std::size_t label_width_ = 0;
  std::string text_;
  int layer_ = -1;
  std::string_view title_;
  bool cut_ = false;        // layers are left out
  std::size_t hidden_ = 0;  // stored rows left out since the last line
  int hidden_key_ = -1;
};

}  // namespace

std::string step_text(const Config& config, const std::vector<StepValue>& values) {
  const auto together = static_cast<int>(kTogether);
  const bool small = std::max(config.query_width(), config.kv_width()) <= together;
  const std::vector<Line> lines = lines_of(values, small);
  StepText text(config, lines);
  for (const Line& line : lines) text.add(line);
  return text.text();
}

}  // namespace kvcheck
