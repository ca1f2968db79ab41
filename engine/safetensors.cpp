// SPDX-License-Identifier: MIT
// Reads safetensors files without trusting them, and writes them.
#include "engine/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "engine/echo.h"
#include "engine/error.h"
#include "engine/mapped_file.h"
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
  std::string format;
  std::optional<Dtype> dtype;
  Shape shape;
  std::int64_t begin = 0;  // offsets in the data, which begins behind the header
  std::int64_t end = 0;
};

struct Header {
  std::string_view text;
  std::span<const std::byte> data;

  [[nodiscard]] std::int64_t data_bytes() const { return static_cast<std::int64_t>(data.size()); }
};

Header read_header(std::span<const std::byte> file, std::string_view where) {
  const auto size = static_cast<std::int64_t>(file.size());
  if (size < kLengthBytes) {
    throw bad_input({where, "header length", fmt::format("{} bytes", kLengthBytes),
                     fmt::format("a file of {}", size)});
  }
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  const std::int64_t most = std::min(size - kLengthBytes, kHeaderBytesMax);
  if (length > static_cast<std::uint64_t>(most)) {
    throw bad_input(
        {where, "header length", fmt::format("at most {} bytes", most), fmt::format("{}", length)});
  }
  const std::span<const std::byte> rest = file.subspan(kLengthBytes);
  return {{reinterpret_cast<const char*>(rest.data()), length}, rest.subspan(length)};
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

// The formats that the engine can read, by their names here.
constexpr std::array kReadable{Dtype::f64, Dtype::f32, Dtype::f16, Dtype::bf16};

std::optional<Dtype> readable(std::string_view format) {
  const auto* const found =
      std::ranges::find(kReadable, format, [](Dtype dtype) { return block_of(dtype).name; });
  return found == kReadable.end() ? std::nullopt : std::optional(*found);
}

std::string parse_dtype(const Json* value, const JsonPlace& place, Dtypes dtypes) {
  if (dtypes == Dtypes::f32 && (!value || *value != "F32")) {
    throw bad_value(place, "\"F32\"", value);
  }
  if (!value || !value->is_string()) throw bad_value(place, "a text", value);
  return value->get<std::string>();
}

// Fields of one entry, before anything is said about its place.
Entry parse_entry(const std::string& name, const Json& value, std::string_view where,
                  Dtypes dtypes) {
  const std::string what = tensor_text(name);
  constexpr std::array<std::string_view, 3> kKeys{"dtype", "shape", "data_offsets"};
  require_object(value, {where, what});
  require_known_keys(value, kKeys, {where, what});
  std::string format = parse_dtype(find_key(value, "dtype"), {where, what + " dtype"}, dtypes);
  const Json* shape = find_key(value, "shape");
  const auto extents = naturals(shape);
  if (!extents) throw bad_value({where, what + " shape"}, "an array of whole numbers", shape);
  const Json* offsets = find_key(value, "data_offsets");
  const auto bounds = naturals(offsets);
  if (!bounds || bounds->size() != 2) {
    throw bad_value({where, what + " data_offsets"}, "two whole numbers", offsets);
  }
  const auto dtype = readable(format);
  return {name, std::move(format), dtype, *extents, (*bounds)[0], (*bounds)[1]};
}

void check_extent(const Entry& entry, std::int64_t data_bytes, std::string_view where) {
  const std::string what = tensor_text(entry.name) + " data_offsets";
  const std::string got = fmt::format("[{}, {}]", entry.begin, entry.end);
  if (entry.begin > entry.end) throw bad_input({where, what, "begin before end", got});
  if (entry.end > data_bytes) {
    throw bad_input({where, what, fmt::format("at most {}", data_bytes), got});
  }
  if (!entry.dtype) return;
  const auto bytes = bytes_of(*entry.dtype, entry.shape);
  if (!bytes) {
    throw bad_input({where, tensor_text(entry.name) + " shape", "fewer than 2^63 bytes",
                     shape_text(entry.shape)});
  }
  if (entry.end - entry.begin == *bytes) return;
  throw bad_input(
      {where, what, fmt::format("{} bytes for shape {}", *bytes, shape_text(entry.shape)), got});
}

void check_metadata(const Json& value, std::string_view where) {
  require_object(value, {where, kMetadata});
  for (const Json& text : value) {
    if (!text.is_string()) throw bad_value({where, kMetadata}, "texts", &text);
  }
}

std::vector<Entry> parse_entries(const Header& header, std::string_view where, Dtypes dtypes) {
  const Json json = parse_json(header.text, where);
  require_object(json, {where, "header"});
  std::vector<Entry> entries;
  for (const auto& item : json.items()) {
    if (item.key() == kMetadata) {
      check_metadata(item.value(), where);
      continue;
    }
    entries.push_back(parse_entry(item.key(), item.value(), where, dtypes));
    check_extent(entries.back(), header.data_bytes(), where);
  }
  return entries;
}

// Exactly the expected names, each with its shape.
void check_names(std::span<const StoredTensor> entries, const std::vector<TensorShape>& expected,
                 std::string_view where) {
  std::map<std::string_view, const StoredTensor*> left;
  for (const StoredTensor& entry : entries) left[entry.name] = &entry;
  for (const TensorShape& tensor : expected) {
    const auto found = left.find(tensor.name);
    const std::string what = tensor_text(tensor.name);
    if (found == left.end()) {
      throw bad_input({where, what, "F32 " + shape_text(tensor.shape), "none"});
    }
    const Shape& shape = found->second->shape;
    if (shape != tensor.shape) {
      throw bad_input({where, what + " shape", shape_text(tensor.shape), shape_text(shape)});
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
  // A tensor without numbers stands before the one that begins where it does.
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
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

std::vector<StoredTensor> parse_safetensors(std::span<const std::byte> file, std::string_view where,
                                            Dtypes dtypes) {
  const Header header = read_header(file, where);
  const std::vector<Entry> entries = parse_entries(header, where, dtypes);
  check_coverage(entries, header.data_bytes(), where);
  std::vector<StoredTensor> tensors;
  for (const Entry& entry : entries) {
    const auto bytes = header.data.subspan(static_cast<std::size_t>(entry.begin),
                                           static_cast<std::size_t>(entry.end - entry.begin));
    tensors.push_back(
        {std::string(where), entry.name, entry.format, entry.dtype, entry.shape, bytes});
  }
  return tensors;
}

Model<float> read_safetensors(const std::filesystem::path& path, const Config& config) {
  const MappedFile file(path, kSafetensorsBytesMax);
  const std::vector<StoredTensor> stored =
      parse_safetensors(file.bytes(), file.where(), Dtypes::f32);
  check_names(stored, tensor_shapes(config), file.where());
  std::map<std::string_view, std::span<const std::byte>> bytes;
  for (const StoredTensor& tensor : stored) bytes[tensor.name] = tensor.bytes;
  Model<float> model = make_model<float>(config);
  for (const auto& tensor : tensors(model)) {
    widen(Dtype::f32, bytes.at(tensor.name), tensor.values);
    check_finite(tensor.name, tensor.values, file.where());
  }
  tie_output(model);
  return model;
}

void write_safetensors(OutputFile& file, const Model<float>& model) {
  const auto weights = tensors(model);
  for (const auto& tensor : weights) {
    check_finite(tensor.name, tensor.values, path_text(file.target()));
  }
  const std::string header = header_text(model);
  const std::uint64_t length = header.size();
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(header);
  for (const auto& tensor : weights) file.write(std::as_bytes(tensor.values));
}

}  // namespace kvcheck
