// SPDX-License-Identifier: MIT
// Memory for K/V rows: for every layer some slots, each with room for one key row and one value
// row. Slots that hold nothing are NaN, so that reading one shows in the logits, and the memory
// before and after the rows carries a pattern that must stay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/block.h"
#include "engine/row_format.h"

namespace kvcheck {

template <Scalar T>
class KvStore {
 public:
  // `slots` of each layer, rows of `row` scalars: [kv_heads, head_size].
  KvStore(std::vector<int> slots, int row, RowFormat format);

  [[nodiscard]] int layers() const { return static_cast<int>(slots_.size()); }
  [[nodiscard]] int slots(int layer) const { return slots_[static_cast<std::size_t>(layer)]; }
  [[nodiscard]] int row() const { return row_; }
  [[nodiscard]] RowFormat format() const { return format_; }
  // Of the key and the value row of one slot, as they are stored.
  [[nodiscard]] std::int64_t row_bytes() const;

  // Where a slot's rows lie; they are numbers in the native format only, else their encoding.
  [[nodiscard]] T* key(int layer, int slot) { return keys_.data() + offset(layer, slot); }
  [[nodiscard]] T* value(int layer, int slot) { return values_.data() + offset(layer, slot); }
  [[nodiscard]] const T* key(int layer, int slot) const {
    return keys_.data() + offset(layer, slot);
  }
  [[nodiscard]] const T* value(int layer, int slot) const {
    return values_.data() + offset(layer, slot);
  }
  [[nodiscard]] std::ptrdiff_t stride() const { return stride_; }  // from one slot to the next

  void write(int layer, int slot, const T* key, const T* value);
  void read(int layer, int slot, T* key, T* value) const;
  // `count` slots from another store of the same rows, or from this one; they may overlap.
  void copy(const KvStore& from, int layer, int from_slot, int to_slot, int count);
  void poison(int layer, int first, int count);
  [[nodiscard]] bool poisoned(int layer, int first, int count) const;
  // True if a key and a value were written there and not forgotten.
  [[nodiscard]] bool holds(int layer, int slot) const;
  // More slots at the end of the layers; the rows keep their slots.
  void grow(const std::vector<int>& slots);

  // True while the patterns around the rows are as they were laid.
  [[nodiscard]] bool guards_intact() const;

 private:
  [[nodiscard]] std::ptrdiff_t offset(int layer, int slot) const {
    return kGuard + (first_[static_cast<std::size_t>(layer)] + slot) * stride_;
  }
  void lay_out(const std::vector<int>& slots);

  static constexpr std::ptrdiff_t kGuard = 16;  // scalars at either end; keeps the rows aligned

  int row_;
  RowFormat format_;
  std::ptrdiff_t stride_;              // scalars of memory that one row takes
  std::vector<int> slots_;             // [layers]
  std::vector<std::ptrdiff_t> first_;  // [layers]: slots before those of the layer
  AlignedVector<T> keys_;              // guard, [layer, slot, row], guard
  AlignedVector<T> values_;            // likewise
};

}  // namespace kvcheck
