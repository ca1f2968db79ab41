// SPDX-License-Identifier: MIT
// What the oracle answers, and how large its noise floors are, kept from one engine to the next.
// Both depend on the model and the tokens alone: faults are planted in the cached decoder, so
// hundreds of faulty engines are measured against the same rows.
#pragma once

#include <memory>

#include "verify/probes.h"

namespace kvcheck {

// Of one model. May be used from any thread.
class SharedOracle {
 public:
  SharedOracle();
  ~SharedOracle();
  SharedOracle(const SharedOracle&) = delete;
  SharedOracle& operator=(const SharedOracle&) = delete;

  // Engines of `factory` whose full forwards are recorded, and answered from the record.
  [[nodiscard]] EngineFactory around(EngineFactory factory);
  // Floors of blocks are recorded likewise; those of logs are measured each time. `setup` is that
  // of the meter.
  [[nodiscard]] std::unique_ptr<NoiseMeter> around(std::unique_ptr<NoiseMeter> meter,
                                                   const EngineSetup& setup);

 private:
  struct Record;
  [[nodiscard]] Record& of(const EngineSetup& setup);

  struct Records;
  const std::unique_ptr<Records> records_;
};

}  // namespace kvcheck
