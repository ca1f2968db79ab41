// SPDX-License-Identifier: MIT
// Makes the folder of a run and the link to the latest one.
#include "reports/run_folder.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <iterator>
#include <string>
#include <system_error>

#include "engine/echo.h"
#include "engine/error.h"
#include "engine/files.h"

namespace kvcheck {
namespace {

namespace fs = std::filesystem;

// Runs of one second with one seed; more are no accident.
constexpr int kNamesakesMax = 1000;

Error unusable(const fs::path& path, std::string_view what, std::error_code code) {
  return bad_input({path_text(path), what, "a place to write to", code.message()});
}

fs::path chosen_folder(const fs::path& folder) {
  std::error_code code;
  const fs::file_status status = fs::status(folder, code);
  if (fs::exists(status) && !fs::is_directory(status)) {
    throw bad_input({path_text(folder), "output", "a new or empty folder", "a file"});
  }
  make_folder(folder);
  const fs::directory_iterator entries(folder, code);
  if (code) throw unusable(folder, "output folder", code);
  if (const auto count = std::distance(begin(entries), end(entries)); count > 0) {
    throw bad_input({path_text(folder), "folder is not empty", "a new or empty folder",
                     fmt::format("{} {}", count, count == 1 ? "entry" : "entries")});
  }
  return folder;
}

fs::path named_folder(const fs::path& runs, const std::string& name) {
  for (int i = 1; i <= kNamesakesMax; ++i) {
    fs::path folder = runs / (i == 1 ? name : fmt::format("{}-{}", name, i));
    std::error_code code;
    // Making it tells at once whether it was there, also when another run starts just now.
    if (fs::create_directory(folder, code)) return folder;
    if (code && code != std::errc::file_exists) throw unusable(folder, "output", code);
  }
  throw bad_input({path_text(runs / name), "output", "a name that is not taken",
                   fmt::format("{} folders of this name", kNamesakesMax)});
}

// Renaming would not replace a folder, and the run's own would be there already.
void require_no_folder(const fs::path& link) {
  std::error_code ignored;
  if (!fs::is_directory(fs::symlink_status(link, ignored))) return;
  throw bad_input({path_text(link), "link to the latest run", "a link or nothing", "a folder"});
}

// A reader finds the link pointing to the old folder or to the new one, never missing.
void point_to(const fs::path& link, const fs::path& target) {
  const fs::path temporary = link.string() + fmt::format(".{}.tmp", ::getpid());
  std::error_code code;
  fs::remove(temporary, code);
  fs::create_symlink(target, temporary, code);
  if (code) throw unusable(link, "link", code);
  fs::rename(temporary, link, code);
  if (!code) return;
  std::error_code ignored;  // the renaming's error tells more
  fs::remove(temporary, ignored);
  throw unusable(link, "link", code);
}

}  // namespace

fs::path make_run_folder(const RunFolderRequest& request) {
  if (request.out) return chosen_folder(*request.out);
  const fs::path runs = request.working_folder / "kvcheck-runs";
  require_no_folder(runs / "latest");
  make_folder(runs);
  const std::string name =
      fmt::format("{:%Y%m%dT%H%M%SZ}-{}", fmt::gmtime(request.started), request.seed);
  fs::path folder = named_folder(runs, name);
  point_to(runs / "latest", folder.filename());
  return folder;
}

}  // namespace kvcheck
