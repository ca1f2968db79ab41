// SPDX-License-Identifier: MIT
// Both texts of a case are written from and read into one list of named fields.
#include "verify/case_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/echo.h"
#include "engine/error.h"
#include "engine/strict_json.h"
#include "verify/checks.h"
#include "verify/faults.h"

namespace kvcheck {
namespace {

constexpr std::string_view kVersion = "kv1:";

// A case is one of prefixes or one of operations, and has the fields of its kind only.
enum class For { both, prefixes, operations };
// A field that is left out where it would be empty.
enum class Presence { always, unless_empty };

struct Field {
  std::string_view key;
  std::string (*write)(const Case&);
  void (*read)(std::string_view text, std::string_view where, Case&);
  For cases = For::both;
  Presence presence = Presence::always;

  [[nodiscard]] bool belongs_to(const Case& subject) const {
    const bool operations = subject.check == kOperationsCheck;
    return cases == For::both || (cases == For::operations) == operations;
  }
  [[nodiscard]] bool is_written(const Case& subject) const {
    return belongs_to(subject) && (presence == Presence::always || !write(subject).empty());
  }
};

template <typename Number>
Number parse_number(std::string_view text, std::string_view where, std::string_view what) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || next != end) throw bad_input({where, what, "a whole number", text});
  return number;
}

std::vector<int> parse_tokens(std::string_view text, std::string_view where) {
  std::vector<int> tokens;
  while (true) {
    const auto dot = text.find('.');
    tokens.push_back(parse_number<int>(text.substr(0, dot), where, "tokens"));
    if (dot == std::string_view::npos) return tokens;
    text.remove_prefix(dot + 1);
  }
}

template <typename Enum>
Enum parse_name(std::string_view text, std::string_view where, std::string_view what,
                std::initializer_list<Enum> values) {
  std::vector<std::string_view> names;
  for (const Enum value : values) {
    if (name(value) == text) return value;
    names.push_back(name(value));
  }
  throw bad_input({where, what, fmt::format("{}", fmt::join(names, " or ")), text});
}

void only(std::string_view what, std::string_view expected, std::string_view text,
          std::string_view where) {
  if (text != expected) throw bad_input({where, what, expected, text});
}

constexpr std::array kFields{
    Field{"check", [](const Case& c) { return c.check; },
          [](std::string_view t, std::string_view, Case& c) { c.check = t; }},
    Field{"model", [](const Case& c) { return c.model; },
          [](std::string_view t, std::string_view, Case& c) { c.model = t; }},
    Field{"sha256", [](const Case& c) { return c.model_hash; },
          [](std::string_view t, std::string_view, Case& c) { c.model_hash = t; }},
    Field{"engine", [](const Case& c) { return c.engine; },
          [](std::string_view t, std::string_view where, Case& c) {
            only("engine", "builtin", t, where);
            c.engine = t;
          }},
    Field{"scalar", [](const Case& c) { return std::string(name(c.scalar)); },
          [](std::string_view t, std::string_view where, Case& c) {
            c.scalar = parse_name(t, where, "scalar", {ScalarKind::f32, ScalarKind::f64});
          }},
    Field{
        "arithmetic", [](const Case& c) { return std::string(name(c.arithmetic)); },
        [](std::string_view t, std::string_view where, Case& c) {
          c.arithmetic = parse_name(t, where, "arithmetic", {Arithmetic::row, Arithmetic::matrix});
        }},
    Field{"cache", [](const Case& c) { return name(c.cache_kind); },
          [](std::string_view t, std::string_view where, Case& c) {
            c.cache_kind = cache_kind(t, where);
          }},
    Field{"policy", [](const Case& c) { return to_text(c.policy); },
          [](std::string_view t, std::string_view where, Case& c) {
            c.policy = parse_policy(t, where);
          }},
    Field{"seed", [](const Case& c) { return fmt::format("{}", c.seed); },
          [](std::string_view t, std::string_view where, Case& c) {
            c.seed = parse_number<std::uint64_t>(t, where, "seed");
          }},
    Field{"computed", [](const Case& c) { return std::string(c.siblings ? "siblings" : "alone"); },
          [](std::string_view t, std::string_view where, Case& c) {
            if (t != "alone") only("computed", "siblings", t, where);
            c.siblings = t == "siblings";
          },
          For::prefixes},
    Field{"tokens", [](const Case& c) { return fmt::format("{}", fmt::join(c.tokens, ".")); },
          [](std::string_view t, std::string_view where, Case& c) {
            c.tokens = parse_tokens(t, where);
          },
          For::prefixes},
    Field{"schedule", [](const Case& c) { return to_text(c.schedule); },
          [](std::string_view t, std::string_view where, Case& c) {
            c.schedule = t.empty() ? Schedule{} : parse_schedule(t, where);
          },
          For::prefixes},
    Field{"operations", [](const Case& c) { return to_text(c.operations); },
          [](std::string_view t, std::string_view where, Case& c) {
            c.operations = parse_operations(t, where);
          },
          For::operations},
    Field{"fault", [](const Case& c) { return c.fault; },
          [](std::string_view t, std::string_view where, Case& c) {
            c.fault = to_text(parse_fault(t, where));
          },
          For::both, Presence::unless_empty},
};

