// SPDX-License-Identifier: MIT
// A GGUF file (version 2 or 3, little-endian) as values: metadata and tensors, seen in place.
//
//   "GGUF", version, counts of tensors and of metadata
//   metadata: key, type, value; lengths of texts and arrays are 64 bits
//   tensors: name, extents from the contiguous one on, type, offset in the data
//   data, aligned to general.alignment (32 if there is none), each tensor likewise
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/stored_tensor.h"

namespace kvcheck {

// Types of metadata, by their numbers in the file.
enum class GgufType : std::uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  text,
  array,
  u64,
  i64,
  f64,
};

struct GgufArray {
  GgufType type = GgufType::u8;  // of the elements, never an array
  std::uint64_t count = 0;
  std::vector<std::string_view> texts;  // [count] of texts; numbers are only counted
};

// Unsigned, signed, floating (a float as the shortest decimal that gives it back: it was written
// as one), true or false, a text, an array.
using GgufValue =
    std::variant<std::uint64_t, std::int64_t, double, bool, std::string_view, GgufArray>;

struct Gguf {
  std::string where;
  std::map<std::string_view, GgufValue> metadata;
  std::vector<StoredTensor> tensors;  // in the order of the file, one behind the other

  // Null where there is none of that name.
  [[nodiscard]] const GgufValue* find(std::string_view key) const;
};

// The longest name of a tensor and of a key.
inline constexpr std::uint64_t kGgufNameMax = 63;
inline constexpr std::uint64_t kGgufKeyMax = 65535;

// Of a file that lies in memory, which the result refers to. Throws Error, naming `where`, at
// anything that is not as said above, and for tensors of a type that is not read.
[[nodiscard]] Gguf parse_gguf(std::span<const std::byte> file, std::string_view where);

// A value as a message shows it.
[[nodiscard]] std::string gguf_text(const GgufValue& value);

}  // namespace kvcheck
