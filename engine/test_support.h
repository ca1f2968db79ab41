// SPDX-License-Identifier: MIT
// What the tests of this folder share: temporary folders, small models, the text of an Error.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "engine/model.h"

namespace kvcheck {

// A new folder, removed with everything in it at the end of the test.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path operator/(std::string_view name) const {
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

void write_bytes(const std::filesystem::path& path, std::string_view bytes);
[[nodiscard]] std::string read_bytes(const std::filesystem::path& path);

// The message of the Error that `action` throws; other exceptions pass. "no error" without one.
[[nodiscard]] std::string error_of(const std::function<void()>& action);

// As error_of, with the folder's path taken out: "<folder>/config.json: ..." as
// "config.json: ...".
[[nodiscard]] std::string error_in(const TemporaryFolder& folder,
                                   const std::function<void()>& action);

// `text` with the first `from` replaced; throws if there is none, so that no test tests nothing.
[[nodiscard]] std::string replaced(std::string text, const std::pair<std::string, std::string>& by);

// 11 numbers in ten tensors: one layer of width 1, two words.
[[nodiscard]] Config tiny_config();

// Every choice of a configuration drawn from `seed`, dimensions of a few.
[[nodiscard]] Config random_config(std::uint64_t seed);

// Any finite weights: subnormals, both zeros and the largest numbers among them.
[[nodiscard]] Model<float> random_model(const Config& config, std::uint64_t seed);

// The weights' bits, for comparisons that tell -0 from 0.
[[nodiscard]] std::string weight_bits(const Model<float>& model);

}  // namespace kvcheck
