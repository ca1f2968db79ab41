// SPDX-License-Identifier: MIT
// Runs kvcheck as a user would: as a process, in a working folder of its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model.h"
#include "engine/test_support.h"

namespace kvcheck {

struct CommandResult {
  int exit_code = -1;  // -1: a signal ended it
  int signal = 0;      // that ended it; SIGKILL also after a minute without an end
  std::string out;
  std::string err;
};

// What may be different from everyday life.
struct Conditions {
  std::filesystem::path out = {};                    // takes stdout, which is then not captured
  std::optional<std::uint64_t> file_bytes_max = {};  // no file can grow beyond
  std::optional<std::uint64_t> stack_bytes = {};     // of each thread
  int signal = 0;                                    // sent once, when `ready` says so
  std::function<bool(const CommandResult& so_far)> ready = {};
};

class TestCommand {
 public:
  explicit TestCommand(std::filesystem::path program) : program_(std::move(program)) {}

  [[nodiscard]] std::filesystem::path operator/(std::string_view name) const {
    return folder_ / name;
  }
  // With the arguments that single blanks separate.
  CommandResult run(std::string_view arguments, const Conditions& conditions = {}) const;
  CommandResult run_words(const std::vector<std::string>& arguments,
                          const Conditions& conditions = {}) const;
  // What somebody does who pastes the line into a shell that finds the program.
  [[nodiscard]] CommandResult shell(const std::string& line) const;

 private:
  std::filesystem::path program_;
  TemporaryFolder folder_;
};

// `text` cut at every `at`; nothing behind the last one is no part.
[[nodiscard]] std::vector<std::string> split(std::string_view text, char at);
// The last line; empty without one.
[[nodiscard]] std::string last_line(std::string_view text);
// The lines that are a command of the given beginning, without the blanks before it.
[[nodiscard]] std::vector<std::string> commands_in(std::string_view text,
                                                   std::string_view beginning);
[[nodiscard]] std::vector<std::string> repro_lines(std::string_view text);
// Names of everything inside a folder and its folders, sorted; empty where there is no folder.
[[nodiscard]] std::vector<std::string> files_in(const std::filesystem::path& folder);

// The message of a process that refused its input as it should: exit code 2, nothing on stdout, one
// short line on stderr. Else all that it did.
[[nodiscard]] std::string complaint(const CommandResult& result);
[[nodiscard]] std::string everything(const CommandResult& result);

// Wide enough that a row alone and a block are added up in different orders in matrix arithmetic,
// whatever the processor; `vocabulary` x 4 tokens of context.
[[nodiscard]] Model<float> wide_model(int vocabulary);
// A model folder of it that promises bits which agree: every run on it diverges.
void save_diverging_model(const std::filesystem::path& folder);

}  // namespace kvcheck
