// SPDX-License-Identifier: MIT
// Parses JSON and says precisely what is wrong with it.
#include "engine/strict_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "engine/echo.h"

namespace kvcheck {
namespace {

using Json = nlohmann::json;

std::string place_text(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, byte == 0 ? 0 : byte - 1);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  return fmt::format("at byte {} (line {}, column {})", byte, line, byte - line_start);
}

// The parser counts bytes from 1 and stops at the last byte of what it cannot use, or one past the
// end.
Error malformed(std::string_view text, std::size_t byte, std::string_view where) {
  constexpr std::size_t kContext = 20;  // bytes shown up to the place
  const std::size_t end = std::min(byte, text.size());
  const std::size_t shown = std::min(end, kContext);
  const std::string got = byte > text.size() ? std::string("the end of the text")
                                             : in_quotes(text.substr(end - shown, shown));
  return bad_input({where, "malformed JSON " + place_text(text, byte), "JSON", got});
}

// Builds the value from the parser's events. The library's own builder lets the last of two equal
// keys win and has no bounds; with a callback it also looks through all earlier siblings at the end
// of every object, so that a header of a million empty objects takes minutes.
class Builder {
 public:
  Builder(std::string_view text, std::string_view where) : text_(text), where_(where) {}

  Json take() { return std::move(root_); }

  // What nlohmann::json::sax_parse calls; true: go on.
  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(std::int64_t value) { return add(value); }
  bool number_unsigned(std::uint64_t value) { return add(value); }
  bool number_float(double value, const std::string&) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(Json::binary_t&) { throw InternalError("JSON text with a binary value"); }
  bool start_object(std::size_t) { return open(Json::object()); }
  bool start_array(std::size_t) { return open(Json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& name) {
    auto& object = open_.back()->get_ref<Json::object_t&>();
    const auto [at, is_new] = object.emplace(name, nullptr);
    if (!is_new) throw bad_input({where_, "key " + in_quotes(name), "it once", "it again"});
    member_ = &at->second;
    return true;
  }

  bool parse_error(std::size_t byte, const std::string& token, const Json::exception& error) {
    constexpr int kNumberOverflow = 406;
    if (error.id != kNumberOverflow) throw malformed(text_, byte, where_);
    throw bad_input(
        {where_, "number in JSON " + place_text(text_, byte), "at most 1.8e308", one_line(token)});
  }

 private:
  bool add(Json value) {
    place(std::move(value));
    return true;
  }

  bool open(Json container) {
    if (open_.size() == kJsonDepthMax) {
      throw bad_input({where_, "JSON", fmt::format("at most {} levels", kJsonDepthMax), "more"});
    }
    open_.push_back(place(std::move(container)));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  // Puts a value where it belongs. Only the innermost container changes, so that the pointers to
  // those around it stay valid.
  Json* place(Json value) {
    if (++values_ > kJsonValuesMax) {
      throw bad_input({where_, "JSON", fmt::format("at most {} values", kJsonValuesMax), "more"});
    }
    Json* at = &root_;
    if (!open_.empty()) at = open_.back()->is_array() ? &open_.back()->emplace_back() : member_;
    *at = std::move(value);
    return at;
  }

  std::string_view text_;
  std::string_view where_;
  Json root_;
  std::vector<Json*> open_;  // containers that have begun and not ended, the innermost last
  Json* member_ = nullptr;   // the value of the last key
  int values_ = 0;
};

}  // namespace

Json parse_json(std::string_view text, std::string_view where) {
  // The parser takes a NUL for the end of the text, whatever follows it.
  if (const std::size_t nul = text.find('\0'); nul != text.npos) {
    throw bad_input(
        {where, fmt::format("malformed JSON at byte {}", nul + 1), "JSON", "a byte of zero"});
  }
  Builder builder(text, where);
  require(Json::sax_parse(text, &builder), "the JSON parser gave up without a reason");
  return builder.take();
}

Error bad_value(const JsonPlace& place, std::string_view expected, const Json* got) {
  return bad_input({place.where, place.what, expected, got ? one_line(got->dump()) : "none"});
}

void require_object(const Json& value, const JsonPlace& place) {
  if (!value.is_object()) throw bad_value(place, "an object", &value);
}

void require_known_keys(const Json& object, std::span<const std::string_view> known,
                        const JsonPlace& place) {
  for (const auto& item : object.items()) {
    if (std::find(known.begin(), known.end(), item.key()) != known.end()) continue;
    throw bad_input({place.where, fmt::format("unknown key in {}", place.what),
                     fmt::format("one of {}", fmt::join(known, ", ")), in_quotes(item.key())});
  }
}

const Json* find_key(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

void read_value(const Json& value, const JsonPlace& place, int& field) {
  constexpr std::string_view kExpected = "a whole number of 32 bits";
  // Above 2^63 the library's signed reading wraps round, hence the unsigned one first.
  using Limits = std::numeric_limits<int>;
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{Limits::max()}) {
    throw bad_value(place, kExpected, &value);
  }
  if (!value.is_number_integer() || value.get<std::int64_t>() < Limits::min()) {
    throw bad_value(place, kExpected, &value);
  }
  field = value.get<int>();
}

void read_value(const Json& value, const JsonPlace& place, double& field) {
  if (!value.is_number()) throw bad_value(place, "a number", &value);
  field = value.get<double>();
}

void read_value(const Json& value, const JsonPlace& place, bool& field) {
  if (!value.is_boolean()) throw bad_value(place, "true or false", &value);
  field = value.get<bool>();
}

void read_value(const Json& value, const JsonPlace& place, std::vector<int>& field) {
  if (!value.is_array()) throw bad_value(place, "an array of whole numbers", &value);
  for (const Json& element : value) read_value(element, place, field.emplace_back());
}

void read_value(const Json& value, const JsonPlace& place, std::vector<double>& field) {
  if (!value.is_array()) throw bad_value(place, "an array of numbers", &value);
  for (const Json& element : value) read_value(element, place, field.emplace_back());
}

}  // namespace kvcheck
