// SPDX-License-Identifier: MIT
// Reads safetensors files without trusting them, and writes them.
#include "engine/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "engine/echo.h"
#include "engine/error.h"
#include "engine/strict_json.h"

namespace kvcheck {
namespace {

using Json = nlohmann::json;
using Shape = std::vector<std::int64_t>;

static_assert(std::endian::native == std::endian::little,
              "the file's numbers are copied as they are");

constexpr std::int64_t kLengthBytes = 8;
constexpr std::string_view kMetadata = "__metadata__";

// One tensor as the header describes it.
struct Entry {
  std::string name;
  Shape shape;
  std::int64_t begin = 0;  // offsets in the data, which begins behind the header
  std::int64_t end = 0;
};

struct Header {
  std::string text;
  std::int64_t data_start = 0;
  std::int64_t data_bytes = 0;
};

std::string shape_text(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::string tensor_text(std::string_view name) { return fmt::format("tensor {}", in_quotes(name)); }

Header read_header(InputFile& file) {
  if (file.size() < kLengthBytes) {
    throw bad_input({file.where(), "header length", fmt::format("{} bytes", kLengthBytes),
                     fmt::format("a file of {}", file.size())});
  }
  std::uint64_t length = 0;
  file.read(0, std::as_writable_bytes(std::span(&length, 1)));
  const std::int64_t most = std::min(file.size() - kLengthBytes, kHeaderBytesMax);
  if (length > static_cast<std::uint64_t>(most)) {
    throw bad_input({file.where(), "header length", fmt::format("at most {} bytes", most),
                     fmt::format("{}", length)});
  }
  Header header;
  header.text.resize(length);
  file.read(kLengthBytes, std::as_writable_bytes(std::span(header.text)));
  header.data_start = kLengthBytes + static_cast<std::int64_t>(length);
  header.data_bytes = file.size() - header.data_start;
  return header;
}

// Whole numbers from 0 to 2^63 - 1, or nothing.
std::optional<std::vector<std::int64_t>> naturals(const Json* value) {
  if (!value || !value->is_array()) return std::nullopt;
  std::vector<std::int64_t> numbers;
  for (const Json& element : *value) {
    if (!element.is_number_unsigned()) return std::nullopt;
    const auto number = element.get<std::uint64_t>();
    if (number > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) return std::nullopt;
    numbers.push_back(static_cast<std::int64_t>(number));
  }
  return numbers;
}

// Bytes of a tensor, or nothing where they pass 2^63.
std::optional<std::int64_t> bytes_of(const Shape& shape) {
  std::int64_t bytes = sizeof(float);
  for (const std::int64_t extent : shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return std::nullopt;
  }
  return bytes;
}

// Fields of one entry, before anything is said about its place.
Entry parse_entry(const std::string& name, const Json& value, std::string_view where) {
  const std::string what = tensor_text(name);
  constexpr std::array<std::string_view, 3> kKeys{"dtype", "shape", "data_offsets"};
  require_object(value, {where, what});
  require_known_keys(value, kKeys, {where, what});
  const Json* dtype = find_key(value, "dtype");
  if (!dtype || *dtype != "F32") throw bad_value({where, what + " dtype"}, "\"F32\"", dtype);
  const Json* shape = find_key(value, "shape");
  const auto extents = naturals(shape);
  if (!extents) throw bad_value({where, what + " shape"}, "an array of whole numbers", shape);
  const Json* offsets = find_key(value, "data_offsets");
  const auto bounds = naturals(offsets);
  if (!bounds || bounds->size() != 2) {
    throw bad_value({where, what + " data_offsets"}, "two whole numbers", offsets);
  }
  return {name, *extents, (*bounds)[0], (*bounds)[1]};
}

void check_extent(const Entry& entry, std::int64_t data_bytes, std::string_view where) {
  const std::string what = tensor_text(entry.name) + " data_offsets";
  const std::string got = fmt::format("[{}, {}]", entry.begin, entry.end);
  if (entry.begin > entry.end) throw bad_input({where, what, "begin before end", got});
  if (entry.end > data_bytes) {
    throw bad_input({where, what, fmt::format("at most {}", data_bytes), got});
  }
  const auto bytes = bytes_of(entry.shape);
  if (!bytes) {
    throw bad_input({where, tensor_text(entry.name) + " shape", "fewer than 2^63 bytes",
                     one_line(shape_text(entry.shape))});
  }
  if (entry.end - entry.begin == *bytes) return;
  throw bad_input({where, what,
                   fmt::format("{} bytes for shape {}", *bytes, one_line(shape_text(entry.shape))),
                   got});
}

void check_metadata(const Json& value, std::string_view where) {
  require_object(value, {where, kMetadata});
  for (const Json& text : value) {
    if (!text.is_string()) throw bad_value({where, kMetadata}, "texts", &text);
  }
}

std::vector<Entry> parse_entries(const Header& header, std::string_view where) {
  const Json json = parse_json(header.text, where);
  require_object(json, {where, "header"});
  std::vector<Entry> entries;
  for (const auto& item : json.items()) {
    if (item.key() == kMetadata) {
      check_metadata(item.value(), where);
      continue;
    }
    entries.push_back(parse_entry(item.key(), item.value(), where));
    check_extent(entries.back(), header.data_bytes, where);
  }
  return entries;
}

// Exactly the expected names, each with its shape.
void check_names(const std::vector<Entry>& entries, const std::vector<TensorShape>& expected,
                 std::string_view where) {
  std::map<std::string_view, const Entry*> left;
  for (const Entry& entry : entries) left[entry.name] = &entry;
  for (const TensorShape& tensor : expected) {
    const auto found = left.find(tensor.name);
    const std::string what = tensor_text(tensor.name);
    if (found == left.end()) {
      throw bad_input({where, what, "F32 " + shape_text(tensor.shape), "none"});
    }
    const Shape& shape = found->second->shape;
    if (shape != tensor.shape) {
      throw bad_input(
          {where, what + " shape", shape_text(tensor.shape), one_line(shape_text(shape))});
    }
    left.erase(found);
  }
  if (left.empty()) return;
  throw bad_input({where, "unknown tensor", "only those that the configuration implies",
                   in_quotes(left.begin()->first)});
}

// The tensors must lie side by side from the first byte of the data to the last: bytes that two of
// them share, or none, hide something.
void check_coverage(std::vector<Entry> entries, std::int64_t data_bytes, std::string_view where) {
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.begin < b.begin; });
  std::int64_t covered = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != covered) {
      throw bad_input({where, tensor_text(entry.name) + " data_offsets",
                       fmt::format("begin {}, where the tensor before it ends", covered),
                       fmt::format("{}", entry.begin)});
    }
    covered = entry.end;
  }
  if (covered == data_bytes) return;
  throw bad_input({where, "data", fmt::format("{} bytes, where the last tensor ends", covered),
                   fmt::format("{}", data_bytes)});
}

