// SPDX-License-Identifier: MIT
// Gathers what identifies a run and writes it as JSON.
#include "reports/manifest_json.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/utsname.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace kvcheck {
namespace {

using OrderedJson = nlohmann::ordered_json;

// The text up to the next blank; what follows it stays in `text`.
std::string take_word(std::string_view& text) {
  const std::size_t end = std::min(text.find(' '), text.size());
  std::string word(text.substr(0, end));
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

std::string trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == text.npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(" \t") - begin + 1));
}

std::string words_of(std::string_view text) {
  std::string words;
  while (!text.empty()) {
    const std::string word = take_word(text);
    if (word.empty()) continue;
    if (!words.empty()) words += ' ';
    words += word;
  }
  return words;
}

}  // namespace

Build parse_build(std::string_view text) {
  Build build;
  build.compiler = take_word(text);
  build.compiler += ' ' + take_word(text);
  build.build_type = take_word(text);
  build.flags = words_of(text);
  return build;
}

std::string cpu_name(const std::filesystem::path& cpuinfo) {
  std::ifstream stream(cpuinfo);
  for (std::string line; std::getline(stream, line);) {
    const std::size_t colon = line.find(':');
    if (colon == line.npos || !line.starts_with("model name")) continue;
    return trimmed(std::string_view(line).substr(colon + 1));
  }
  utsname machine{};
  return ::uname(&machine) == 0 ? machine.machine : "";
}

RunManifest manifest_of_now() {
  RunManifest manifest;
  manifest.version = KVCHECK_VERSION;
  manifest.build = parse_build(KVCHECK_BUILD_FLAGS);
  manifest.cpu = cpu_name();
  manifest.started = std::chrono::system_clock::now();
  return manifest;
}

std::string manifest_json(const RunManifest& manifest) {
  OrderedJson models = OrderedJson::array();
  for (const RunModel& model : manifest.models) {
    models.push_back({{"name", model.name}, {"sha256", model.sha256}});
  }
  OrderedJson arithmetics = OrderedJson::array();
  for (const Arithmetic arithmetic : manifest.arithmetics) {
    arithmetics.push_back(std::string(name(arithmetic)));
  }
  OrderedJson json;
  json["version"] = manifest.version;
  json["command"] = manifest.command;
  json["seed"] = fmt::format("{}", manifest.seed);  // many readers of JSON keep 53 bits only
  json["models"] = models;
  json["scalar"] = std::string(name(manifest.scalar));
  json["arithmetic"] = arithmetics;
  json["tolerance"] =
      manifest.tolerance ? OrderedJson(to_text(*manifest.tolerance)) : OrderedJson(nullptr);
  json["engine"] = manifest.engine;
  json["compiler"] = manifest.build.compiler;
  json["build_type"] = manifest.build.build_type;
  json["flags"] = manifest.build.flags;
  json["cpu"] = manifest.cpu;
  json["started_utc"] = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(manifest.started));
  // Arguments need not be UTF-8; a lost byte there is better than a lost manifest.
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + '\n';
}

}  // namespace kvcheck
