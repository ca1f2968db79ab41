// SPDX-License-Identifier: MIT
// Rotary tables that decoders share. A table takes longer to compute than a short sequence to run,
// and depends on a few numbers of a configuration only, so the last ones are remembered.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/ops.h"

namespace kvcheck {

template <Scalar T>
using RotaryTables = std::vector<std::shared_ptr<const RotaryTable<T>>>;  // [rotary bases]

enum class Turning { forth, back };  // by the angles of a table, or by their negatives

// Tables that are remembered for each scalar: a run has models of about twenty shapes at once. The
// largest one, of 8,192 positions, takes 128 KiB a pair in double.
inline constexpr std::size_t kRememberedTables = 32;

namespace rotary {

// Everything that the numbers of a table depend on.
struct Key {
  double base;
  int dimensions;
  std::vector<double> divisors;
  int positions;
  Turning turning;

  bool operator==(const Key&) const = default;
};

template <Scalar T>
RotaryTable<T> turned_back(RotaryTable<T> table) {
  for (long double& frequency : table.frequencies) frequency = -frequency;
  for (T& sine : table.sine) sine = -sine;
  return table;
}

template <Scalar T>
class Memory {
 public:
  static Memory& of_all_threads() {
    static Memory memory;
    return memory;
  }

  // The table of that key, which make() computes if it is not known.
  template <typename Make>
  std::shared_ptr<const RotaryTable<T>> find(const Key& key, Make make) {
    const std::lock_guard lock(mutex_);
    const auto known = std::find_if(entries_.begin(), entries_.end(),
                                    [&](const Entry& entry) { return entry.key == key; });
    if (known != entries_.end()) {
      std::rotate(entries_.begin(), known, known + 1);  // the last one asked for first
    } else {
      if (entries_.size() == kRememberedTables) entries_.pop_back();
      entries_.insert(entries_.begin(), {key, std::make_shared<const RotaryTable<T>>(make())});
    }
    return entries_.front().table;
  }

 private:
  struct Entry {
    Key key;
    std::shared_ptr<const RotaryTable<T>> table;
  };
  std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace rotary

// The tables of config.rotary_bases(): none where nothing rotates. Safe to call from any thread.
template <Scalar T>
[[nodiscard]] RotaryTables<T> rotary_tables(const Config& config,
                                            Turning turning = Turning::forth) {
  RotaryTables<T> tables;
  for (const double base : config.rotary_bases()) {
    const rotary::Key key{base, config.rotated(), config.rotary_divisors,
                          std::min(config.context, kRotaryPositionsMax), turning};
    tables.push_back(rotary::Memory<T>::of_all_threads().find(key, [&] {
      RotaryTable<T> table = rotary_table<T>(config, base);
      return turning == Turning::forth ? table : rotary::turned_back(std::move(table));
    }));
  }
  return tables;
}

}  // namespace kvcheck