template <typename T>
void check_finite(const TensorRef<T>& tensor, std::string_view where) {
  for (std::size_t i = 0; i < tensor.values.size(); ++i) {
    if (std::isfinite(tensor.values[i])) continue;
    throw bad_input({where, fmt::format("{} number {}", tensor_text(tensor.name), i),
                     "a finite number", fmt::format("{}", tensor.values[i])});
  }
}

// The header of a model's own file, padded so that the numbers begin at a multiple of 8.
std::string header_text(const Model<float>& model) {
  std::string text;
  std::size_t at = 0;
  for (const auto& tensor : tensors(model)) {
    const std::size_t end = at + tensor.values.size_bytes();
    text +=
        fmt::format("{}\"{}\":{{\"dtype\":\"F32\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                    text.empty() ? '{' : ',', tensor.name, fmt::join(tensor.shape, ","), at, end);
    at = end;
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

Model<float> read_safetensors(const std::filesystem::path& path, const Config& config) {
  InputFile file(path, kLengthBytes + kHeaderBytesMax + kBytesMax);
  const Header header = read_header(file);
  const std::vector<Entry> entries = parse_entries(header, file.where());
  check_names(entries, tensor_shapes(config), file.where());
  check_coverage(entries, header.data_bytes, file.where());

  std::map<std::string_view, std::int64_t> begin;
  for (const Entry& entry : entries) begin[entry.name] = header.data_start + entry.begin;
  Model<float> model = make_model<float>(config);
  for (const auto& tensor : tensors(model)) {
    file.read(begin.at(tensor.name), std::as_writable_bytes(tensor.values));
    check_finite(tensor, file.where());
  }
  tie_output(model);
  return model;
}

void write_safetensors(OutputFile& file, const Model<float>& model) {
  const auto weights = tensors(model);
  for (const auto& tensor : weights) check_finite(tensor, path_text(file.target()));
  const std::string header = header_text(model);
  const std::uint64_t length = header.size();
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(header);
  for (const auto& tensor : weights) file.write(std::as_bytes(tensor.values));
}

}  // namespace kvcheck
