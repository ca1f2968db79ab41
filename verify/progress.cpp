// SPDX-License-Identifier: MIT
// Writing progress.
#include "verify/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "engine/echo.h"

namespace kvcheck {
namespace {

constexpr std::size_t kBarWidth = 30;

}  // namespace

void write_stderr(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

Progress::Progress() : terminal_(isatty(STDERR_FILENO) == 1) {}

void Progress::start(std::size_t checks) { checks_ = checks; }

void Progress::check(const std::string& model) {
  const std::lock_guard lock(mutex_);
  ++done_;
  if (terminal_) {
    model_ = model;
    draw();
  } else if (model != model_) {
    model_ = model;
    write_stderr(fmt::format("{}: check {} of {}\n", one_line(model), done_, checks_));
  }
}

void Progress::say(std::string_view text) {
  const std::lock_guard lock(mutex_);
  wipe();
  write_stderr(text);
  if (terminal_) draw();
}

void Progress::finish() {
  const std::lock_guard lock(mutex_);
  wipe();
}

void Progress::draw() {
  wipe();
  const std::size_t filled = checks_ == 0 ? 0 : kBarWidth * done_ / checks_;
  const std::string bar = fmt::format("[{:<{}}] {} of {} checks, {}", std::string(filled, '#'),
                                      kBarWidth, done_, checks_, one_line(model_));
  drawn_ = bar.size();
  write_stderr(bar);
}

void Progress::wipe() {
  if (drawn_ == 0) return;
  write_stderr(fmt::format("\r{}\r", std::string(drawn_, ' ')));
  drawn_ = 0;
}

}  // namespace kvcheck
