// SPDX-License-Identifier: MIT
// Writing progress.
#include "verify/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "engine/echo.h"
#include "engine/text_width.h"

namespace kvcheck {
namespace {

constexpr std::size_t kBarWidth = 30;
constexpr std::chrono::milliseconds kRedraw{100};

std::string how_far(std::size_t done, std::size_t all, std::string_view what) {
  if (all == 0) return fmt::format("{} {}", done, what);
  return fmt::format("{} of {} {}", done, all, what);
}

bool on_terminal() { return isatty(STDERR_FILENO) == 1; }

}  // namespace

void write_stderr(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

Progress::Progress() : terminal_(on_terminal()) {}

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
  bar_.wipe();
  write_stderr(text);
  if (terminal_) draw();
}

void Progress::finish() {
  const std::lock_guard lock(mutex_);
  bar_.wipe();
}

void Progress::draw() { bar_.draw(done_, checks_, fmt::format("checks, {}", one_line(model_))); }

void Bar::draw(std::size_t done, std::size_t all, std::string_view behind) {
  wipe();
  const std::size_t filled = all == 0 ? 0 : kBarWidth * done / all;
  const std::string bar =
      fmt::format("[{:<{}}] {}", std::string(filled, '#'), kBarWidth, how_far(done, all, behind));
  drawn_ = text_width(bar);
  write_stderr(bar);
}

void Bar::wipe() {
  if (drawn_ == 0) return;
  write_stderr(fmt::format("\r{}\r", std::string(drawn_, ' ')));
  drawn_ = 0;
}

StepProgress::StepProgress(std::string_view what, std::size_t all)
    : terminal_(on_terminal()), what_(what), all_(all) {}

void StepProgress::at(std::size_t done) {
  const Clock::duration taken = Clock::now() - start_;
  if (taken < next_) return;
  if (terminal_) {
    next_ = taken + kRedraw;
    bar_.draw(done, all_, what_);
  } else {
    next_ = 2 * taken;
    write_stderr(how_far(done, all_, what_) + "\n");
  }
}

}  // namespace kvcheck
