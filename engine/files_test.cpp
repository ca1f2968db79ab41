// SPDX-License-Identifier: MIT
// Only regular files are read, and only complete files get their names.
#include "engine/files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <iterator>
#include <stdexcept>

#include "engine/error.h"
#include "engine/test_support.h"

namespace kvcheck {
namespace {

namespace fs = std::filesystem;

// Runs `action` as a user who may not read other users' files: root may read everything.
std::string error_as_nobody(const TemporaryFolder& folder, const std::function<void()>& action) {
  constexpr uid_t kNobody = 65534;
  const uid_t user = ::geteuid();
  const bool changed = user == 0 && ::seteuid(kNobody) == 0;
  std::string message = error_in(folder, action);
  if (changed && ::seteuid(user) != 0) throw std::runtime_error("cannot become root again");
  return message;
}

// While it lives, no file of this process grows beyond `bytes`.
class DiskFull {
 public:
  explicit DiskFull(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &limit_);
    const rlimit small{bytes, limit_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  ~DiskFull() {
    ::setrlimit(RLIMIT_FSIZE, &limit_);
    std::signal(SIGXFSZ, handler_);
  }
  DiskFull(const DiskFull&) = delete;
  DiskFull& operator=(const DiskFull&) = delete;

 private:
  void (*handler_)(int);
  rlimit limit_{};
};

std::size_t files_in(const TemporaryFolder& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()));
}

TEST(InputFile, gives_the_bytes_at_an_offset) {
  const TemporaryFolder folder;
  write_bytes(folder / "f", "abcdef");
  InputFile file(folder / "f", 6);
  EXPECT_EQ(file.size(), 6);
  std::string text(3, '?');
  file.read(3, std::as_writable_bytes(std::span(text)));
  EXPECT_EQ(text, "def");
  file.read(0, std::as_writable_bytes(std::span(text)));
  EXPECT_EQ(text, "abc");
  EXPECT_THROW(file.read(4, std::as_writable_bytes(std::span(text))), InternalError);
}

TEST(InputFile, a_missing_file_is_an_error) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_in(folder, [&] { (void)read_text(folder / "none"); }),
            "none: file, expected a readable regular file, got none");
}

TEST(InputFile, a_folder_is_an_error) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "f");
  EXPECT_EQ(error_in(folder, [&] { (void)read_text(folder / "f"); }),
            "f: file, expected a readable regular file, got a folder");
}

TEST(InputFile, special_files_are_errors_and_never_waited_for) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  fs::create_symlink("/dev/zero", folder / "zero");
  for (const char* name : {"pipe", "zero"}) {
    EXPECT_EQ(error_in(folder, [&] { (void)read_text(folder / name); }),
              std::string(name) + ": file, expected a readable regular file, got a special file");
  }
}

TEST(InputFile, a_link_to_itself_is_an_error) {
  const TemporaryFolder folder;
  fs::create_symlink("loop", folder / "loop");
  EXPECT_EQ(error_in(folder, [&] { (void)read_text(folder / "loop"); }),
            "loop: file, expected a readable regular file, got too many levels of symbolic links");
}

TEST(InputFile, a_file_of_somebody_else_is_an_error) {
  const TemporaryFolder folder;
  write_bytes(folder / "secret", "x");
  fs::permissions(folder.path(), fs::perms(0755));
  fs::permissions(folder / "secret", fs::perms::none);
  EXPECT_EQ(error_as_nobody(folder, [&] { (void)read_text(folder / "secret"); }),
            "secret: file, expected a readable regular file, got permission denied");
}

TEST(InputFile, a_file_that_claims_to_be_huge_is_not_read) {
  const TemporaryFolder folder;
  write_bytes(folder / "sparse", "x");
  fs::resize_file(folder / "sparse", 1ULL << 40);
  EXPECT_EQ(error_in(folder, [&] { (void)read_text(folder / "sparse"); }),
            "sparse: file size, expected at most 67108864 bytes, got 1099511627776 bytes");
}

