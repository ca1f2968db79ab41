// SPDX-License-Identifier: MIT
// Reads manifests.
#include "engine/manifest.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "engine/echo.h"
#include "engine/strict_json.h"

namespace kvcheck {
namespace {

using Json = nlohmann::json;

double difference(const Json* value, const JsonPlace& place) {
  if (!value || !value->is_number() || !(value->get<double>() >= 0.0)) {
    throw bad_value(place, "a number of at least 0", value);
  }
  return value->get<double>();
}

// Keys inside a promise are closed: half of a promise is none.
double parse_contract(const Json& contract, std::string_view where) {
  constexpr std::array<std::string_view, 1> kKeys{"abs"};
  require_object(contract, {where, "contract"});
  require_known_keys(contract, kKeys, {where, "contract"});
  return difference(find_key(contract, "abs"), {where, "contract.abs"});
}

Published parse_published(const Json& published, std::string_view where) {
  constexpr std::array<std::string_view, 2> kKeys{"max_abs_difference", "source"};
  require_object(published, {where, "published"});
  require_known_keys(published, kKeys, {where, "published"});
  const double most = difference(find_key(published, "max_abs_difference"),
                                 {where, "published.max_abs_difference"});
  const Json* source = find_key(published, "source");
  if (!source || !source->is_string()) {
    throw bad_value({where, "published.source"}, "a text", source);
  }
  return {most, source->get<std::string>()};
}

bool is_sha256(const Json& value) {
  if (!value.is_string()) return false;
  const auto& text = value.get_ref<const std::string&>();
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

std::map<std::string, std::string> parse_files(const Json& files, std::string_view where) {
  require_object(files, {where, "files"});
  std::map<std::string, std::string> found;
  for (const auto& item : files.items()) {
    const std::string& name = item.key();
    if (!is_file_name(name)) {
      throw bad_input({where, "files", "names of files in the folder", in_quotes(name)});
    }
    if (!is_sha256(item.value())) {
      throw bad_value({where, "files." + one_line(name)}, "64 lower-case hex digits",
                      &item.value());
    }
    found[name] = item.value().get<std::string>();
  }
  return found;
}

}  // namespace

bool is_file_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == name.npos;
}

Manifest parse_manifest(std::string_view text, std::string_view where) {
  const Json object = parse_json(text, where);
  require_object(object, {where, "manifest"});
  Manifest manifest;
  if (const Json* contract = find_key(object, "contract")) {
    manifest.contract_abs = parse_contract(*contract, where);
  }
  if (const Json* published = find_key(object, "published")) {
    manifest.published = parse_published(*published, where);
  }
  if (const Json* files = find_key(object, "files")) manifest.files = parse_files(*files, where);
  return manifest;
}

}  // namespace kvcheck
