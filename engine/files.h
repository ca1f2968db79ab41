// SPDX-License-Identifier: MIT
// Files read and written whole or not at all. Every failure is an Error that names the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include "engine/error.h"

namespace kvcheck {

// Most bytes of a text file (configuration, vocabulary, corpus, manifest). A sparse file can claim
// any size, so that reading one whole needs a bound.
inline constexpr std::int64_t kTextBytesMax = std::int64_t{64} << 20;

// Anything of that name counts, so that a folder called corpus.txt is an Error and not "no corpus".
[[nodiscard]] bool is_there(const std::filesystem::path& path);
// Bytes of a regular file; Error for anything else and for more than `bytes_max`.
[[nodiscard]] std::int64_t regular_size(const std::filesystem::path& path, std::int64_t bytes_max);
// What is said where the operating system refuses to open or read a file, and why.
[[nodiscard]] Error unreadable(std::string_view where, int error_number);

// A regular file opened for reading. Folders and special files are refused before they are opened:
// a pipe would wait for ever and /dev/zero never ends.
class InputFile {
 public:
  InputFile(const std::filesystem::path& path, std::int64_t bytes_max);

  [[nodiscard]] std::int64_t size() const { return size_; }
  [[nodiscard]] const std::string& where() const { return where_; }
  // Fills `into` from the bytes at `offset`; all of them must lie inside the file.
  void read(std::int64_t offset, std::span<std::byte> into);

 private:
  std::string where_;
  std::int64_t size_ = 0;
  std::ifstream stream_;
};

// A whole text file.
[[nodiscard]] std::string read_text(const std::filesystem::path& path);

// Lower-case hex digits over a whole file.
[[nodiscard]] std::string file_sha256(const std::filesystem::path& path, std::int64_t bytes_max);

// Makes a folder, and those around it, unless it is there.
void make_folder(const std::filesystem::path& folder);

// A file that gets its name only when it is complete: written under a temporary name beside it,
// finished, then renamed. Without commit() nothing stays. Finish several files before the first
// commit and they appear together or not at all, save for a crash between two renames.
class OutputFile {
 public:
  explicit OutputFile(std::filesystem::path target);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  [[nodiscard]] const std::filesystem::path& target() const { return target_; }
  // What cannot be written is an Error of finish(): whoever writes down what is found goes on
  // finding it.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  void finish();  // everything has reached the operating system
  void commit();

 private:
  void check();

  std::filesystem::path target_;
  std::filesystem::path temporary_;
  std::ofstream stream_;
  std::error_code failed_;  // the first
  bool committed_ = false;
};

}  // namespace kvcheck
