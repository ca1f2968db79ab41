// SPDX-License-Identifier: MIT
// Reads GGUF without trusting it: every count and offset is checked against what is left of the
// file before anything is done with it.
#include "engine/gguf.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>

#include "engine/echo.h"
#include "engine/error.h"

namespace kvcheck {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are read as they lie");

constexpr std::string_view kMagic = "GGUF";
constexpr std::uint64_t kAlignment = 32;
constexpr std::uint64_t kAlignmentMax = 1 << 20;
constexpr std::uint32_t kExtentsMax = 4;
constexpr auto kTypes = static_cast<std::uint32_t>(GgufType::f64) + 1;
// Least bytes of a pair (empty key, type, a byte) and of a tensor (empty name, one extent).
constexpr std::uint64_t kPairBytes = 8 + 4 + 1;
constexpr std::uint64_t kTensorBytes = 8 + 4 + 8 + 4 + 8;

struct TensorType {
  std::uint32_t number;
  Dtype dtype;
};
constexpr std::array kTensorTypes{
    TensorType{0, Dtype::f32},   TensorType{1, Dtype::f16},   TensorType{30, Dtype::bf16},
    TensorType{28, Dtype::f64},  TensorType{8, Dtype::q8_0},  TensorType{2, Dtype::q4_0},
    TensorType{3, Dtype::q4_1},  TensorType{6, Dtype::q5_0},  TensorType{7, Dtype::q5_1},
    TensorType{12, Dtype::q4_k}, TensorType{13, Dtype::q5_k}, TensorType{14, Dtype::q6_k}};

// Names of types that are often met and not read.
std::string type_text(std::uint32_t number) {
  struct Name {
    std::uint32_t number;
    std::string_view name;
  };
  constexpr std::array kNames{Name{9, "Q8_1"}, Name{10, "Q2_K"}, Name{11, "Q3_K"},
                              Name{15, "Q8_K"}};
  const auto* const found = std::ranges::find(kNames, number, &Name::number);
  if (found != kNames.end()) return std::string(found->name);
  return fmt::format("type {}", number);
}

std::string readable_types() {
  std::vector<std::string_view> names;
  for (const TensorType& type : kTensorTypes) names.push_back(block_of(type.dtype).name);
  return fmt::format("one of {}", fmt::join(names, ", "));
}

// The bytes of a file from front to back.
class Reader {
 public:
  Reader(std::span<const std::byte> file, std::string_view where) : file_(file), where_(where) {}

  [[nodiscard]] std::uint64_t at() const { return at_; }
  [[nodiscard]] std::uint64_t left() const { return file_.size() - at_; }
  [[nodiscard]] std::string_view where() const { return where_; }

  template <typename Number>
  [[nodiscard]] Number number(std::string_view what) {
    Number number;
    std::memcpy(&number, take(sizeof number, what).data(), sizeof number);
    return number;
  }

  [[nodiscard]] std::span<const std::byte> take(std::uint64_t bytes, std::string_view what) {
    if (bytes > left()) {
      throw bad_input({where_, fmt::format("{} at byte {}", what, at_),
                       fmt::format("{} bytes", bytes), fmt::format("{} to the end", left())});
    }
    const auto taken = file_.subspan(at_, bytes);
    at_ += bytes;
    return taken;
  }

