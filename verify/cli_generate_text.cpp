// SPDX-License-Identifier: MIT
// The words and tables of kvcheck generate.
#include <fmt/format.h>

#include <algorithm>

#include "engine/echo.h"
#include "engine/text_width.h"
#include "reports/number_text.h"
#include "verify/cli_case.h"
#include "verify/cli_generate.h"
#include "verify/generation_invariants.h"

namespace kvcheck {
namespace {

// Words of a token longer than this are cut.
constexpr std::size_t kWordMax = 20;

std::string token_text(const ModelData& model, int token) {
  if (model.words.empty()) return fmt::format("{}", token);
  return fmt::format("{} {}", token,
                     one_line(model.words[static_cast<std::size_t>(token)], kWordMax));
}

std::string logit_text(double value) { return fmt::format("{:.8g}", value); }

const Generation& longer(const GenerationShown& shown) {
  if (!shown.cached) return *shown.uncached;
  if (!shown.uncached) return *shown.cached;
  return shown.uncached->steps.size() > shown.cached->steps.size() ? *shown.uncached
                                                                   : *shown.cached;
}

// Wide enough for every token that was returned, and for the heading.
std::size_t token_width(const GenerationShown& shown, const ModelData& model) {
  std::size_t width = 5;
  for (const auto* run : {&shown.uncached, &shown.cached}) {
    if (!*run) continue;
    for (const int token : (*run)->returned()) {
      width = std::max(width, text_width(token_text(model, token)));
    }
  }
  return width;
}

class StepsTable {
 public:
  StepsTable(const GenerationShown& shown, const ModelData& model)
      : shown_(shown), model_(model), width_(token_width(shown, model)) {}

  [[nodiscard]] std::string text() const {
    std::string text = headings();
    const std::size_t steps = longer(shown_).steps.size();
    for (std::size_t i = 0; i < steps; ++i) text += line(i);
    return text;
  }

 private:
  [[nodiscard]] bool draws() const { return !shown_.request.policy.greedy(); }

  // Of one run: token, logit, probability and, if it was drawn, its share under the policy.
  [[nodiscard]] std::size_t half_width() const {
    return 3 + width_ + 2 + 13 + 2 + 7 + (draws() ? 9U : 0U);
  }

  [[nodiscard]] std::string headings() const {
    std::string over = fmt::format("{:43}", "");
    std::string under = fmt::format("{:>4}  {:>8}  {:>4}  {:>8}  {:>4}  {:>4}", "step", "position",
                                    "fed", "length", "next", "left");
    over = std::string(under.size(), ' ');
    for (const auto& [run, title] : {std::pair(&shown_.uncached, "without a cache"),
                                     std::pair(&shown_.cached, "with a cache")}) {
      if (!*run) continue;
      over += fmt::format("   {:<{}}", title, half_width() - 3);
      under += fmt::format("   {:<{}}  {:>13}  {:>7}", "token", width_, "logit", "softmax");
      if (draws()) under += fmt::format("  {:>7}", "policy");
    }
    if (both()) under += fmt::format("  {:>10}", "difference");
    while (over.ends_with(' ')) over.pop_back();
    return over + "\n" + under + "\n";
  }

  [[nodiscard]] bool both() const { return shown_.uncached && shown_.cached; }

  [[nodiscard]] std::string line(std::size_t i) const {
    const std::string text =
        counts(i) + choice(shown_.uncached, i) + choice(shown_.cached, i) + difference(i);
    return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  }

  // What both runs count alike, and what the cache holds.
  [[nodiscard]] std::string counts(std::size_t i) const {
    const GenerationStep& step = longer(shown_).steps[i];
    const bool held = shown_.cached && i < shown_.cached->steps.size();
    const GenerationStep& fed = held ? shown_.cached->steps[i] : step;
    const auto number = [](const std::optional<int>& n) {
      return n ? fmt::format("{}", *n) : std::string("-");
    };
    return fmt::format("{:>4}  {:>8}  {:>4}  {:>8}  {:>4}  {:>4}", i + 1, step.position, fed.fed,
                       number(fed.cache_length), number(fed.next_position), step.remaining);
  }

  [[nodiscard]] std::string choice(const std::optional<Generation>& run, std::size_t i) const {
    if (!run) return "";
    if (i >= run->steps.size()) return std::string(half_width(), ' ');
    const GenerationStep& step = run->steps[i];
    std::string text =
        fmt::format("   {}  {:>13}  {:>7.4f}", padded_right(token_text(model_, step.token), width_),
                    logit_text(step.logit), step.probability);
    if (draws()) text += fmt::format("  {:>7.4f}", step.drawn_with);
    return text;
  }

  // Of the logits of one token; of two there is none to tell.
  [[nodiscard]] std::string difference(std::size_t i) const {
    if (!both()) return "";
    const bool here = shown_.first && static_cast<std::size_t>(*shown_.first) == i;
    const bool after = shown_.first && static_cast<std::size_t>(*shown_.first) < i;
    const std::vector<GenerationStep>& a = shown_.uncached->steps;
    const std::vector<GenerationStep>& b = shown_.cached->steps;
    const bool same = !after && i < a.size() && i < b.size() && a[i].token == b[i].token;
    return fmt::format("  {:>10}{}", same ? three_digits(std::abs(a[i].logit - b[i].logit)) : "",
                       here ? "  <- first" : "");
  }

