// SPDX-License-Identifier: MIT
// Maps regular files.
#include "engine/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "engine/echo.h"
#include "engine/error.h"
#include "engine/files.h"

namespace kvcheck {

MappedFile::MappedFile(const std::filesystem::path& path, std::int64_t bytes_max)
    : where_(path_text(path)) {
  const auto size = static_cast<std::size_t>(regular_size(path, bytes_max));
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) throw unreadable(where_, errno);
  // What is mapped beyond the end of a file is a crash when it is read.
  struct stat opened {};
  if (::fstat(file, &opened) != 0 || !S_ISREG(opened.st_mode) ||
      static_cast<std::size_t>(opened.st_size) < size) {
    ::close(file);
    throw bad_input({where_, "file", "the one that was looked at", "another one in its place"});
  }
  if (size > 0) {  // no bytes cannot be mapped
    void* const at = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    const int error = at == MAP_FAILED ? errno : 0;
    ::close(file);
    if (error != 0) throw unreadable(where_, error);
    bytes_ = {static_cast<const std::byte*>(at), size};
  } else {
    ::close(file);
  }
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace kvcheck
