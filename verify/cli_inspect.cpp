// SPDX-License-Identifier: MIT
// kvcheck inspect: what a model is, and what its cache takes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <utility>

#include "engine/echo.h"
#include "engine/error.h"
#include "reports/cache_rows_text.h"
#include "reports/names.h"
#include "verify/cache_rows.h"
#include "verify/cli.h"
#include "verify/cli_case.h"
#include "verify/models.h"

namespace kvcheck {
namespace {

std::string line(std::string_view what, std::string_view value) {
  return fmt::format("  {:<30}{}\n", what, value);
}

std::string line(std::string_view what, std::int64_t value) {
  return line(what, std::string_view(fmt::format("{}", value)));
}

std::string yes_no(bool value) { return value ? "yes" : "no"; }

std::string windows_text(const Config& config) {
  std::vector<std::string> parts;
  for (const int window : config.windows) {
    parts.push_back(window == 0 ? "all" : fmt::format("{}", window));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string positions_text(const Config& config) {
  if (config.positions != Positions::rotary) return std::string(name(config.positions));
  std::string text =
      fmt::format("rotary, {}, base {}", name(config.rotary_pairs), config.rotary_base);
  if (config.rotary_base_windowed > 0) {
    text += fmt::format(" ({} in layers with a window)", config.rotary_base_windowed);
  }
  if (config.rotated() < config.head_size) {
    text += fmt::format(", {} dimensions of each head", config.rotated());
  }
  if (!config.rotary_divisors.empty()) text += ", frequencies scaled";
  return text;
}

std::string cap_text(double cap) { return cap == 0 ? "none" : fmt::format("{}", cap); }

std::string configuration(const Config& c) {
  std::string text = "configuration\n";
  text += line("vocabulary", c.vocabulary);
  text += line("context", c.context);
  text += line("layers", c.layers);
  text += line("width", c.width);
  text += line("query heads", c.query_heads);
  text += line("K/V heads", c.kv_heads);
  text += line("head size", c.head_size);
  if (c.score_size > 0) text += line("scores over the root of", fmt::format("{}", c.score_size));
  text += line("MLP", fmt::format("{}, width {}", name(c.mlp), c.mlp_width));
  text += line("norm", fmt::format("{}, epsilon {}", name(c.norm), c.norm_epsilon));
  text += line("positions", positions_text(c));
  text += line("windows by layer", windows_text(c));
  text += line("q/k/v bias", yes_no(c.qkv_bias));
  text += line("attention output bias", yes_no(c.attention_output_bias));
  text += line("MLP bias", yes_no(c.mlp_bias));
  text += line("output", name(c.output));
  text += line("norm of each head", yes_no(c.head_norm));
  text += line("norms after attention and MLP", yes_no(c.post_norms));
  text += line("attention cap", cap_text(c.attention_cap));
  text += line("logit cap", cap_text(c.logit_cap));
  text += line("embedding scale", fmt::format("{}", c.embedding_scale));
  return text;
}

std::string parameters(const Config& config) {
  std::string text = fmt::format("parameters                      {}\n", parameter_count(config));
  for (const Part part :
       {Part::embedding, Part::positions, Part::attention, Part::mlp, Part::norms, Part::output}) {
    const std::int64_t count = parameter_count(config, part);
    if (count > 0) text += line(name(part), count);
  }
  return text;
}

std::string cache(const Config& c) {
  std::string text = "cache (flat, keys and values)\n";
  text += line("rows per token", fmt::format("{} ({} layers x 2)", 2 * c.layers, c.layers));
  text +=
      line("scalars per token", fmt::format("{} (rows x {} K/V heads x head size {})",
                                            2 * c.layers * c.kv_width(), c.kv_heads, c.head_size));
  for (const auto& [scalar, size] : {std::pair{"f32", 4}, std::pair{"f64", 8}}) {
    text += line(fmt::format("bytes per token, {}", scalar), cache_bytes(c, 1, size));
    text += line(fmt::format("bytes at {} positions, {}", c.context, scalar),
                 cache_bytes(c, c.context, size));
  }
  return text;
}

std::string words_text(const std::vector<std::string>& words) {
  std::string text = "words\n ";
  for (const std::string& word : words) text += " " + one_line(word);
  return text + "\n";
}

CacheRowsQuestion rows_question(const InspectArguments& arguments, const ModelData& model) {
  const auto layers = static_cast<std::size_t>(model.weights.config.layers);
  CacheRowsQuestion question{.tokens = one_sequence(arguments.rows, "--rows", model),
                             .layers = [layers](int layer) {
                               return kShownLayers.shows(static_cast<std::size_t>(layer), layers);
                             }};
  question.schedule = schedule_of(static_cast<int>(question.tokens.size()), arguments.schedule);
  if (!arguments.cache_kind.empty()) {
    question.kind = cache_kind(arguments.cache_kind, "--cache-kind");
  }
  if (!arguments.scalar.empty()) {
    const std::optional<ScalarKind> scalar = from_name<ScalarKind>(arguments.scalar);
    if (!scalar) {
      throw bad_input(
          {"--scalar", "bad value", expected_names<ScalarKind>(), one_line(arguments.scalar)});
    }
    question.scalar = *scalar;
  }
  return question;
}

// Every row of the cache after each step.
std::string rows_text(const InspectArguments& arguments, const ModelData& model) {
  const CacheRowsQuestion question = rows_question(arguments, model);
  std::string text = fmt::format("model {} ({}, {} cache)\n", path_text(model.name),
                                 name(question.scalar), name(question.kind));
  const std::size_t steps = question.schedule.size();
  show_cache_rows(model.weights, question, [&](const CacheStep& step) {
    const auto at = static_cast<std::size_t>(step.step);
    if (kShownSteps.shows(at, steps)) {
      text += cache_step_text(model.weights.config, step, tokens_text(model, step.tokens));
    } else if (at == kShownSteps.first) {
      text += "\n" + left_out_text(kShownSteps.left_out(steps), "step") + "\n";
    }
  });
  return text;
}

// Options that say how tokens are fed mean nothing without them.
void require_rows(const InspectArguments& arguments) {
  if (!arguments.rows.empty()) return;
  for (const auto& [option, value] :
       {std::pair{"--schedule", arguments.schedule},
        std::pair{"--cache-kind", arguments.cache_kind}, std::pair{"--scalar", arguments.scalar}}) {
    if (!value.empty()) throw bad_input({option, "without tokens", "--rows", one_line(value)});
  }
}

}  // namespace

int run_inspect(const InspectArguments& arguments) {
  require_rows(arguments);
  const ModelData model = load_model(arguments.model);
  const Config& config = model.weights.config;
  if (!arguments.rows.empty()) {
    print(rows_text(arguments, model));
    return kExitAgree;
  }
  std::string text = fmt::format("model {}\nSHA-256 {}\n", path_text(model.name), model.sha256);
  text += configuration(config) + parameters(config) + cache(config);
  if (!model.words.empty()) text += words_text(model.words);
  if (!model.corpus.empty()) text += fmt::format("corpus\n  {} sequences\n", model.corpus.size());
  if (model.contract_abs) text += fmt::format("contract\n  abs:{}\n", *model.contract_abs);
  print(text);
  return kExitAgree;
}

}  // namespace kvcheck
