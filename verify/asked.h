// SPDX-License-Identifier: MIT
// What a check asks of an engine, verb by verb, and the tokens that every sequence is to hold.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/port.h"

namespace kvcheck {

struct AskedStep {
  struct Sequence {
    SequenceId id = 0;
    std::vector<int> tokens = {};  // to be held after it
    int fed = 0;                   // of them, by this step
  };
  std::string what;
  std::vector<Sequence> changed = {};  // a copy is named after it was made only
  const Logits* answer = nullptr;      // to a feed, after it
  bool last_row_only = false;          // of each feed is answered
};

// One who sees every feed, copy and roll back before and after the engine does it. An exception
// passes through the engine.
class AskedWitness {
 public:
  virtual ~AskedWitness() = default;
  virtual void before(const AskedStep& step) = 0;
  virtual void after(const AskedStep& step) = 0;
  virtual void refused() = 0;  // instead of after()
  virtual void closed(SequenceId sequence) = 0;
};

// The engine, as the witness sees it. Tokens that no engine can take are not shown; verbs that only
// operations ask for (reorder, save and load, shift, evict) are not offered.
[[nodiscard]] std::unique_ptr<Engine> shown_to(AskedWitness& witness,
                                               std::unique_ptr<Engine> engine);

}  // namespace kvcheck
