// SPDX-License-Identifier: MIT
// manifest.json as a whole.
#include "reports/manifest_json.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "engine/test_support.h"

namespace kvcheck {
namespace {

RunManifest example() {
  RunManifest manifest;
  manifest.version = "0.1.0";
  manifest.command = {"kvcheck", "verify", "--seed=18446744073709551615"};
  manifest.seed = std::numeric_limits<std::uint64_t>::max();
  manifest.models = {{"chapter8", "00ff"}};
  manifest.arithmetics = {Arithmetic::row, Arithmetic::matrix};
  manifest.build = {"GNU 12.2.0", "Release", "-O3"};
  manifest.cpu = "a processor";
  manifest.started = std::chrono::system_clock::from_time_t(1'700'000'000);
  return manifest;
}

TEST(ManifestJson, holds_what_a_repetition_needs) {
  EXPECT_EQ(manifest_json(example()), R"({
  "version": "0.1.0",
  "command": [
    "kvcheck",
    "verify",
    "--seed=18446744073709551615"
  ],
  "seed": "18446744073709551615",
  "models": [
    {
      "name": "chapter8",
      "sha256": "00ff"
    }
  ],
  "scalar": "f32",
  "arithmetic": [
    "row",
    "matrix"
  ],
  "tolerance": null,
  "engine": "builtin",
  "compiler": "GNU 12.2.0",
  "build_type": "Release",
  "flags": "-O3",
  "cpu": "a processor",
  "started_utc": "2023-11-14T22:13:20Z"
}
)");
}

TEST(ManifestJson, tells_a_tolerance_that_replaces_the_default) {
  RunManifest manifest = example();
  manifest.tolerance = AbsLimit{1e-5};
  EXPECT_EQ(nlohmann::json::parse(manifest_json(manifest))["tolerance"], "abs:1e-05");
}

TEST(ManifestJson, empty_lists_stay_lists) {
  const auto json = nlohmann::json::parse(manifest_json(RunManifest{}));
  for (const char* key : {"command", "models", "arithmetic"}) {
    EXPECT_TRUE(json[key].is_array() && json[key].empty()) << key;
  }
}

TEST(ManifestJson, arguments_that_are_not_utf8_are_written) {
  RunManifest manifest = example();
  manifest.command = {"\xff"};
  EXPECT_EQ(nlohmann::json::parse(manifest_json(manifest))["command"][0], "\xEF\xBF\xBD");
}

TEST(ManifestJson, the_present_run_is_known) {
  const RunManifest manifest = manifest_of_now();
  EXPECT_EQ(manifest.version, KVCHECK_VERSION);
  EXPECT_FALSE(manifest.cpu.empty());
  EXPECT_FALSE(manifest.build.compiler.empty());
  const auto age = std::chrono::system_clock::now() - manifest.started;
  EXPECT_TRUE(age >= std::chrono::seconds(0) && age < std::chrono::hours(1));
}

TEST(ManifestJson, the_build_is_taken_apart) {
  const Build build = parse_build("GNU 12.2.0 Release  -O3 -DNDEBUG  -march=native ");
  EXPECT_EQ(build.compiler, "GNU 12.2.0");
  EXPECT_EQ(build.build_type, "Release");
  EXPECT_EQ(build.flags, "-O3 -DNDEBUG -march=native");
  EXPECT_EQ(parse_build("Clang 14.0.6").flags, "");
}

TEST(ManifestJson, the_cpu_is_the_first_one_named) {
  const TemporaryFolder folder;
  write_bytes(folder / "cpuinfo",
              "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Fast CPU @ 2 GHz \nmodel name: Slow\n");
  EXPECT_EQ(cpu_name(folder / "cpuinfo"), "Fast CPU @ 2 GHz");
  EXPECT_FALSE(cpu_name(folder / "none").empty()) << "the kind of machine";
}

}  // namespace
}  // namespace kvcheck