bool plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("._+:/@-").find(c) != std::string_view::npos;
}

std::string encode(std::string_view text) {
  std::string encoded;
  for (const char c : text) {
    if (plain(c)) {
      encoded += c;
    } else {
      encoded += fmt::format("%{:02x}", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

std::string decode(std::string_view text, std::string_view where) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    const std::string_view digits = text.substr(i + 1, 2);
    unsigned value = 0;
    const auto [next, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (digits.size() != 2 || error != std::errc() || next != digits.data() + 2) {
      throw bad_input({where, "percent-encoding", "two hex digits", digits});
    }
    decoded += static_cast<char>(value);
    i += 2;
  }
  return decoded;
}

// Text that JSON can hold, and that decode() gives back.
std::string json_text(const std::string& text) {
  const bool as_it_is = one_line(text, std::numeric_limits<std::size_t>::max()) == text;
  return as_it_is && text.find('%') == std::string::npos ? text : encode(text);
}

// An unknown check is an error. A schedule that a check does not look at would be shown beside
// logits that were fed otherwise.
void require_feeds(const Case& subject, std::string_view where) {
  const Check& check = find_check(subject.check, where);
  if (feeds_by(check, subject.schedule)) return;
  throw bad_input({where, fmt::format("schedule of {}", check.id),
                   check.feeds == Feeds::none ? "none" : "feeds of one token, as 1+1",
                   to_text(subject.schedule)});
}

// Every field exactly once, but for those that may be left out.
Case read_fields(const std::map<std::string, std::string, std::less<>>& values,
                 std::string_view where) {
  Case subject;
  for (const Field& field : kFields) {
    if (!field.belongs_to(subject)) continue;  // the check is read first
    const auto found = values.find(field.key);
    if (found == values.end()) {
      if (field.presence == Presence::unless_empty) continue;
      throw bad_input({where, "missing field", field.key, "nothing"});
    }
    field.read(found->second, where, subject);
  }
  for (const auto& value : values) {
    const bool known = std::any_of(kFields.begin(), kFields.end(), [&](const Field& field) {
      return field.key == value.first && field.belongs_to(subject);
    });
    if (!known) throw bad_input({where, "unknown field", "a field of a case", value.first});
  }
  require_feeds(subject, where);
  return subject;
}

}  // namespace

std::string to_token(const Case& subject) {
  std::string token(kVersion);
  for (const Field& field : kFields) {
    if (!field.is_written(subject)) continue;
    if (token.size() > kVersion.size()) token += ',';
    token += fmt::format("{}={}", field.key, encode(field.write(subject)));
  }
  return token;
}

Case parse_token(std::string_view token, std::string_view where) {
  if (!token.starts_with(kVersion)) {
    const auto colon = token.find(':');
    const bool whole = colon == std::string_view::npos;
    throw bad_input({where, "token version", kVersion, whole ? token : token.substr(0, colon + 1)});
  }
  std::map<std::string, std::string, std::less<>> values;
  std::string_view rest = token.substr(kVersion.size());
  while (!rest.empty()) {
    const auto comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const auto equals = part.find('=');
    if (equals == std::string_view::npos) throw bad_input({where, "token", "KEY=VALUE", part});
    const bool fresh =
        values.emplace(std::string(part.substr(0, equals)), decode(part.substr(equals + 1), where))
            .second;
    if (!fresh) throw bad_input({where, "repeated field", "each once", part});
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
  }
  return read_fields(values, where);
}

std::string to_json(const Case& subject) {
  nlohmann::ordered_json object{{"version", 1}};
  for (const Field& field : kFields) {
    if (!field.is_written(subject)) continue;
    object[std::string(field.key)] = json_text(field.write(subject));
  }
  return object.dump(2) + "\n";
}

Case parse_case_json(std::string_view text, std::string_view where) {
  const nlohmann::json object = parse_json(text, where);
  require_object(object, {where, "case"});
  std::map<std::string, std::string, std::less<>> values;
  for (const auto& [key, value] : object.items()) {
    if (key == "version") {
      if (value != 1) throw bad_input({where, "case version", "1", value.dump()});
    } else if (key == "outcomes") {
      continue;  // for people
    } else if (value.is_string()) {
      values.emplace(key, decode(value.get<std::string>(), where));
    } else {
      throw bad_input({where, key, "a string", value.dump()});
    }
  }
  if (!object.contains("version")) throw bad_input({where, "case version", "1", "nothing"});
  return read_fields(values, where);
}

std::string repro_line(const Case& subject) { return "kvcheck repro " + to_token(subject); }

}  // namespace kvcheck