  [[nodiscard]] std::string_view text(std::string_view what, std::uint64_t most) {
    const auto length = number<std::uint64_t>(what);
    if (length > most) {
      throw bad_input({where_, fmt::format("{} at byte {}", what, at_),
                       fmt::format("at most {} bytes", most), fmt::format("{}", length)});
    }
    const auto bytes = take(length, what);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  // A count of things that take at least so many bytes each.
  [[nodiscard]] std::uint64_t count(std::string_view what, std::uint64_t bytes_each) {
    const auto claimed = number<std::uint64_t>(what);
    return believable(claimed, what, bytes_each);
  }
  [[nodiscard]] std::uint64_t believable(std::uint64_t claimed, std::string_view what,
                                         std::uint64_t bytes_each) const {
    const std::uint64_t most = left() / bytes_each;
    if (claimed <= most) return claimed;
    throw bad_input({where_, what, fmt::format("at most {} in {} bytes", most, left()),
                     fmt::format("{}", claimed)});
  }

 private:
  std::span<const std::byte> file_;
  std::string_view where_;
  std::uint64_t at_ = 0;
};

// ---- Metadata

std::string key_text(std::string_view key) { return "key " + in_quotes(key); }

double as_written(float value) {
  std::array<char, 32> digits{};
  const auto written = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  double decimal = 0;
  const auto read = std::from_chars(digits.data(), written.ptr, decimal);
  require(read.ec == std::errc() && read.ptr == written.ptr, "digits of a float are a number");
  return decimal;
}

GgufType type_at(Reader& reader, std::string_view what) {
  const auto number = reader.number<std::uint32_t>(what);
  if (number < kTypes) return static_cast<GgufType>(number);
  throw bad_input({reader.where(), std::string(what) + " type",
                   fmt::format("a number below {}", kTypes), fmt::format("{}", number)});
}

std::uint64_t bytes_of(GgufType type) {
  switch (type) {
    case GgufType::u8:
    case GgufType::i8:
    case GgufType::boolean:
      return 1;
    case GgufType::u16:
    case GgufType::i16:
      return 2;
    case GgufType::u32:
    case GgufType::i32:
    case GgufType::f32:
      return 4;
    case GgufType::text:  // at least its length
    case GgufType::u64:
    case GgufType::i64:
    case GgufType::f64:
    case GgufType::array:
      return 8;
  }
  throw InternalError("a type of metadata");
}

GgufArray array_at(Reader& reader, std::string_view what) {
  GgufArray array;
  array.type = type_at(reader, what);
  if (array.type == GgufType::array) {
    throw bad_input({reader.where(), what, "no array in an array", "one"});
  }
  array.count = reader.count(std::string(what) + " length", bytes_of(array.type));
  if (array.type != GgufType::text) {
    (void)reader.take(array.count * bytes_of(array.type), what);
    return array;
  }
  array.texts.reserve(array.count);
  for (std::uint64_t i = 0; i < array.count; ++i) {
    array.texts.push_back(reader.text(what, std::numeric_limits<std::uint64_t>::max()));
  }
  return array;
}

bool truth_at(Reader& reader, std::string_view what) {
  const auto byte = reader.number<std::uint8_t>(what);
  if (byte <= 1) return byte == 1;
  throw bad_input({reader.where(), what, "0 or 1 for a truth", fmt::format("{}", byte)});
}

GgufValue value_at(Reader& reader, GgufType type, std::string_view what) {
  switch (type) {
    case GgufType::u8:
      return std::uint64_t{reader.number<std::uint8_t>(what)};
    case GgufType::i8:
      return std::int64_t{reader.number<std::int8_t>(what)};
    case GgufType::u16:
      return std::uint64_t{reader.number<std::uint16_t>(what)};
    case GgufType::i16:
      return std::int64_t{reader.number<std::int16_t>(what)};
    case GgufType::u32:
      return std::uint64_t{reader.number<std::uint32_t>(what)};
    case GgufType::i32:
      return std::int64_t{reader.number<std::int32_t>(what)};
    case GgufType::f32:
      return as_written(reader.number<float>(what));
    case GgufType::boolean:
      return truth_at(reader, what);
    case GgufType::text:
      return reader.text(what, std::numeric_limits<std::uint64_t>::max());
    case GgufType::array:
      return array_at(reader, what);
    case GgufType::u64:
      return reader.number<std::uint64_t>(what);
    case GgufType::i64:
      return reader.number<std::int64_t>(what);
    case GgufType::f64:
      return reader.number<double>(what);
  }
  throw InternalError("a type of metadata");
}

void read_metadata(Reader& reader, std::uint64_t count, Gguf& gguf) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string_view key = reader.text("key", kGgufKeyMax);
    const std::string what = key_text(key);
    const GgufType type = type_at(reader, what);
    if (!gguf.metadata.emplace(key, value_at(reader, type, what)).second) {
      throw bad_input({reader.where(), what, "it once", "it again"});
    }
  }
}

// ---- Tensors

// What the file says of a tensor, before anything is said about its place.
struct Entry {
  std::string name;
  Dtype dtype = Dtype::f32;
  std::vector<std::int64_t> shape;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

std::vector<std::int64_t> extents_at(Reader& reader, std::string_view what) {
  const auto count = reader.number<std::uint32_t>(what);
  if (count < 1 || count > kExtentsMax) {
    throw bad_input({reader.where(), std::string(what) + " extents",
                     fmt::format("1 to {}", kExtentsMax), fmt::format("{}", count)});
  }
  std::vector<std::int64_t> shape;
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto extent = reader.number<std::uint64_t>(what);
    if (extent < 1 || extent > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
      throw bad_input({reader.where(), std::string(what) + " extent", "from 1 to 2^63 - 1",
                       fmt::format("{}", extent)});
    }
    shape.insert(shape.begin(), static_cast<std::int64_t>(extent));
  }
  return shape;
}

Dtype dtype_at(Reader& reader, std::string_view what) {
  const auto number = reader.number<std::uint32_t>(what);
  const auto* const type = std::ranges::find(kTensorTypes, number, &TensorType::number);
  if (type != kTensorTypes.end()) return type->dtype;
  throw bad_input(
      {reader.where(), std::string(what) + " type", readable_types(), type_text(number)});
}

