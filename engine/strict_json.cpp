// SPDX-License-Identifier: MIT
// Parses JSON and says precisely what is wrong with it.
#include "engine/strict_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "engine/echo.h"

namespace kvcheck {
namespace {

using Json = nlohmann::json;

// Watches the parser: the library itself lets the last of two equal keys win, and has no bounds.
class Guard {
 public:
  explicit Guard(std::string_view where) : where_(where) {}

  bool operator()(int depth, Json::parse_event_t event, const Json& parsed) {
    switch (event) {
      case Json::parse_event_t::object_start:
        begin(depth);
        keys_.emplace_back();
        break;
      case Json::parse_event_t::array_start:
        begin(depth);
        break;
      case Json::parse_event_t::key:
        key(parsed.get_ref<const std::string&>());
        break;
      case Json::parse_event_t::object_end:
        keys_.pop_back();
        break;
      case Json::parse_event_t::value:
        count();
        break;
      case Json::parse_event_t::array_end:
        break;
    }
    return true;
  }

 private:
  void begin(int depth) {
    if (depth >= kJsonDepthMax) {
      throw bad_input({where_, "JSON", fmt::format("at most {} levels", kJsonDepthMax), "more"});
    }
    count();
  }

  void count() {
    if (++values_ <= kJsonValuesMax) return;
    throw bad_input({where_, "JSON", fmt::format("at most {} values", kJsonValuesMax), "more"});
  }

  void key(const std::string& name) {
    if (keys_.back().insert(name).second) return;
    throw bad_input({where_, "key " + in_quotes(name), "it once", "it again"});
  }

  std::string_view where_;
  int values_ = 0;
  std::vector<std::set<std::string>> keys_;  // one set for each object that is open
};

// The parser counts bytes from 1 and stops at the byte that it cannot use, or one past the end.
Error malformed(std::string_view text, std::size_t byte, std::string_view where) {
  constexpr std::size_t kContext = 20;  // bytes shown up to the place
  const std::size_t end = std::min(byte, text.size());
  const std::string_view before = text.substr(0, end == 0 ? 0 : end - 1);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  const std::size_t shown = std::min(end, kContext);
  const std::string got = byte > text.size() ? std::string("the end of the text")
                                             : in_quotes(text.substr(end - shown, shown));
  return bad_input(
      {where,
       fmt::format("malformed JSON at byte {} (line {}, column {})", byte, line, byte - line_start),
       "JSON", got});
}

}  // namespace

Json parse_json(std::string_view text, std::string_view where) {
  Guard guard(where);
  try {
    return Json::parse(text, [&guard](int depth, Json::parse_event_t event, Json& parsed) {
      return guard(depth, event, parsed);
    });
  } catch (const Json::parse_error& error) {
    throw malformed(text, error.byte, where);
  } catch (const Json::out_of_range& error) {
    // Its words end in the number: "... number overflow parsing '1e400'".
    const std::string_view words = error.what();
    const std::size_t quote = words.find('\'');
    const std::string_view number = words.substr(quote == words.npos ? 0 : quote);
    throw bad_input({where, "number in JSON", "at most 1.8e308", one_line(number)});
  }
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

}  // namespace kvcheck
