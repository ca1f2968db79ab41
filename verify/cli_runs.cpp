// SPDX-License-Identifier: MIT
// From arguments to loaded models and their prefixes.
#include "verify/cli_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "engine/builtin.h"
#include "engine/echo.h"
#include "engine/error.h"
#include "engine/random.h"
#include "properties/operations_gen.h"
#include "verify/assignments.h"
#include "verify/exhaustive.h"
#include "verify/stored.h"

namespace kvcheck {
namespace {

// Random sequences of operations for each model, kind of cache and arithmetic.
constexpr int kRandomOperations = 16;
// Deeper ones are too many on any model.
constexpr int kDepthMax = 8;

int whole_number(std::string_view text, IntRange range, std::string_view where) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < range.low ||
      number > range.high) {
    throw bad_input({where, "number", fmt::format("{} to {}", range.low, range.high),
                     fmt::format("\"{}\"", text)});
  }
  return number;
}

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

// Counted for the kinds of cache whose sequences are others.
void require_enumerable(const ModelData& model, const OperationChoice& choice) {
  if (choice.kind != OperationChoice::Kind::exhaustive) return;
  std::vector<OperationSpace> counted;
  for (const CacheKind& kind : choice.caches) {
    const Config& config = model.weights.config;
    OperationSpace space = operation_space(config, kind, builtin_capabilities(config, kind));
    space.live_max = kLiveEnumerated;
    const auto same = [&](const OperationSpace& other) {
      return other.limits.verbs == space.limits.verbs;
    };
    if (std::ranges::any_of(counted, same)) continue;
    counted.push_back(space);
    int depth = 1;
    std::uint64_t before = 0;
    for (; depth <= choice.depth; ++depth) {
      const std::uint64_t count = count_sequences(space, depth, kSequencesMax);
      if (count > kSequencesMax) break;
      before = count;
    }
    if (depth > choice.depth) continue;
    throw bad_input(
        {"--operations",
         fmt::format("too many sequences on {} ({})", one_line(model.name), name(kind)),
         fmt::format("at most {}, as exhaustive:{} has {}", kSequencesMax, depth - 1, before),
         fmt::format("more than {} of exhaustive:{}", kSequencesMax, choice.depth)});
  }
}

}  // namespace

OperationChoice operation_choice(const VerifyArguments& arguments) {
  constexpr std::string_view kRandom = "random:";
  constexpr std::string_view kExhaustive = "exhaustive:";
  constexpr std::string_view kOption = "--operations";
  OperationChoice choice;
  choice.draw = random_operations;
  choice.caches = cache_kinds();
  if (arguments.cache_kind != "all") {
    choice.caches = {cache_kind(arguments.cache_kind, "--cache-kind")};
  }
  // An index is that of a random prefix unless operations are asked for.
  if (arguments.index && arguments.operations.empty()) return choice;
  const std::string_view text = arguments.operations;
  if (text == "none") return choice;
  choice.kind = OperationChoice::Kind::random;
  choice.count = kRandomOperations;
  if (text.starts_with(kExhaustive)) {
    choice.kind = OperationChoice::Kind::exhaustive;
    choice.depth = whole_number(text.substr(kExhaustive.size()), {1, kDepthMax}, kOption);
  } else if (text.starts_with(kRandom)) {
    choice.count = whole_number(text.substr(kRandom.size()), {1, kRandomSequencesMax}, kOption);
  } else if (!text.empty()) {
    throw bad_input({kOption, "bad value", "random:N, exhaustive:D or none", text});
  }
  if (!arguments.index) return choice;
  if (choice.kind != OperationChoice::Kind::random) {
    throw bad_input({"--index", "operations that are not random", "--operations random:N", text});
  }
  choice.first = *arguments.index;
  choice.count = 1;
  return choice;
}

Runs load_runs(const VerifyArguments& arguments, const SuiteOptions& options,
               const std::atomic<bool>& stop) {
  Runs to;
  const bool operations = options.operations.kind != OperationChoice::Kind::none;
  PrefixChoice choice = prefix_choice(arguments);
  VerifyArguments numbered = arguments;
  // The index is that of a sequence of operations: it says nothing of prefixes.
  if (operations && arguments.index) numbered.index.reset();
  const bool stored = !arguments.no_stored && !arguments.index;
  for (const auto& [name, range] : numbered_models(numbered, choice.random)) {
    const ModelData& model = to.models.emplace_back(load_model(name));
    std::vector<SourceOfPrefixes> sources = sources_of(model, choice, range);
    if (options.schedules) {
      require_schedulable(options.schedule_choice, sources.back().tree.depth_max());
    }
    require_enumerable(model, options.operations);
    to.ranges.push_back(range);
    to.runs.push_back(
        {model, std::move(sources),
         stored ? load_stored(stored_failures_folder(), model, "builtin") : std::vector<Case>{}});
    if (stop.load()) break;
  }
  return to;
}

std::string rerun_line(const VerifyArguments& given, const Case& subject, std::uint64_t number) {
  VerifyArguments arguments = given;
  if (!subject.operations.empty()) {
    arguments.operations = "random:1";
    arguments.cache_kind = name(subject.cache_kind);
    arguments.arithmetic = name(subject.arithmetic);
    arguments.prefixes.clear();
    arguments.schedules.clear();
  }
  const VerifyArguments defaults;
  struct Option {
    std::string_view name;
    std::string VerifyArguments::*value;
  };
  constexpr std::array kOptions{Option{"--prefixes", &VerifyArguments::prefixes},
                                Option{"--schedules", &VerifyArguments::schedules},
                                Option{"--operations", &VerifyArguments::operations},
                                Option{"--cache-kind", &VerifyArguments::cache_kind},
                                Option{"--arithmetic", &VerifyArguments::arithmetic},
                                Option{"--scalar", &VerifyArguments::scalar},
                                Option{"--tolerance", &VerifyArguments::tolerance}};
  std::string line = fmt::format("kvcheck verify {} --seed {} --index {}",
                                 shell_word(subject.model), arguments.seed, number);
  for (const auto& [option, value] : kOptions) {
    if (arguments.*value == defaults.*value) continue;
    line += fmt::format(" {} {}", option, shell_word(arguments.*value));
  }
  return line;
}

}  // namespace kvcheck