TEST(InputFile, a_file_that_shrinks_meanwhile_is_an_error) {
  const TemporaryFolder folder;
  write_bytes(folder / "f", "abcdef");
  InputFile file(folder / "f", 6);
  fs::resize_file(folder / "f", 2);
  std::string text(6, '?');
  EXPECT_EQ(error_in(folder, [&] { file.read(0, std::as_writable_bytes(std::span(text))); }),
            "f: file, expected 6 bytes at offset 0, got 2");
}

TEST(FileSha256, is_over_all_blocks) {
  const TemporaryFolder folder;
  write_bytes(folder / "f", std::string(1'000'000, 'a'));
  EXPECT_EQ(file_sha256(folder / "f", 1'000'000),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(OutputFile, gets_its_name_at_commit) {
  const TemporaryFolder folder;
  OutputFile file(folder / "f");
  file.write("abc");
  file.finish();
  EXPECT_FALSE(fs::exists(folder / "f"));
  file.commit();
  EXPECT_EQ(read_bytes(folder / "f"), "abc");
  EXPECT_EQ(files_in(folder), 1U);
}

TEST(OutputFile, leaves_nothing_and_changes_nothing_without_commit) {
  const TemporaryFolder folder;
  write_bytes(folder / "f", "old");
  {
    OutputFile file(folder / "f");
    file.write("new");
    file.finish();
  }
  EXPECT_EQ(read_bytes(folder / "f"), "old");
  EXPECT_EQ(files_in(folder), 1U);
}

TEST(OutputFile, a_full_disk_is_an_error_and_leaves_nothing) {
  const TemporaryFolder folder;
  const std::string message = error_in(folder, [&] {
    OutputFile file(folder / "f");
    const DiskFull full(1000);
    file.write(std::string(100'000, 'x'));
    file.finish();
    file.commit();
  });
  EXPECT_EQ(message, "f: output, expected a place to write to, got file too large");
  EXPECT_EQ(files_in(folder), 0U);
}

TEST(OutputFile, keeps_its_first_error_until_it_is_finished) {
  const TemporaryFolder folder;
  OutputFile file(folder / "f");
  {
    const DiskFull full(1000);
    EXPECT_NO_THROW(file.write(std::string(100'000, 'x')));
  }
  EXPECT_NO_THROW(file.write("there is room again"));
  EXPECT_EQ(error_in(folder, [&] { file.finish(); }),
            "f: output, expected a place to write to, got file too large");
}

TEST(OutputFile, a_full_disk_is_noticed_for_the_last_bytes_too) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_in(folder,
                     [&] {
                       OutputFile file(folder / "f");
                       const DiskFull full(0);
                       file.write("x");  // stays in the stream's buffer until finish()
                       file.finish();
                     }),
            "f: output, expected a place to write to, got file too large");
}

TEST(OutputFile, a_missing_folder_is_an_error) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_in(folder, [&] { OutputFile file(folder / "none/f"); }),
            "none/f: output, expected a place to write to, got no such file or directory");
}

TEST(OutputFile, does_not_replace_a_folder) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "f");
  EXPECT_EQ(error_in(folder,
                     [&] {
                       OutputFile file(folder / "f");
                       file.finish();
                       file.commit();
                     }),
            "f: output, expected a place to write to, got is a directory");
  EXPECT_EQ(files_in(folder), 1U);
}

TEST(MakeFolder, a_file_in_its_way_is_an_error) {
  const TemporaryFolder folder;
  write_bytes(folder / "f", "");
  make_folder(folder / "a/b");
  EXPECT_TRUE(fs::is_directory(folder / "a/b"));
  EXPECT_EQ(error_in(folder, [&] { make_folder(folder / "f/b"); }),
            "f/b: output, expected a place to write to, got not a directory");
}

}  // namespace
}  // namespace kvcheck
