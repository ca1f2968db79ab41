// SPDX-License-Identifier: MIT
// From arguments to loaded models and their prefixes.
#include "verify/cli_runs.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "engine/echo.h"
#include "engine/error.h"
#include "verify/stored.h"

namespace kvcheck {
namespace {

struct NumberedModel {
  std::string name;
  RandomRange range;
};

// With an index only the random sequence of that number is run: on the model given, or on the one
// of the default set that it belongs to.
std::vector<NumberedModel> numbered_models(const VerifyArguments& arguments, int per_model) {
  constexpr std::uint64_t kStride = kRandomSequencesMax;
  const std::uint64_t seed = arguments.seed;
  const std::optional<std::uint64_t> index = arguments.index;
  const int count = index ? 1 : per_model;
  if (!arguments.model.empty()) return {{arguments.model, {seed, index.value_or(0), count}}};
  const std::vector<std::string> names = default_models(seed);
  if (index) {
    if (*index / kStride >= names.size()) {
      throw bad_input({"--index", "number of a random sequence",
                       fmt::format("0 to {}", names.size() * kStride - 1),
                       fmt::format("{}", *index)});
    }
    return {{names[*index / kStride], {seed, *index, count}}};
  }
  std::vector<NumberedModel> models;
  for (std::size_t m = 0; m < names.size(); ++m) {
    models.push_back({names[m], {seed, m * kStride, count}});
  }
  return models;
}

PrefixChoice prefix_choice(const VerifyArguments& arguments) {
  PrefixChoice choice;
  if (!arguments.prefixes.empty()) choice = parse_prefix_choice(arguments.prefixes);
  if (!arguments.index) return choice;
  if (choice.kind != PrefixChoice::Kind::standard && choice.kind != PrefixChoice::Kind::random) {
    throw bad_input(
        {"--index", "prefixes that are not random", "--prefixes random:N", arguments.prefixes});
  }
  choice.kind = PrefixChoice::Kind::random;
  return choice;
}

}  // namespace

Runs load_runs(const VerifyArguments& arguments, const SuiteOptions& options,
               const std::atomic<bool>& stop) {
  Runs to;
  const PrefixChoice choice = prefix_choice(arguments);
  const bool stored = !arguments.no_stored && !arguments.index;
  for (const auto& [name, range] : numbered_models(arguments, choice.random)) {
    const ModelData& model = to.models.emplace_back(load_model(name));
    std::vector<SourceOfPrefixes> sources = sources_of(model, choice, range);
    if (options.schedules) {
      require_schedulable(options.schedule_choice, sources.back().tree.depth_max());
    }
    to.ranges.push_back(range);
    to.runs.push_back(
        {model, std::move(sources),
         stored ? load_stored(stored_failures_folder(), model, "builtin") : std::vector<Case>{}});
    if (stop.load()) break;
  }
  return to;
}

std::string rerun_line(const VerifyArguments& arguments, const std::string& model,
                       std::uint64_t number) {
  const VerifyArguments defaults;
  struct Option {
    std::string_view name;
    std::string VerifyArguments::*value;
  };
  constexpr std::array kOptions{Option{"--prefixes", &VerifyArguments::prefixes},
                                Option{"--schedules", &VerifyArguments::schedules},
                                Option{"--arithmetic", &VerifyArguments::arithmetic},
                                Option{"--scalar", &VerifyArguments::scalar},
                                Option{"--tolerance", &VerifyArguments::tolerance}};
  std::string line = fmt::format("kvcheck verify {} --seed {} --index {}", shell_word(model),
                                 arguments.seed, number);
  for (const auto& [option, value] : kOptions) {
    if (arguments.*value == defaults.*value) continue;
    line += fmt::format(" {} {}", option, shell_word(arguments.*value));
  }
  return line;
}

}  // namespace kvcheck
