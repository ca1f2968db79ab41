// SPDX-License-Identifier: MIT
// Activations of several rows at once. Stored feature by feature, [features][rows], so that work on
// a block runs along the rows, and a single row is simply contiguous.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <span>
#include <vector>

#include "engine/scalar.h"

namespace kvcheck {

// A window onto activations; T may be const.
template <typename T>
struct View {
  T* data = nullptr;
  int rows = 0;
  int features = 0;
  std::ptrdiff_t stride = 0;  // from one feature to the next

  [[nodiscard]] T* feature(int f) const { return data + f * stride; }
  [[nodiscard]] View rows_from(int first, int count) const {
    return {data + first, count, features, stride};
  }
  [[nodiscard]] View features_from(int first, int count) const {
    return {feature(first), rows, count, stride};
  }
  // Without a cast, as pointers do.
  operator View<const T>() const { return {data, rows, features, stride}; }
};

// Memory whose address never depends on the allocator's mood: sums that Eigen starts at an aligned
// address would otherwise differ from run to run.
template <typename T>
using AlignedVector = std::vector<T, Eigen::aligned_allocator<T>>;

// Owns activations; reshaping keeps the memory and leaves the contents undefined.
template <Scalar T>
class Block {
 public:
  View<T> reshape(int rows, int features) {
    const auto size = static_cast<std::size_t>(rows) * static_cast<std::size_t>(features);
    if (storage_.size() < size) storage_.resize(size);
    view_ = {storage_.data(), rows, features, rows};
    return view_;
  }
  [[nodiscard]] View<T> view() { return view_; }
  [[nodiscard]] View<const T> view() const { return view_; }

 private:
  AlignedVector<T> storage_;
  View<T> view_;
};

// Logits, one row a token: [row, vocabulary].
template <typename T>
struct LogitRows {
  int vocabulary = 0;
  std::vector<T> values;

  [[nodiscard]] int rows() const {
    if (vocabulary == 0) return 0;
    return static_cast<int>(values.size() / static_cast<std::size_t>(vocabulary));
  }
  [[nodiscard]] std::span<const T> row(int r) const {
    const auto width = static_cast<std::size_t>(vocabulary);
    return std::span<const T>(values).subspan(static_cast<std::size_t>(r) * width, width);
  }
};

// Copies a block of logits into rows.
template <typename T, typename U>
void copy_rows(View<T> from, LogitRows<U>& to) {
  to.vocabulary = from.features;
  to.values.resize(static_cast<std::size_t>(from.rows) * static_cast<std::size_t>(from.features));
  for (int f = 0; f < from.features; ++f) {
    U* at = to.values.data() + f;
    for (int r = 0; r < from.rows; ++r, at += from.features)
      *at = static_cast<U>(from.feature(f)[r]);
  }
}

// Which rows of a feed, or of a full forward, are answered with logits.
enum class Rows { all, last };

}  // namespace kvcheck
