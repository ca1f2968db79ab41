// SPDX-License-Identifier: MIT
// Writing progress.
#include "verify/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace kvcheck {
namespace {

constexpr std::size_t kBarWidth = 30;

}  // namespace

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
    fmt::print(stderr, "{}: check {} of {}\n", model, done_, checks_);
  }
}

void Progress::say(std::string_view text) {
  const std::lock_guard lock(mutex_);
  wipe();
  fmt::print(stderr, "{}", text);
  std::fflush(stderr);
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
                                      kBarWidth, done_, checks_, model_);
  drawn_ = bar.size();
  fmt::print(stderr, "{}", bar);
  std::fflush(stderr);
}

void Progress::wipe() {
  if (drawn_ == 0) return;
  fmt::print(stderr, "\r{}\r", std::string(drawn_, ' '));
  drawn_ = 0;
}

}  // namespace kvcheck
