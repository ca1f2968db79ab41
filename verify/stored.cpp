// SPDX-License-Identifier: MIT
// Keeping failures in files.
#include "verify/stored.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "engine/echo.h"
#include "engine/error.h"
#include "engine/files.h"
#include "engine/sha256.h"
#include "verify/case_text.h"
#include "verify/replay.h"

namespace kvcheck {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(const fs::path& folder, const std::string& hash, const std::string& engine) {
  return folder / fmt::format("{}-{}", hash, engine);
}

}  // namespace

fs::path stored_failures_folder() { return fs::path(".kvcheck") / "failures"; }

void store_failure(const fs::path& folder, const Case& subject) {
  const fs::path into = folder_of(folder, subject.model_hash, subject.engine);
  const std::string token = to_token(subject);
  const std::string id = sha256(std::as_bytes(std::span(token))).substr(0, 16);
  const fs::path file = into / (id + ".json");
  std::error_code unknown;
  if (fs::exists(file, unknown)) return;
  make_folder(into);
  OutputFile output(file);
  output.write(to_json(subject));
  output.finish();
  output.commit();
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
    require_same_model(subject, model, path_text(file));
    cases.push_back(std::move(subject));
  }
  return cases;
}

}  // namespace kvcheck
