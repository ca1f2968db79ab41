// SPDX-License-Identifier: MIT
// What one sequence holds: its K/V rows in a store, of its own or shared with others, the slot and
// the position of each. A row is counted from the oldest one that is held.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "engine/config.h"
#include "engine/kv_store.h"

namespace kvcheck {

template <Scalar T>
class KvCache {
 public:
  // Flat: a store of its own with a slot for every position of the context, slot = row.
  explicit KvCache(const Config& config);
  // Rows in this store; layers with a ring hold their row r in slot r modulo rings[layer]. No
  // rings, or 0: slot = row, unless slots are given.
  KvCache(std::shared_ptr<KvStore<T>> store, std::vector<int> rings);

  [[nodiscard]] int length() const { return length_; }  // rows held
  [[nodiscard]] int capacity() const;                   // slots of a layer without a ring
  [[nodiscard]] int next_position() const { return next_position_; }
  [[nodiscard]] std::int64_t bytes(int rows) const;  // of `rows` rows, all layers, keys and values

  // Of the rows that are held and of those that have a slot reserved; empty: slot = row.
  [[nodiscard]] std::span<const int> slots() const { return slots_; }
  // Of the rows that are held; empty: position = row.
  [[nodiscard]] std::span<const int> positions() const { return positions_; }
  [[nodiscard]] std::span<const int> rings() const { return rings_; }  // [layers], or empty
  [[nodiscard]] int slot(int layer, int row) const;
  [[nodiscard]] int position(int row) const;

  [[nodiscard]] KvStore<T>& store() { return *store_; }
  [[nodiscard]] const KvStore<T>& store() const { return *store_; }
  [[nodiscard]] T* key(int layer, int slot) { return store_->key(layer, slot); }
  [[nodiscard]] T* value(int layer, int slot) { return store_->value(layer, slot); }
  [[nodiscard]] const T* key(int layer, int slot) const { return store().key(layer, slot); }
  [[nodiscard]] const T* value(int layer, int slot) const { return store().value(layer, slot); }
  [[nodiscard]] std::ptrdiff_t slot_stride() const { return store_->stride(); }

  void set_length(int length);  // after the rows were written
  // Reserves slots for further rows.
  void reserve(std::span<const int> slots) {
    slots_.insert(slots_.end(), slots.begin(), slots.end());
  }
  // Gives the rows other slots, held and reserved ones.
  void place(std::vector<int> slots) { slots_ = std::move(slots); }
  // Rows that are held get other positions.
  void renumber(std::vector<int> positions, int next_position);

  // The blocks, or the lane of a batch, that the slots lie in; kept by whoever shares the store
  // out.
  [[nodiscard]] std::vector<int>& places() { return places_; }
  [[nodiscard]] const std::vector<int>& places() const { return places_; }
  // The tokens of the rows, where somebody has a use for them; none once rows were dropped or
  // renumbered.
  [[nodiscard]] std::vector<int>& tokens() { return tokens_; }
  [[nodiscard]] const std::vector<int>& tokens() const { return tokens_; }
  // Holds the rows that another cache of the same store holds.
  void assume(const KvCache& other);

  // The oldest row that a layer still holds: 0 without a ring.
  [[nodiscard]] int oldest_row(int layer) const;
  [[nodiscard]] bool numbered() const { return numbered_; }  // positions are other than rows
  // Most rows held since there were none: what rings have overwritten.
  [[nodiscard]] int peak() const { return peak_; }
  void set_peak(int peak) { peak_ = peak; }

  // Forgets the rows from `length` on, and their slots. What lies in the store is left as it is.
  void forget(int length);
  // True if what a ring overwrote is not needed to go on from `length` rows.
  [[nodiscard]] bool can_go_back(int length) const;

  // ---- For a store of its own

  void truncate(int length);             // forgets and poisons the rows from `length` on
  void copy_from(const KvCache& other);  // its rows; what this cache held is forgotten
  // True while the patterns around the rows are as they were laid.
  [[nodiscard]] bool guards_intact() const { return store_->guards_intact(); }
  // True while every slot that holds no row is still poisoned.
  [[nodiscard]] bool poison_intact() const;

 private:
  [[nodiscard]] int ring(int layer) const {
    return rings_.empty() ? 0 : rings_[static_cast<std::size_t>(layer)];
  }
  // The oldest row that a layer with a ring still holds.
  [[nodiscard]] int oldest(int ring) const { return std::max(0, peak_ - ring); }
  void poison(int layer, int from);
  [[nodiscard]] bool poison_intact(int layer) const;

  std::shared_ptr<KvStore<T>> store_;
  std::vector<int> rings_;
  int length_ = 0;
  int next_position_ = 0;
  int peak_ = 0;
  std::vector<int> slots_;
  bool numbered_ = false;
  std::vector<int> positions_;
  std::vector<int> places_;
  std::vector<int> tokens_;
};

// Tokens for one sequence. Feeding several at once is a batch: the products run over all rows
// together, the attention of each row sees its own cache only.
template <Scalar T>
struct CacheFeed {
  KvCache<T>* cache;
  std::span<const int> tokens;
  int reused = 0;  // rows that prefix reuse provided before them in this step
};

}  // namespace kvcheck
