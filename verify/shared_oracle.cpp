// SPDX-License-Identifier: MIT
// Records by scalar, arithmetic and the number of bits that a cache stores; each is a map from
// tokens to rows.
#include "verify/shared_oracle.h"

#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "verify/hooked_engine.h"

namespace kvcheck {
namespace {

// What an answer depends on, as bytes.
class Key {
 public:
  Key& add(std::span<const int> numbers) {
    const auto bytes = std::as_bytes(numbers);
    // Of no numbers there may be no address.
    if (!bytes.empty()) text_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return *this;
  }
  Key& add(int number) { return add(std::span(&number, 1)); }
  Key& add(std::uint64_t number) {
    return add(static_cast<int>(number >> 32)).add(static_cast<int>(number));
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

template <typename Value>
class Answers {
 public:
  // The recorded answer, or what `compute` leaves in `out`.
  template <typename Compute>
  void get(const Key& key, Value& out, Compute compute) {
    {
      const std::shared_lock lock(mutex_);
      const auto found = answers_.find(key.text());
      if (found != answers_.end()) {
        out = found->second;
        return;
      }
    }
    compute(out);
    const std::unique_lock lock(mutex_);
    answers_.emplace(key.text(), out);
  }

 private:
  std::shared_mutex mutex_;
  std::unordered_map<std::string, Value> answers_;
};

}  // namespace

struct SharedOracle::Record {
  Answers<Logits> rows;
  Answers<std::vector<NoiseFloor>> floors;
};

struct SharedOracle::Records {
  std::mutex mutex;
  std::map<std::tuple<ScalarKind, Arithmetic, RowFormat>, Record> all;
};

namespace {

class SharingMeter final : public NoiseMeter {
 public:
  using Floors = Answers<std::vector<NoiseFloor>>;
  SharingMeter(std::unique_ptr<NoiseMeter> meter, Floors& record)
      : meter_(std::move(meter)), record_(record) {}

  // Floors that may end before they are whole say something of who asked, and are not kept.
  void floors(const TokenBlock& block, const Logits& uncached, std::uint64_t seed,
              std::vector<NoiseFloor>& out, const EnoughFloors& enough) override {
    if (enough) return meter_->floors(block, uncached, seed, out, enough);
    Key key;
    key.add(seed).add(block.sequences).add(uncached.rows()).add(block.tokens);
    record_.get(key, out, [&](auto& to) { meter_->floors(block, uncached, seed, to); });
  }
  void floors(std::span<const LoggedRow> log, const Logits& uncached, std::uint64_t seed,
              std::vector<NoiseFloor>& out, const EnoughFloors& enough) override {
    meter_->floors(log, uncached, seed, out, enough);
  }

 private:
  const std::unique_ptr<NoiseMeter> meter_;
  Floors& record_;
};

}  // namespace

SharedOracle::SharedOracle() : records_(std::make_unique<Records>()) {}
SharedOracle::~SharedOracle() = default;

SharedOracle::Record& SharedOracle::of(const EngineSetup& setup) {
  const std::lock_guard lock(records_->mutex);
  return records_->all[{setup.scalar, setup.arithmetic, setup.cache.format}];
}

EngineFactory SharedOracle::around(EngineFactory factory) {
  return [this, factory = std::move(factory)](const ModelData& model, const EngineSetup& setup) {
    Record& record = of(setup);
    Hooks hooks;
    hooks.full = [&record](Engine& inner, const TokenBlock& block, Rows rows, Logits& out) {
      Key key;
      key.add(block.sequences).add(static_cast<int>(rows)).add(block.tokens);
      record.rows.get(key, out, [&](Logits& to) { inner.full(block, rows, to); });
    };
    return std::make_unique<HookedEngine>(factory(model, setup), std::move(hooks));
  };
}

std::unique_ptr<NoiseMeter> SharedOracle::around(std::unique_ptr<NoiseMeter> meter,
                                                 const EngineSetup& setup) {
  return std::make_unique<SharingMeter>(std::move(meter), of(setup).floors);
}

}  // namespace kvcheck
