// SPDX-License-Identifier: MIT
// Finding models and their prefixes.
#include "verify/models.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <utility>

#include "engine/echo.h"
#include "engine/error.h"
#include "engine/files.h"
#include "engine/generated.h"
#include "engine/sequences.h"

namespace kvcheck {
namespace {

bool bundled(std::string_view name) {
  const std::vector<std::string> names = bundled_names();
  return std::ranges::find(names, name) != names.end();
}

PrefixTree corpus_tree(const ModelData& model) {
  if (model.corpus.empty()) {
    throw bad_input({"--prefixes corpus", fmt::format("model {} has none", one_line(model.name)),
                     "a model with a corpus", "none"});
  }
  return PrefixTree::of(model.corpus, std::min(model.weights.config.context, kPrefixLengthMax));
}

PrefixTree whole_tree(const ModelData& model) {
  const Config& config = model.weights.config;
  const std::int64_t count = count_all_prefixes(config.vocabulary, config.context);
  if (count > kPrefixesMax) {
    throw bad_input({"--prefixes all", fmt::format("too many prefixes of {}", one_line(model.name)),
                     fmt::format("at most {}", kPrefixesMax),
                     count == std::numeric_limits<std::int64_t>::max()
                         ? fmt::format("more than {}", count)
                         : fmt::format("{}", count)});
  }
  if (config.context > kPrefixLengthMax) {
    throw bad_input({"--prefixes all", fmt::format("too long prefixes of {}", one_line(model.name)),
                     fmt::format("at most {} tokens", kPrefixLengthMax),
                     fmt::format("{}", config.context)});
  }
  return PrefixTree::all(config);
}

PrefixTree random_tree(const ModelData& model, const RandomRange& range) {
  const Config& config = model.weights.config;
  return PrefixTree::of(random_sequences(config, range), config.context);
}

PrefixTree file_tree(const ModelData& model, const std::string& file) {
  const Config& config = model.weights.config;
  const std::string where = path_text(file);
  const int length_max = std::min(config.context, kPrefixLengthMax);
  return PrefixTree::of(parse_sequences(read_text(file), where, model.words, config.vocabulary,
                                        static_cast<std::size_t>(length_max)),
                        length_max);
}

std::vector<SourceOfPrefixes> standard_sources(const ModelData& model, const RandomRange& range) {
  const Config& config = model.weights.config;
  if (model.corpus.empty()) return {{Source::random, random_tree(model, range)}};
  std::vector<SourceOfPrefixes> sources{{Source::corpus, corpus_tree(model)}};
  if (config.context <= kPrefixLengthMax &&
      count_all_prefixes(config.vocabulary, config.context) <= kUnaskedPrefixesMax) {
    sources.push_back({Source::all, whole_tree(model)});
  } else {
    sources.push_back({Source::random, random_tree(model, range)});
  }
  return sources;
}

}  // namespace

ModelData load_model(std::string_view name) {
  if (is_generated_name(name)) {
    ModelData model;
    model.name = name;
    model.weights = generate_model(name);
    model.sha256 = model_sha256(model.weights);
    return model;
  }
  if (!bundled(name)) return load_model_path(std::filesystem::path(name));
  ModelData model = load_model_folder(bundled_folder(name));
  model.name = name;
  return model;
}

std::vector<std::string> default_models(std::uint64_t seed) {
  std::vector<std::string> names{"chapter8", "chapter8-rotary"};
  for (std::string& generated : default_set(seed)) names.push_back(std::move(generated));
  return names;
}

PrefixChoice parse_prefix_choice(std::string_view text) {
  using Kind = PrefixChoice::Kind;
  if (text == "corpus") return {.kind = Kind::corpus};
  if (text == "all") return {.kind = Kind::all};
  if (!text.starts_with("random:")) {
    return {.kind = Kind::file, .file = std::string(text)};
  }
  const std::string_view number = text.substr(std::string_view("random:").size());
  int count = 0;
  const char* const end = number.data() + number.size();
  const auto [next, error] = std::from_chars(number.data(), end, count);
  if (error != std::errc() || next != end || count < 1 || count > kRandomSequencesMax) {
    throw bad_input({"--prefixes", "random",
                     fmt::format("random:N with N from 1 to {}", kRandomSequencesMax), text});
  }
  return {.kind = Kind::random, .random = count};
}

std::vector<int> random_sequence(const Config& config, std::uint64_t seed, std::uint64_t number) {
  return random_tokens(config.vocabulary, std::min(config.context, kRandomLengthMax), seed, number);
}

std::vector<std::vector<int>> random_sequences(const Config& config, const RandomRange& range) {
  std::vector<std::vector<int>> sequences;
  for (int i = 0; i < range.count; ++i) {
    sequences.push_back(
        random_sequence(config, range.seed, range.first + static_cast<std::uint64_t>(i)));
  }
  return sequences;
}

std::optional<std::uint64_t> find_random(const Config& config, const RandomRange& range,
                                         std::span<const int> tokens) {
  for (int i = 0; i < range.count; ++i) {
    const std::uint64_t number = range.first + static_cast<std::uint64_t>(i);
    const std::vector<int> sequence = random_sequence(config, range.seed, number);
    const bool begins = sequence.size() >= tokens.size() &&
                        std::equal(tokens.begin(), tokens.end(), sequence.begin());
    if (begins) return number;
  }
  return std::nullopt;
}

std::vector<SourceOfPrefixes> sources_of(const ModelData& model, const PrefixChoice& choice,
                                         const RandomRange& range) {
  switch (choice.kind) {
    case PrefixChoice::Kind::standard:
      return standard_sources(model, range);
    case PrefixChoice::Kind::corpus:
      return {{Source::corpus, corpus_tree(model)}};
    case PrefixChoice::Kind::all:
      return {{Source::all, whole_tree(model)}};
    case PrefixChoice::Kind::random:
      return {{Source::random, random_tree(model, range)}};
    case PrefixChoice::Kind::file:
      return {{Source::file, file_tree(model, choice.file)}};
  }
  throw InternalError("a kind of prefixes");
}

}  // namespace kvcheck
