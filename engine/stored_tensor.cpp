// SPDX-License-Identifier: MIT
// From stored tensors to a model: names by a table, then shapes, then numbers.
#include "engine/stored_tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "engine/echo.h"
#include "engine/error.h"

namespace kvcheck {
namespace {

using Shape = std::vector<std::int64_t>;

constexpr std::string_view kLayers = "layers.";

// A target's name in the terms of the table: "layers.3.query.bias" is layer 3's "layers.*.query".
struct Target {
  std::string stem;
  std::string layer;   // digits, or empty
  std::string ending;  // of the source
};

Target parse_target(std::string_view name) {
  Target target;
  std::string_view rest = name;
  if (rest.starts_with(kLayers)) {
    rest.remove_prefix(kLayers.size());
    const auto dot = rest.find('.');
    target.layer = rest.substr(0, dot);
    rest.remove_prefix(dot);
    target.stem = std::string(kLayers) + "*";
  }
  target.ending = ".weight";
  for (const auto& [ending, of_source] :
       {std::pair{".weight", ".weight"}, std::pair{".scale", ".weight"},
        std::pair{".bias", ".bias"}, std::pair{".shift", ".bias"}}) {
    if (!rest.ends_with(ending)) continue;
    target.ending = of_source;
    rest.remove_suffix(std::string_view(ending).size());
    break;
  }
  target.stem += rest;
  return target;
}

// One tensor of the model and how it is stored.
struct Source {
  TensorShape target;
  const TensorPlace* place = nullptr;
  std::string name;
  const StoredTensor* stored = nullptr;
};

Source source_of(const TensorShape& shape, const TensorPlaces& places) {
  const Target target = parse_target(shape.name);
  const auto place = std::ranges::find(places.places, target.stem, &TensorPlace::target);
  require(place != places.places.end(), "a family has a place for every tensor of its models");
  std::string name(place->source);
  if (const auto star = name.find('*'); star != name.npos) name.replace(star, 1, target.layer);
  name += target.ending;
  if (target.stem != "output") name.insert(0, places.prefix);
  return {shape, &*place, std::move(name), nullptr};
}

// The shape that the file must give the tensor.
Shape stored_shape(const Source& source) {
  Shape shape = source.target.shape;
  shape.back() *= source.place->parts;
  if (source.place->stored == Stored::transposed) std::reverse(shape.begin(), shape.end());
  return shape;
}

void check_source(const Source& source, std::string_view where) {
  const std::string what = tensor_text(source.name);
  const Shape expected = stored_shape(source);
  if (source.stored == nullptr) throw bad_input({where, what, shape_text(expected), "none"});
  const StoredTensor& stored = *source.stored;
  if (stored.shape != expected) {
    throw bad_input(
        {stored.where, what + " shape", shape_text(expected), shape_text(stored.shape)});
  }
  if (stored.dtype) return;
  throw bad_input(
      {stored.where, what + " format", "numbers that can be read", in_quotes(stored.format)});
}

using ByName = std::unordered_map<std::string_view, const StoredTensor*>;

ByName by_name(std::span<const StoredTensor> tensors) {
  ByName found;
  for (const StoredTensor& tensor : tensors) {
    const auto [earlier, is_new] = found.emplace(tensor.name, &tensor);
    if (is_new) continue;
    throw bad_input({tensor.where, tensor_text(tensor.name), "it once",
                     "it again, after " + earlier->second->where});
  }
  return found;
}

std::vector<Source> find_sources(const Config& config, const ByName& tensors,
                                 const TensorPlaces& places, std::string_view where) {
  std::vector<Source> sources;
  for (const TensorShape& shape : tensor_shapes(config)) {
    Source source = source_of(shape, places);
    const auto found = tensors.find(source.name);
    if (found != tensors.end()) source.stored = found->second;
    check_source(source, where);
    sources.push_back(std::move(source));
  }
  return sources;
}

void check_all_used(std::span<const StoredTensor> tensors, std::span<const Source> sources,
                    const TensorPlaces& places) {
  std::vector<const StoredTensor*> used;
  used.reserve(sources.size());
  for (const Source& source : sources) used.push_back(source.stored);
  std::ranges::sort(used);
  for (const StoredTensor& tensor : tensors) {
    if (std::ranges::binary_search(used, &tensor)) continue;
    if (places.unused && places.unused(tensor.name)) continue;
    throw bad_input({tensor.where, "unknown tensor", "only those that the configuration implies",
                     in_quotes(tensor.name)});
  }
}

// The numbers of a target, row by row, out of all those that are stored.
void place_numbers(const Source& source, std::span<const float> stored, std::span<float> to) {
  const Shape& shape = source.target.shape;
  const auto columns = static_cast<std::size_t>(shape.back());
  const std::size_t rows = to.size() / columns;
  const auto parts = static_cast<std::size_t>(source.place->parts);
  const std::size_t first = static_cast<std::size_t>(source.place->part) * columns;
  const bool transposed = source.place->stored == Stored::transposed && shape.size() == 2;
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) {
      to[r * columns + c] =
          stored[transposed ? (first + c) * rows + r : r * columns * parts + first + c];
    }
  }
}

}  // namespace

std::string shape_text(std::span<const std::int64_t> shape) {
  return one_line(fmt::format("[{}]", fmt::join(shape, ", ")));
}

std::string tensor_text(std::string_view name) { return fmt::format("tensor {}", in_quotes(name)); }

void check_finite(std::string_view name, std::span<const float> values, std::string_view where) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    throw bad_input({where, fmt::format("{} number {}", tensor_text(name), i), "a finite number",
                     fmt::format("{}", values[i])});
  }
}

Model<float> assemble(const Config& config, std::span<const StoredTensor> tensors,
                      const TensorPlaces& places, std::string_view where) {
  const std::vector<Source> sources = find_sources(config, by_name(tensors), places, where);
  check_all_used(tensors, sources, places);
  Model<float> model = make_model<float>(config);
  const auto targets = kvcheck::tensors(model);
  std::vector<float> stored;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const StoredTensor& from = *sources[i].stored;
    stored.resize(targets[i].values.size() * static_cast<std::size_t>(sources[i].place->parts));
    widen(*from.dtype, from.bytes, stored);
    check_finite(from.name, stored, from.where);
    place_numbers(sources[i], stored, targets[i].values);
    if (!places.norms_from_one || targets[i].part != Part::norms) continue;
    for (float& value : targets[i].values) value += 1.0F;
  }
  tie_output(model);
  return model;
}

}  // namespace kvcheck
