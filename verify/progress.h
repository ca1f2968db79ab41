// SPDX-License-Identifier: MIT
// How far a run is, on stderr: a bar on a terminal, elsewhere a line for each model.
#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>

namespace kvcheck {

// Never throws: what stderr does not take is not said, and changes nothing else.
void write_stderr(std::string_view text);

// One line of stderr that is written over again.
class Bar {
 public:
  void draw(std::size_t done, std::size_t all, std::string_view behind);
  void wipe();

 private:
  std::size_t drawn_ = 0;  // characters that stand on the line
};

class Progress {
 public:
  Progress();

  void start(std::size_t checks);
  // A check on this model is done.
  void check(const std::string& model);
  // Something that must be seen at once; may be called from any thread.
  void say(std::string_view text);
  void finish();

 private:
  void draw();

  const bool terminal_;
  std::mutex mutex_;
  std::size_t checks_ = 0;
  std::size_t done_ = 0;
  Bar bar_;
  std::string model_;
};

// How far the one loop of a command is; nothing is said in its first second. Elsewhere than on a
// terminal there is a line each time that it has taken twice as long.
class StepProgress {
 public:
  // `what`, of many, is done `all` times; 0: nobody knows.
  StepProgress(std::string_view what, std::size_t all);
  ~StepProgress() { bar_.wipe(); }
  StepProgress(const StepProgress&) = delete;
  StepProgress& operator=(const StepProgress&) = delete;

  void at(std::size_t done);

 private:
  using Clock = std::chrono::steady_clock;

  const bool terminal_;
  const std::string what_;
  const std::size_t all_;
  const Clock::time_point start_ = Clock::now();
  Clock::duration next_ = std::chrono::seconds(1);
  Bar bar_;
};

}  // namespace kvcheck