Entry entry_at(Reader& reader) {
  Entry entry;
  entry.name = reader.text("tensor name", kGgufNameMax);
  const std::string what = tensor_text(entry.name);
  entry.shape = extents_at(reader, what);
  entry.dtype = dtype_at(reader, what);
  entry.offset = reader.number<std::uint64_t>(what);
  const auto bytes = bytes_of(entry.dtype, entry.shape);
  if (!bytes) {
    throw bad_input({reader.where(), what + " shape",
                     fmt::format("fewer than 2^63 bytes, rows of whole blocks of {} numbers",
                                 block_of(entry.dtype).numbers),
                     shape_text(entry.shape)});
  }
  entry.bytes = static_cast<std::uint64_t>(*bytes);
  return entry;
}

std::uint64_t alignment_of(const Gguf& gguf) {
  const GgufValue* value = gguf.find("general.alignment");
  if (value == nullptr) return kAlignment;
  const auto* number = std::get_if<std::uint64_t>(value);
  if (number != nullptr && std::has_single_bit(*number) && *number <= kAlignmentMax) {
    return *number;
  }
  throw bad_input({gguf.where, key_text("general.alignment"),
                   fmt::format("a power of two up to {}", kAlignmentMax), gguf_text(*value)});
}

std::uint64_t aligned(std::uint64_t at, std::uint64_t alignment) {
  return (at + alignment - 1) / alignment * alignment;
}

// Tensor behind tensor, with fewer bytes between and behind them than the alignment.
void place_tensors(Reader& reader, const std::vector<Entry>& entries, Gguf& gguf) {
  const std::uint64_t alignment = alignment_of(gguf);
  if (!entries.empty()) {
    (void)reader.take(aligned(reader.at(), alignment) - reader.at(), "padding");
  }
  const auto data = reader.take(reader.left(), "data");
  std::uint64_t end = 0;
  for (const Entry& entry : entries) {
    const std::string what = tensor_text(entry.name) + " offset";
    const std::uint64_t begin = aligned(end, alignment);
    if (entry.offset != begin) {
      throw bad_input({gguf.where, what, fmt::format("{}, behind the tensor before it", begin),
                       fmt::format("{}", entry.offset)});
    }
    if (begin > data.size() || entry.bytes > data.size() - begin) {
      throw bad_input({gguf.where, tensor_text(entry.name),
                       fmt::format("{} bytes from offset {} on", entry.bytes, begin),
                       fmt::format("data of {}", data.size())});
    }
    end = begin + entry.bytes;
    gguf.tensors.push_back({gguf.where, entry.name, std::string(block_of(entry.dtype).name),
                            entry.dtype, entry.shape, data.subspan(begin, entry.bytes)});
  }
  if (data.size() - end < alignment) return;
  throw bad_input({gguf.where, "data", fmt::format("{} bytes, where the last tensor ends", end),
                   fmt::format("{}", data.size())});
}

void check_start(Reader& reader) {
  const auto magic = reader.take(kMagic.size(), "magic");
  if (std::memcmp(magic.data(), kMagic.data(), kMagic.size()) != 0) {
    throw bad_input({reader.where(), "first bytes", in_quotes(kMagic),
                     in_quotes({reinterpret_cast<const char*>(magic.data()), magic.size()})});
  }
  const auto version = reader.number<std::uint32_t>("version");
  if (version == 2 || version == 3) return;
  throw bad_input({reader.where(), "version", "2 or 3", fmt::format("{}", version)});
}

}  // namespace

const GgufValue* Gguf::find(std::string_view key) const {
  const auto found = metadata.find(key);
  return found == metadata.end() ? nullptr : &found->second;
}

Gguf parse_gguf(std::span<const std::byte> file, std::string_view where) {
  Reader reader(file, where);
  check_start(reader);
  const std::uint64_t tensors = reader.count("count of tensors", kTensorBytes);
  const std::uint64_t pairs = reader.count("count of metadata", kPairBytes);
  Gguf gguf;
  gguf.where = where;
  read_metadata(reader, pairs, gguf);
  std::vector<Entry> entries;
  for (std::uint64_t i = 0; i < tensors; ++i) entries.push_back(entry_at(reader));
  place_tensors(reader, entries, gguf);
  return gguf;
}

std::string gguf_text(const GgufValue& value) {
  if (const auto* text = std::get_if<std::string_view>(&value)) return in_quotes(*text);
  if (const auto* array = std::get_if<GgufArray>(&value)) {
    return fmt::format("an array of {}", array->count);
  }
  if (const auto* number = std::get_if<std::uint64_t>(&value)) return fmt::format("{}", *number);
  if (const auto* number = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *number);
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  return std::get<bool>(value) ? "true" : "false";
}

}  // namespace kvcheck