  const GenerationShown& shown_;
  const ModelData& model_;
  const std::size_t width_;
};

std::string why_stopped(const Generation& generation, const ModelData& model) {
  switch (generation.stop) {
    case Stop::eos:
      return fmt::format("eos: {} was returned, and is not fed",
                         token_text(model, generation.tokens.back()));
    case Stop::context:
      return "context: no position is left for the last token to be fed at";
    case Stop::steps:
      return fmt::format("steps: {} were allowed", generation.steps.size());
  }
  return "?";
}

std::string tokens_returned(const Generation& generation, const ModelData& model) {
  const std::span<const int> tokens = generation.returned();
  return tokens_text(model, {tokens.begin(), tokens.end()});
}

std::string comparison(const GenerationShown& shown) {
  if (!shown.note.empty()) return fmt::format("different  {}\n", shown.note);
  if (shown.decision) {
    return fmt::format("a tie      at step {}: {} {:.3g}, which differs by {:.3g}\n",
                       *shown.first + 1, shown.decision->by, shown.decision->margin,
                       shown.decision->change);
  }
  if (!shown.uncached || !shown.cached) return "";
  return fmt::format("the same   {} tokens; logits differ by at most {}\n",
                     shown.cached->steps.size(), three_digits(shown.largest_difference));
}

}  // namespace

std::string steps_table(const GenerationShown& shown, const ModelData& model) {
  return StepsTable(shown, model).text();
}

std::string outcome_text(const GenerationShown& shown, const ModelData& model) {
  std::string text = "\n";
  const bool two = shown.uncached && shown.cached && shown.first;
  for (const auto& [run, title] :
       {std::pair(&shown.uncached, "without a cache"), std::pair(&shown.cached, "with a cache")}) {
    if (!*run || (!two && run == &shown.uncached && shown.cached)) continue;
    if (two) text += fmt::format("{}\n", title);
    text += fmt::format("returned   {}\n", tokens_returned(**run, model));
    text += fmt::format("stopped    {}\n", why_stopped(**run, model));
  }
  return text + comparison(shown);
}

std::string batch_table(const std::vector<GenerationShown>& requests, const ModelData& model) {
  std::size_t prompt_width = 6;
  std::size_t returned_width = 8;
  const auto prompt_text = [&](const GenerationShown& shown) {
    return tokens_text(model, shown.request.prompt);
  };
  for (const GenerationShown& shown : requests) {
    prompt_width = std::max(prompt_width, text_width(prompt_text(shown)));
    returned_width = std::max(returned_width, text_width(tokens_returned(longer(shown), model)));
  }
  std::string text = fmt::format("{:>7}  {:<{}}  {:>5}  {:>4}  {:<{}}  {:<7}  {}\n", "request",
                                 "prompt", prompt_width, "first", "last", "returned",
                                 returned_width, "stopped", "without a cache");
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const GenerationShown& shown = requests[i];
    const Generation& run = longer(shown);
    const bool compared = shown.uncached && shown.cached;
    text += fmt::format("{:>7}  {}  {:>5}  {:>4}  {}  {:<7}  {}\n", i + 1,
                        padded_right(prompt_text(shown), prompt_width), run.steps.front().step + 1,
                        run.steps.back().step + 1,
                        padded_right(tokens_returned(run, model), returned_width), name(run.stop),
                        !compared             ? "-"
                        : !shown.note.empty() ? "different"
                        : shown.decision      ? "a tie"
                                              : "the same");
  }
  return text;
}

std::string shapes_table(int step, const StepShapes* uncached, const StepShapes* cached) {
  const StepShapes& order = cached != nullptr ? *cached : *uncached;
  const auto text_of = [](const StepShapes* shapes, const SiteShape& like) {
    if (shapes == nullptr) return std::string();
    const auto found = std::ranges::find_if(*shapes, [&](const SiteShape& shape) {
      return shape.site == like.site && shape.layer == like.layer;
    });
    return found == shapes->end() ? std::string("-") : to_text(*found);
  };
  std::string text =
      fmt::format("\nshapes of step {}\n{:>5}  {:<18}  ", step + 1, "layer", "tensor");
  text += uncached == nullptr ? "with a cache\n"
          : cached == nullptr ? "without a cache\n"
                              : "without a cache       with a cache\n";
  for (const SiteShape& shape : order) {
    std::string line = fmt::format(
        "{:>5}  {:<18}", shape.layer < 0 ? "" : fmt::format("{}", shape.layer), name(shape.site));
    if (uncached != nullptr) line += fmt::format("  {:<20}", text_of(uncached, shape));
    if (cached != nullptr) line += fmt::format("  {}", to_text(shape));
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace kvcheck
