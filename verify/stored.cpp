// SPDX-License-Identifier: MIT
// Keeping failures in files.
#include "verify/stored.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "engine/echo.h"
#include "engine/error.h"
#include "engine/files.h"
#include "engine/generated.h"
#include "engine/model_file.h"
#include "engine/sha256.h"
#include "verify/case_text.h"
#include "verify/replay.h"

namespace kvcheck {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(const fs::path& folder, const std::string& hash, const std::string& engine) {
  return folder / fmt::format("{}-{}", hash, engine);
}

fs::path stored_file(const fs::path& folder, const Case& subject) {
  return folder_of(folder, subject.model_hash, subject.engine) / (case_id(subject) + ".json");
}

bool is_bundled(const std::string& model) {
  const std::vector<std::string> names = bundled_names();
  return std::ranges::find(names, model) != names.end();
}

// Whole or not at all.
void write_case(const fs::path& file, const Case& subject) {
  OutputFile output(file);
  output.write(to_json(subject));
  output.finish();
  output.commit();
}

}  // namespace

fs::path stored_failures_folder() { return fs::path(".kvcheck") / "failures"; }

fs::path regressions_folder() { return fs::path("fixtures") / "regressions"; }

std::string case_id(const Case& subject) {
  const std::string token = to_token(subject);
  return sha256(std::as_bytes(std::span(token))).substr(0, 16);
}

void require_no_fault(const Case& subject, std::string_view where) {
  if (subject.fault.empty()) return;
  throw bad_input({where, "case with a planted fault", "one without", subject.fault});
}

void store_failure(const fs::path& folder, const Case& subject) {
  require_no_fault(subject, "stored failures");
  const fs::path file = stored_file(folder, subject);
  std::error_code unknown;
  if (fs::exists(file, unknown)) return;
  make_folder(file.parent_path());
  write_case(file, subject);
}

bool forget_failure(const fs::path& folder, const Case& subject) {
  const fs::path file = stored_file(folder, subject);
  std::error_code error;
  const bool removed = fs::remove(file, error);
  if (error) throw bad_input({path_text(file), "cannot be removed", "a file", error.message()});
  return removed;
}

void require_promotable(const fs::path& folder, const std::string& model) {
  std::error_code unknown;
  if (!fs::is_directory(folder, unknown)) {
    throw bad_input(
        {path_text(folder), "no such folder (run it in a checkout)", "a folder", "none"});
  }
  if (!is_generated_name(model) && !is_bundled(model)) {
    throw bad_input(
        {"--promote", "a model that only this machine has", "a bundled or generated one", model});
  }
}

fs::path promote_case(const fs::path& folder, const Case& subject) {
  require_no_fault(subject, "--promote");
  require_promotable(folder, subject.model);
  fs::path file = folder / (case_id(subject) + ".json");
  std::error_code unknown;
  if (!fs::exists(file, unknown)) {
    write_case(file, subject);
  } else if (parse_case_json(read_text(file), path_text(file)) != subject) {
    throw bad_input({path_text(file), "another case of that name", "the same case", "another one"});
  }
  return file;
}

std::vector<Case> load_stored(const fs::path& folder, const ModelData& model,
                              const std::string& engine) {
  const fs::path from = folder_of(folder, short_hash(model), engine);
  std::vector<fs::path> files;
  std::error_code error;
  if (!fs::exists(from, error) && !error) return {};
  const fs::directory_iterator none;
  for (fs::directory_iterator at(from, error); !error && at != none; at.increment(error)) {
    if (at->path().extension() == ".json") files.push_back(at->path());
  }
  if (error) throw bad_input({path_text(from), "cannot be read", "a folder", error.message()});
  std::ranges::sort(files);
  std::vector<Case> cases;
  for (const fs::path& file : files) {
    Case subject = parse_case_json(read_text(file), path_text(file));
    subject.model = model.name;  // the same model may go by another name now
    require_no_fault(subject, path_text(file));
    require_same_model(subject, model, path_text(file));
    cases.push_back(std::move(subject));
  }
  return cases;
}

}  // namespace kvcheck
