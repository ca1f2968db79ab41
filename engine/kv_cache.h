// SPDX-License-Identifier: MIT
// A flat static cache: room for every position of one sequence, allocated once, slot = position.
// Rows that hold nothing are NaN, so that reading one shows in the logits, and the memory before
// and after the rows carries a pattern that must stay.
#pragma once

#include <span>

#include "engine/block.h"
#include "engine/config.h"

namespace kvcheck {

template <Scalar T>
class KvCache {
 public:
  explicit KvCache(const Config& config);

  [[nodiscard]] int length() const { return length_; }  // rows held
  [[nodiscard]] int capacity() const { return capacity_; }
  [[nodiscard]] std::int64_t bytes(int rows) const;  // of `rows` rows, all layers, keys and values

  // The row of a slot: [kv_heads, head_size].
  [[nodiscard]] T* key(int layer, int slot) { return keys_.data() + offset(layer, slot); }
  [[nodiscard]] T* value(int layer, int slot) { return values_.data() + offset(layer, slot); }
  [[nodiscard]] const T* key(int layer, int slot) const {
    return keys_.data() + offset(layer, slot);
  }
  [[nodiscard]] const T* value(int layer, int slot) const {
    return values_.data() + offset(layer, slot);
  }
  [[nodiscard]] std::ptrdiff_t slot_stride() const { return row_; }

  void set_length(int length) { length_ = length; }  // after the rows were written
  void truncate(int length);             // forgets and poisons the rows from `length` on
  void copy_from(const KvCache& other);  // its rows; what this cache held is forgotten

  // True while the patterns around the rows are as they were laid.
  [[nodiscard]] bool guards_intact() const;
  // True while every row that is not held is still poisoned.
  [[nodiscard]] bool poison_intact() const;

 private:
  [[nodiscard]] std::ptrdiff_t offset(int layer, int slot) const {
    return kGuard + (static_cast<std::ptrdiff_t>(layer) * capacity_ + slot) * row_;
  }
  void poison(int from);

  static constexpr std::ptrdiff_t kGuard = 16;  // scalars at either end; keeps the rows aligned

  int layers_;
  int capacity_;
  std::ptrdiff_t row_;  // scalars in the K (or V) row of one slot
  int length_ = 0;
  AlignedVector<T> keys_;    // guard, [layer, slot, K/V head, head size], guard
  AlignedVector<T> values_;  // likewise
};

}  // namespace kvcheck
