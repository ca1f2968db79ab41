// SPDX-License-Identifier: MIT
// JSON as a file format: no key twice, no key that nobody reads, no nesting without end.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "engine/error.h"

namespace kvcheck {

// Deepest nesting of arrays and objects. Our own files need four levels.
inline constexpr std::size_t kJsonDepthMax = 32;

// Most values in one text. A parsed value takes up to some 100 bytes where its text takes 2, so
// that a header of 100 MB could fill the memory; 4096 layers of 16 tensors need half a million.
inline constexpr int kJsonValuesMax = 1 << 20;

// Throws Error at malformed text, at a key that stands twice in one object and beyond the bounds
// above.
[[nodiscard]] nlohmann::json parse_json(std::string_view text, std::string_view where);

// A value's place, for messages.
struct JsonPlace {
  std::string_view where;  // file
  std::string_view what;   // path of keys
};

// "<where>: <what>, expected <expected>, got <the value, or none where there is none>"
[[nodiscard]] Error bad_value(const JsonPlace& place, std::string_view expected,
                              const nlohmann::json* got);

// Throws Error unless `value` is an object.
void require_object(const nlohmann::json& value, const JsonPlace& place);

// Throws Error naming the first key of `object` that is not known.
void require_known_keys(const nlohmann::json& object, std::span<const std::string_view> known,
                        const JsonPlace& place);

// The value of `key`, or null.
[[nodiscard]] const nlohmann::json* find_key(const nlohmann::json& object, std::string_view key);

// The value as a number of 32 bits, any number, true or false, or an array of one of the first two;
// else an Error.
void read_value(const nlohmann::json& value, const JsonPlace& place, int& field);
void read_value(const nlohmann::json& value, const JsonPlace& place, double& field);
void read_value(const nlohmann::json& value, const JsonPlace& place, bool& field);
void read_value(const nlohmann::json& value, const JsonPlace& place, std::vector<int>& field);
void read_value(const nlohmann::json& value, const JsonPlace& place, std::vector<double>& field);

}  // namespace kvcheck
