// SPDX-License-Identifier: MIT
// A file seen in place, so that weights are read once and the file is never held a second time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace kvcheck {

// A regular file mapped for reading; every failure is an Error that names it. Nobody may shorten
// the file while it is mapped: the system then ends the program.
class MappedFile {
 public:
  MappedFile(const std::filesystem::path& path, std::int64_t bytes_max);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] const std::string& where() const { return where_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::string where_;
  std::span<const std::byte> bytes_;
};

}  // namespace kvcheck
