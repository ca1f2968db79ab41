// SPDX-License-Identifier: MIT
// Starting a process, feeding it trouble, and reading what it says.
#include "verify/test_command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <stdexcept>

#include "engine/generated.h"
#include "engine/model_file.h"

namespace kvcheck {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience{60};
constexpr int kPollMilliseconds = 2;
constexpr std::size_t kComplaintMax = 400;

struct Pipe {
  int read = -1;
  int write = -1;

  Pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    read = ends[0];
    write = ends[1];
  }
};

// In the new process, which must not come back.
[[noreturn]] void become(const std::vector<std::string>& words, const fs::path& program,
                         const fs::path& folder, const Conditions& conditions) {
  ::setpgid(0, 0);
  ::signal(SIGHUP, SIG_DFL);  // whatever runs the tests, such as nohup, may ignore it
  if (::chdir(folder.c_str()) != 0) ::_exit(126);
  const char* const path = std::getenv("PATH");
  const std::string found =
      program.parent_path().string() + ":" + (path != nullptr ? path : "/bin");
  ::setenv("PATH", found.c_str(), 1);
  if (conditions.file_bytes_max) {
    const rlimit limit{*conditions.file_bytes_max, *conditions.file_bytes_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  if (conditions.stack_bytes) {
    const rlimit limit{*conditions.stack_bytes, RLIM_INFINITY};
    ::setrlimit(RLIMIT_STACK, &limit);
  }
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  ::_exit(127);
}

void connect_streams(const Pipe& out, const Pipe& err, const Conditions& conditions) {
  ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
  const int to = conditions.out.empty() ? out.write : ::open(conditions.out.c_str(), O_WRONLY);
  ::dup2(to, STDOUT_FILENO);
  ::dup2(err.write, STDERR_FILENO);
}

// Appends what is there; false at the end of the stream.
bool read_some(int from, std::string& into) {
  std::array<char, 65536> buffer{};
  const ssize_t count = ::read(from, buffer.data(), buffer.size());
  if (count > 0) into.append(buffer.data(), static_cast<std::size_t>(count));
  return count > 0;
}

// Reads both streams to their ends, and sends the signal in between.
void attend(pid_t process, std::array<pollfd, 2> streams, const Conditions& conditions,
            CommandResult& result) {
  const auto end = Clock::now() + kPatience;
  bool sent = conditions.signal == 0;
  while (streams[0].fd >= 0 || streams[1].fd >= 0) {
    ::poll(streams.data(), streams.size(), sent ? 1000 : kPollMilliseconds);
    for (std::size_t i = 0; i < streams.size(); ++i) {
      if (streams[i].fd < 0 || streams[i].revents == 0) continue;
      if (!read_some(streams[i].fd, i == 0 ? result.out : result.err)) streams[i].fd = -1;
    }
    if (!sent && conditions.ready(result)) sent = ::kill(process, conditions.signal) == 0;
    if (Clock::now() > end) ::kill(-process, SIGKILL);
  }
}

CommandResult run_process(const std::vector<std::string>& words, const fs::path& program,
                          const fs::path& folder, const Conditions& conditions) {
  const Pipe out;
  const Pipe err;
  const pid_t process = ::fork();
  if (process < 0) throw std::runtime_error("no process");
  if (process == 0) {
    connect_streams(out, err, conditions);
    become(words, program, folder, conditions);
  }
  ::close(out.write);
  ::close(err.write);
  CommandResult result;
  attend(process, {{{out.read, POLLIN, 0}, {err.read, POLLIN, 0}}}, conditions, result);
  ::close(out.read);
  ::close(err.read);
  int status = 0;
  ::waitpid(process, &status, 0);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  return result;
}

}  // namespace

CommandResult TestCommand::run(std::string_view arguments, const Conditions& conditions) const {
  return run_words(split(arguments, ' '), conditions);
}

CommandResult TestCommand::run_words(const std::vector<std::string>& arguments,
                                     const Conditions& conditions) const {
  std::vector<std::string> words{program_.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return run_process(words, program_, folder_.path(), conditions);
}

CommandResult TestCommand::shell(const std::string& line) const {
  return run_process({"sh", "-c", line}, program_, folder_.path(), {});
}

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(at), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::string last_line(std::string_view text) {
  const std::vector<std::string> lines = split(text, '\n');
  return lines.empty() ? "" : lines.back();
}

std::vector<std::string> commands_in(std::string_view text, std::string_view beginning) {
  std::vector<std::string> found;
  for (const std::string& line : split(text, '\n')) {
    const std::string command = line.substr(std::min(line.find_first_not_of(' '), line.size()));
    if (command.starts_with(beginning)) found.push_back(command);
  }
  return found;
}

std::vector<std::string> repro_lines(std::string_view text) {
  return commands_in(text, "kvcheck repro ");
}

std::vector<std::string> files_in(const fs::path& folder) {
  std::vector<std::string> names;
  if (!fs::exists(folder)) return names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    names.push_back(entry.path().lexically_relative(folder).string());
  }
  std::ranges::sort(names);
  return names;
}

std::string everything(const CommandResult& result) {
  return fmt::format("exit code {}, signal {}\nstdout: {}\nstderr: {}", result.exit_code,
                     result.signal, result.out, result.err);
}

std::string complaint(const CommandResult& result) {
  constexpr std::string_view kBeginning = "kvcheck: ";
  const bool one_line = std::ranges::count(result.err, '\n') == 1 && result.err.ends_with('\n');
  if (result.exit_code != 2 || !result.out.empty() || !one_line ||
      !result.err.starts_with(kBeginning) || result.err.size() > kComplaintMax) {
    return everything(result);
  }
  return result.err.substr(kBeginning.size(), result.err.size() - kBeginning.size() - 1);
}

Model<float> wide_model(int vocabulary) {
  Config c = tiny_config();
  c.vocabulary = vocabulary;
  c.width = 64;
  c.query_heads = c.kv_heads = 4;
  c.head_size = 16;
  c.mlp_width = 96;
  return random_model(c, WeightScales{}, 1);
}

void save_diverging_model(const fs::path& folder) {
  save_model(folder, wide_model(11));
  write_bytes(folder / "manifest.json", R"({"contract": {"abs": 0}})");
}

}  // namespace kvcheck
