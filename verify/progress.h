// SPDX-License-Identifier: MIT
// How far a run is, on stderr: a bar on a terminal, elsewhere a line for each model.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>

namespace kvcheck {

// Never throws: what stderr does not take is not said, and changes nothing else.
void write_stderr(std::string_view text);

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
  void wipe();

  const bool terminal_;
  std::mutex mutex_;
  std::size_t checks_ = 0;
  std::size_t done_ = 0;
  std::size_t drawn_ = 0;  // characters of the bar that stand on the line
  std::string model_;
};

}  // namespace kvcheck
