// SPDX-License-Identifier: MIT
// Promises are read whole or refused.
#include "engine/manifest.h"

#include <gtest/gtest.h>

#include "engine/test_support.h"

namespace kvcheck {
namespace {

const std::string kHash(64, 'a');

std::string manifest_error(const std::string& text) {
  return error_of([&] { (void)parse_manifest(text, "m"); });
}

TEST(Manifest, gives_all_promises) {
  const Manifest manifest = parse_manifest(R"({"contract": {"abs": 1e-5},
    "published": {"max_abs_difference": 3e-6, "source": "a page"},
    "files": {"model.safetensors": ")" + kHash +
                                               R"("}, "seed": {"any": ["thing", null]}})",
                                           "m");
  EXPECT_EQ(manifest.contract_abs, 1e-5);
  EXPECT_EQ(manifest.published, (Published{3e-6, "a page"}));
  EXPECT_EQ(manifest.files, (std::map<std::string, std::string>{{"model.safetensors", kHash}}));
}

TEST(Manifest, may_promise_nothing) {
  const Manifest manifest = parse_manifest("{}", "m");
  EXPECT_EQ(manifest.contract_abs, std::nullopt);
  EXPECT_EQ(manifest.published, std::nullopt);
  EXPECT_TRUE(manifest.files.empty());
}

TEST(Manifest, a_contract_of_no_difference_is_one) {
  EXPECT_EQ(parse_manifest(R"({"contract": {"abs": 0}})", "m").contract_abs, 0.0);
}

TEST(Manifest, must_be_an_object) {
  EXPECT_EQ(manifest_error("3"), "m: manifest, expected an object, got 3");
  EXPECT_EQ(manifest_error("{"),
            "m: malformed JSON at byte 2 (line 1, column 2), expected JSON, got the end of the "
            "text");
}

TEST(Manifest, a_broken_contract_is_an_error) {
  EXPECT_EQ(manifest_error(R"({"contract": 1e-5})"), "m: contract, expected an object, got 1e-05");
  EXPECT_EQ(manifest_error(R"({"contract": null})"), "m: contract, expected an object, got null");
  EXPECT_EQ(manifest_error(R"({"contract": {}})"),
            "m: contract.abs, expected a number of at least 0, got none");
  EXPECT_EQ(manifest_error(R"({"contract": {"abs": "1e-5"}})"),
            "m: contract.abs, expected a number of at least 0, got \"1e-5\"");
  EXPECT_EQ(manifest_error(R"({"contract": {"abs": -1}})"),
            "m: contract.abs, expected a number of at least 0, got -1");
  EXPECT_EQ(manifest_error(R"({"contract": {"abs": 1, "rel": 1}})"),
            "m: unknown key in contract, expected one of abs, got \"rel\"");
}

TEST(Manifest, a_broken_publication_is_an_error) {
  EXPECT_EQ(manifest_error(R"({"published": []})"), "m: published, expected an object, got []");
  EXPECT_EQ(manifest_error(R"({"published": {"source": "x"}})"),
            "m: published.max_abs_difference, expected a number of at least 0, got none");
  EXPECT_EQ(manifest_error(R"({"published": {"max_abs_difference": 1}})"),
            "m: published.source, expected a text, got none");
  EXPECT_EQ(manifest_error(R"({"published": {"max_abs_difference": 1, "source": 2}})"),
            "m: published.source, expected a text, got 2");
  EXPECT_EQ(manifest_error(R"({"published": {"max_abs_difference": 1, "source": "", "x": 1}})"),
            "m: unknown key in published, expected one of max_abs_difference, source, got \"x\"");
}

TEST(Manifest, a_broken_list_of_files_is_an_error) {
  EXPECT_EQ(manifest_error(R"({"files": ["a"]})"), "m: files, expected an object, got [\"a\"]");
  EXPECT_EQ(manifest_error(R"({"files": {"a": 1}})"),
            "m: files.a, expected 64 lower-case hex digits, got 1");
  EXPECT_EQ(manifest_error(R"({"files": {"a": "abc"}})"),
            "m: files.a, expected 64 lower-case hex digits, got \"abc\"");
  const std::string capitals(64, 'A');
  EXPECT_EQ(
      manifest_error(R"({"files": {"a": ")" + capitals + "\"}}"),
      "m: files.a, expected 64 lower-case hex digits, got \"" + capitals.substr(0, 59) + "...");
}

TEST(Manifest, lists_only_files_of_its_folder) {
  for (const std::string name : {"../secret", "/etc/passwd", "a/b", "..", ".", ""}) {
    EXPECT_EQ(manifest_error(R"({"files": {")" + name + R"(": ")" + kHash + R"("}})"),
              "m: files, expected names of files in the folder, got \"" + name + "\"");
  }
}

}  // namespace
}  // namespace kvcheck
