// SPDX-License-Identifier: MIT
// Where runs go, and where they refuse to go.
#include "reports/run_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/test_support.h"

namespace kvcheck {
namespace {

namespace fs = std::filesystem;

// 2023-11-14 22:13:20 UTC
RunFolderRequest request_in(const TemporaryFolder& folder) {
  RunFolderRequest request;
  request.seed = 7;
  request.started = std::chrono::system_clock::from_time_t(1'700'000'000);
  request.working_folder = folder.path();
  return request;
}

RunFolderRequest request_of(const fs::path& out) {
  RunFolderRequest request;
  request.out = out;
  return request;
}

std::string error_for(const TemporaryFolder& folder, const RunFolderRequest& request) {
  return error_in(folder, [&] { (void)make_run_folder(request); });
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(RunFolder, is_named_by_time_and_seed) {
  const TemporaryFolder folder;
  const fs::path run = make_run_folder(request_in(folder));
  EXPECT_EQ(run, folder / "kvcheck-runs/20231114T221320Z-7");
  EXPECT_TRUE(fs::is_directory(run));
}

TEST(RunFolder, latest_points_to_the_newest) {
  const TemporaryFolder folder;
  const fs::path latest = folder / "kvcheck-runs/latest";
  (void)make_run_folder(request_in(folder));
  EXPECT_EQ(fs::read_symlink(latest), "20231114T221320Z-7") << "relative: folders may be moved";
  RunFolderRequest later = request_in(folder);
  later.seed = 8;
  (void)make_run_folder(later);
  EXPECT_EQ(fs::read_symlink(latest), "20231114T221320Z-8");
  EXPECT_EQ(names_in(folder / "kvcheck-runs"),
            (std::vector<std::string>{"20231114T221320Z-7", "20231114T221320Z-8", "latest"}));
}

TEST(RunFolder, a_name_that_is_taken_gets_a_number) {
  const TemporaryFolder folder;
  (void)make_run_folder(request_in(folder));
  EXPECT_EQ(make_run_folder(request_in(folder)).filename(), "20231114T221320Z-7-2");
  write_bytes(folder / "kvcheck-runs/20231114T221320Z-7-3", "");
  const fs::path fourth = make_run_folder(request_in(folder));
  EXPECT_EQ(fourth.filename(), "20231114T221320Z-7-4") << "a file takes a name too";
  EXPECT_EQ(fs::read_symlink(folder / "kvcheck-runs/latest"), fourth.filename());
}

TEST(RunFolder, a_link_left_behind_is_replaced) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "kvcheck-runs");
  fs::create_symlink("gone", folder / "kvcheck-runs/latest");
  fs::create_symlink("gone",
                     folder / ("kvcheck-runs/latest." + std::to_string(::getpid()) + ".tmp"));
  (void)make_run_folder(request_in(folder));
  EXPECT_EQ(names_in(folder / "kvcheck-runs"),
            (std::vector<std::string>{"20231114T221320Z-7", "latest"}));
}

TEST(RunFolder, what_is_no_link_is_not_replaced) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "kvcheck-runs/latest/mine");
  EXPECT_EQ(error_for(folder, request_in(folder)),
            "kvcheck-runs/latest: link to the latest run, expected a link or nothing, got a "
            "folder");
  EXPECT_EQ(names_in(folder / "kvcheck-runs"), std::vector<std::string>{"latest"});
}

TEST(RunFolder, a_file_in_the_place_of_all_runs_is_an_error) {
  const TemporaryFolder folder;
  write_bytes(folder / "kvcheck-runs", "");
  EXPECT_EQ(error_for(folder, request_in(folder)),
            "kvcheck-runs: output, expected a place to write to, got not a directory");
}

TEST(RunFolder, the_chosen_one_is_made_with_its_parents) {
  const TemporaryFolder folder;
  EXPECT_EQ(make_run_folder(request_of(folder / "a/b/c")), folder / "a/b/c");
  EXPECT_TRUE(fs::is_directory(folder / "a/b/c"));
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"a"}) << "and nothing else";
}

TEST(RunFolder, the_chosen_one_may_be_there_but_empty) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "run");
  EXPECT_EQ(make_run_folder(request_of(folder / "run")), folder / "run");
  write_bytes(folder / "run/x", "");
  EXPECT_EQ(error_for(folder, request_of(folder / "run")),
            "run: folder is not empty, expected a new or empty folder, got 1 entry");
  write_bytes(folder / "run/y", "");
  EXPECT_EQ(error_for(folder, request_of(folder / "run")),
            "run: folder is not empty, expected a new or empty folder, got 2 entries");
}

TEST(RunFolder, the_chosen_one_must_not_be_a_file) {
  const TemporaryFolder folder;
  write_bytes(folder / "f", "");
  EXPECT_EQ(error_for(folder, request_of(folder / "f")),
            "f: output, expected a new or empty folder, got a file");
  EXPECT_EQ(error_for(folder, request_of(folder / "f/run")),
            "f/run: output, expected a place to write to, got not a directory");
}

TEST(RunFolder, the_chosen_one_must_have_a_name) {
  const TemporaryFolder folder;
  EXPECT_NE(error_for(folder, request_of("")), "no error");
}

// As a user who may not write everywhere, which root may.
std::string error_as_nobody(const TemporaryFolder& folder, const RunFolderRequest& request) {
  constexpr uid_t kNobody = 65534;
  const uid_t user = ::geteuid();
  const bool changed = user == 0 && ::seteuid(kNobody) == 0;
  std::string message = error_for(folder, request);
  if (changed && ::seteuid(user) != 0) throw std::runtime_error("cannot become root again");
  return message;
}

TEST(RunFolder, a_parent_that_cannot_be_written_is_an_error) {
  const TemporaryFolder folder;
  fs::permissions(folder.path(), fs::perms(0555));
  EXPECT_EQ(error_as_nobody(folder, request_of(folder / "run")),
            "run: output, expected a place to write to, got permission denied");
  EXPECT_EQ(error_as_nobody(folder, request_in(folder)),
            "kvcheck-runs: output, expected a place to write to, got permission denied");
  fs::permissions(folder.path(), fs::perms(0755));
}

}  // namespace
}  // namespace kvcheck
