// SPDX-License-Identifier: MIT
// Where a run keeps its files.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>

namespace kvcheck {

struct RunFolderRequest {
  std::optional<std::filesystem::path> out;  // the user's choice: new or empty
  std::uint64_t seed = 1;
  std::chrono::system_clock::time_point started;
  std::filesystem::path working_folder;  // empty: the current one
};

// Makes the folder. Without a choice it is kvcheck-runs/<UTC>-<seed> with -2, -3, ... where that is
// taken, and the link kvcheck-runs/latest points to it. Throws Error where it cannot be had.
[[nodiscard]] std::filesystem::path make_run_folder(const RunFolderRequest& request);

}  // namespace kvcheck
