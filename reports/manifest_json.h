// SPDX-License-Identifier: MIT
// manifest.json: what was run, on what and by whom, written before the first case so that a run
// that is killed can be repeated too.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/scalar.h"
#include "verify/tolerance.h"

namespace kvcheck {

// Rounding, and with it every difference that a report shows, depends on these.
struct Build {
  std::string compiler;    // "GNU 12.2.0"
  std::string build_type;  // "Release"
  std::string flags;
};

struct RunModel {
  std::string name;
  std::string sha256;
};

struct RunManifest {
  std::string version;
  std::vector<std::string> command;  // program and arguments
  std::uint64_t seed = 1;
  std::vector<RunModel> models;
  ScalarKind scalar = ScalarKind::f32;
  std::vector<Arithmetic> arithmetics;
  std::optional<Policy> tolerance;  // none: every model's default
  std::string engine = "builtin";
  Build build;
  std::string cpu;
  std::chrono::system_clock::time_point started;
};

// A manifest with all that is known before the command line is read: version, build, CPU, time.
[[nodiscard]] RunManifest manifest_of_now();

// `text` is compiler, its version, build type and flags, separated by blanks.
[[nodiscard]] Build parse_build(std::string_view text);
// The first model name in a file like /proc/cpuinfo, else the kind of machine.
[[nodiscard]] std::string cpu_name(const std::filesystem::path& cpuinfo = "/proc/cpuinfo");

[[nodiscard]] std::string manifest_json(const RunManifest& manifest);

}  // namespace kvcheck
