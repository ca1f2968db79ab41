// SPDX-License-Identifier: MIT
// Bytes of rows, counted by hand.
#include "verify/held_bytes.h"

#include <gtest/gtest.h>

#include "verify/test_faults.h"

namespace kvcheck {
namespace {

// Two layers; one sees the last 2 rows, the other all. A row has kv_width() numbers.
Config windowed_config() {
  Config config = small_config();
  config.windows = {2, 0};
  return config;
}

std::int64_t bytes_of(const CacheKind& kind, int rows, ScalarKind scalar = ScalarKind::f32) {
  return held_bytes(windowed_config(), {scalar, Arithmetic::row, kind}, rows);
}

TEST(HeldBytes, are_keys_and_values_of_every_layer) {
  const std::int64_t width = windowed_config().kv_width();
  EXPECT_EQ(bytes_of({}, 0), 0);
  EXPECT_EQ(bytes_of({}, 3), 2 * 2 * 3 * width * 4);
  EXPECT_EQ(bytes_of({}, 3, ScalarKind::f64), 2 * 2 * 3 * width * 8);
}

TEST(HeldBytes, of_every_layout_but_a_ring_are_those_of_a_flat_one) {
  for (const CacheLayout layout : {CacheLayout::growing, CacheLayout::paged,
                                   CacheLayout::padded_left, CacheLayout::padded_right}) {
    EXPECT_EQ(bytes_of({.layout = layout, .block = 2}, 3), bytes_of({}, 3));
  }
}

TEST(HeldBytes, of_a_ring_stop_growing_in_layers_with_a_window) {
  const std::int64_t width = windowed_config().kv_width();
  const CacheKind ring{.layout = CacheLayout::ring};
  EXPECT_EQ(bytes_of(ring, 2), bytes_of({}, 2));
  EXPECT_EQ(bytes_of(ring, 4), 2 * (2 + 4) * width * 4);
}

TEST(HeldBytes, of_rounded_rows_are_fewer) {
  const std::int64_t width = windowed_config().kv_width();
  EXPECT_EQ(bytes_of({.format = RowFormat::bf16}, 3), 2 * 2 * 3 * width * 2);
  EXPECT_EQ(bytes_of({.format = RowFormat::f16}, 3), 2 * 2 * 3 * width * 2);
  EXPECT_EQ(bytes_of({.format = RowFormat::int8}, 3), 2 * 2 * 3 * (width + 4));  // and a scale
}

}  // namespace
}  // namespace kvcheck
