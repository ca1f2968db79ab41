// SPDX-License-Identifier: MIT
// Benches that are not in use, so that a model is prepared once a thread and not once a unit of
// work.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "verify/probes.h"

namespace kvcheck {

class BenchPool {
 public:
  BenchPool(const EngineFactory& factory, std::uint64_t seed) : factory_(factory), seed_(seed) {}

  // From any thread.
  [[nodiscard]] std::unique_ptr<Bench> take(const ModelData& model, const EngineSetup& setup);
  // Not after the engine has failed: then let it go.
  void give_back(std::unique_ptr<Bench> bench);
  // Once a model is done with: large ones do not pile up.
  void forget(const ModelData& model);

 private:
  using Key = std::tuple<const ModelData*, ScalarKind, Arithmetic, std::string>;

  [[nodiscard]] static Key key(const ModelData& model, const EngineSetup& setup);

  const EngineFactory& factory_;
  const std::uint64_t seed_;
  std::mutex mutex_;
  std::map<Key, std::vector<std::unique_ptr<Bench>>> idle_;
};

}  // namespace kvcheck
