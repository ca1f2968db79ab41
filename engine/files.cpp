// SPDX-License-Identifier: MIT
// Reads regular files, writes files by renaming.
#include "engine/files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <system_error>
#include <vector>

#include "engine/echo.h"
#include "engine/error.h"
#include "engine/sha256.h"

namespace kvcheck {
namespace {

namespace fs = std::filesystem;

// The operating system's words, in the style of ours.
std::string reason(std::error_code code) {
  std::string text = code.message();
  if (!text.empty()) text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return text;
}

std::error_code last_error() {
  return errno == 0 ? std::make_error_code(std::errc::io_error)
                    : std::error_code(errno, std::generic_category());
}

Error unwritable(const fs::path& path, std::error_code code) {
  return bad_input({path_text(path), "output", "a place to write to", reason(code)});
}

Error unreadable(std::string_view where, const std::string& got) {
  return bad_input({where, "file", "a readable regular file", got});
}

}  // namespace

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::symlink_status(path, ignored).type() != fs::file_type::not_found;
}

std::int64_t regular_size(const fs::path& path, std::int64_t bytes_max) {
  const std::string where = path_text(path);
  std::error_code code;
  const fs::file_status status = fs::status(path, code);
  if (status.type() == fs::file_type::not_found) throw unreadable(where, "none");
  if (code) throw unreadable(where, reason(code));
  if (fs::is_directory(status)) throw unreadable(where, "a folder");
  if (!fs::is_regular_file(status)) throw unreadable(where, "a special file");
  const std::uintmax_t size = fs::file_size(path, code);
  if (code) throw unreadable(where, reason(code));
  if (size <= static_cast<std::uintmax_t>(bytes_max)) return static_cast<std::int64_t>(size);
  throw bad_input({where, "file size", fmt::format("at most {} bytes", bytes_max),
                   fmt::format("{} bytes", size)});
}

Error unreadable(std::string_view where, int error_number) {
  return unreadable(where, reason(std::error_code(error_number, std::generic_category())));
}

InputFile::InputFile(const fs::path& path, std::int64_t bytes_max)
    : where_(path_text(path)), size_(regular_size(path, bytes_max)) {
  errno = 0;
  stream_.open(path, std::ios::binary);
  if (!stream_) throw unreadable(where_, reason(last_error()));
}

void InputFile::read(std::int64_t offset, std::span<std::byte> into) {
  const auto count = static_cast<std::int64_t>(into.size());
  require(offset >= 0 && offset <= size_ && count <= size_ - offset, "read beyond a file's end");
  stream_.seekg(offset);
  stream_.read(reinterpret_cast<char*>(into.data()), count);
  if (stream_.gcount() == count) return;
  // The size was right a moment ago: somebody shortens the file, or the medium is bad.
  throw bad_input({where_, "file", fmt::format("{} bytes at offset {}", count, offset),
                   fmt::format("{}", std::max<std::int64_t>(stream_.gcount(), 0))});
}

std::string read_text(const fs::path& path) {
  InputFile file(path, kTextBytesMax);
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

std::string file_sha256(const fs::path& path, std::int64_t bytes_max) {
  InputFile file(path, bytes_max);
  Sha256 hash;
  std::vector<std::byte> block(std::size_t{1} << 16);
  for (std::int64_t at = 0; at < file.size();) {
    const auto rest = static_cast<std::size_t>(file.size() - at);
    const std::span<std::byte> part = std::span(block).first(std::min(block.size(), rest));
    file.read(at, part);
    hash.add(part);
    at += static_cast<std::int64_t>(part.size());
  }
  return hash.hex();
}

void make_folder(const fs::path& folder) {
  std::error_code code;
  fs::create_directories(folder, code);
  if (code) throw unwritable(folder, code);
}

OutputFile::OutputFile(fs::path target)
    : target_(std::move(target)),
      temporary_(target_.string() + fmt::format(".{}.tmp", ::getpid())) {
  errno = 0;
  stream_.open(temporary_, std::ios::binary | std::ios::trunc);
  check();
}

OutputFile::~OutputFile() {
  if (committed_) return;
  stream_.close();
  std::error_code ignored;  // nothing better can be done while another error is on its way
  if (fs::is_regular_file(temporary_, ignored)) fs::remove(temporary_, ignored);
}

void OutputFile::check() {
  if (!stream_ && !failed_) failed_ = last_error();
  if (failed_) throw unwritable(target_, failed_);
}

void OutputFile::write(std::span<const std::byte> bytes) {
  if (failed_) return;
  errno = 0;
  stream_.write(reinterpret_cast<const char*>(bytes.data()),
                static_cast<std::streamsize>(bytes.size()));
  if (!stream_) failed_ = last_error();
}

void OutputFile::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

void OutputFile::finish() {
  errno = 0;
  stream_.close();
  check();
}

void OutputFile::commit() {
  require(!stream_.is_open(), "a file is committed before it is finished");
  std::error_code code;
  fs::rename(temporary_, target_, code);
  if (code) throw unwritable(target_, code);
  committed_ = true;
}

}  // namespace kvcheck
