// SPDX-License-Identifier: MIT
// Signals, the clock and threads.
#include "verify/cli_process.h"

#include <fmt/format.h>
#include <sys/time.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <thread>

#include "engine/error.h"
#include "verify/threads.h"

namespace kvcheck {
namespace {

// Longer than any run; what a timer takes.
constexpr double kSecondsMax = 1e9;

std::atomic<bool> stop{false};

void request_stop(int) { stop.store(true); }

int cores() {
  const unsigned known = std::thread::hardware_concurrency();
  return known > 0 ? static_cast<int>(known) : 1;
}

}  // namespace

const std::atomic<bool>& stop_requested() { return stop; }

// Who lets a run outlive the terminal, as nohup does, has SIGHUP ignored, and so it stays.
void stop_on_signals() {
  std::signal(SIGINT, request_stop);
  std::signal(SIGTERM, request_stop);
  if (std::signal(SIGHUP, request_stop) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
}

void stop_and_wake_on_signals() {
  stop_on_signals();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    action.sa_flags &= ~SA_RESTART;
    sigaction(signal, &action, nullptr);
  }
}

void start_clock(std::optional<double> seconds) {
  if (!seconds) return;
  if (!(*seconds > 0)) return request_stop(SIGALRM);
  std::signal(SIGALRM, request_stop);
  double whole = 0;
  const double part = std::modf(std::min(*seconds, kSecondsMax), &whole);
  itimerval timer{};
  timer.it_value.tv_sec = static_cast<time_t>(whole);
  timer.it_value.tv_usec = static_cast<suseconds_t>(part * 1e6) + 1;  // 0 would be no timer at all
  setitimer(ITIMER_REAL, &timer, nullptr);
}

bool go_on(StepProgress& progress, std::size_t done) {
  progress.at(done);
  return !stop.load();
}

// Fewer threads than wanted are no reason not to run, but TBB needs one besides the first, and ends
// the process where it cannot have it.
int jobs_of(std::optional<int> asked) {
  const int wanted = asked.value_or(cores());
  const int startable = startable_threads(std::max(wanted, 2));
  if (startable < 2) {
    throw bad_input({"threads", "cannot be started", "at least one besides the first", "none"});
  }
  const int jobs = std::min(startable, wanted);
  if (jobs < wanted) {
    write_stderr(fmt::format("kvcheck: threads: cannot all be started, expected {}, got {}\n",
                             wanted, jobs));
  }
  return jobs;
}

}  // namespace kvcheck
