// SPDX-License-Identifier: MIT
// What faults of the verbs have in common, each piece alone.
#include "verify/fault_caches.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "engine/features.h"

namespace kvcheck {
namespace {

constexpr int kFirstToken = 1;

TEST(StoredRows, are_taken_put_and_compared_to_the_bit) {
  KvCache<float> cache(tiny_decoder({}));
  cache.set_length(2);
  std::vector<float> numbers(static_cast<std::size_t>(cache.store().row()), 1.5F);
  for (const int row : {0, 1}) cache.store().write(1, row, numbers.data(), numbers.data());
  StoredRow<float> row = row_of(cache, 1, 0);
  EXPECT_EQ(row.key, numbers);
  EXPECT_FALSE(put_row(cache, 1, 1, row));
  row.value.back() = -0.0F;
  EXPECT_TRUE(put_row(cache, 1, 1, row));
  row.value.back() = 0.0F;
  EXPECT_TRUE(put_row(cache, 1, 1, row)) << "the sign of a zero is a bit";
  EXPECT_EQ(row_of(cache, 1, 0).value, numbers) << "the other row";
}

// Turning on is what the rotation of a later position is; turning back undoes it.
TEST(StoredRows, are_turned_as_the_model_rotates) {
  const Config config = tiny_decoder({Feature::rotary});
  std::vector<double> key;
  for (int i = 0; i < config.kv_width(); ++i) key.push_back(1 + i);
  std::vector<double> expected = key;
  const int position = 3;
  rotate(*rotary_tables<double>(config)[0], config.rotary_pairs, std::span(&position, 1),
         config.head_size, View<double>{expected.data(), 1, config.kv_width(), 1});
  std::vector<double> turned = key;
  turn(turned, 0, config, position);
  EXPECT_EQ(turned, expected);
  turn(turned, 0, config, -position);
  for (std::size_t i = 0; i < key.size(); ++i) EXPECT_NEAR(turned[i], key[i], 1e-14);
}

TEST(Views, are_touched_only_where_something_changes) {
  const Config config = tiny_decoder({});
  const PlannedFeed feed{.held = 1, .tokens = 2};
  StepPlan right;
  plan_step(config, std::span(&feed, 1), right);
  StepPlan plan = right;
  change_view(plan, 1, [](SlotView&) {});
  EXPECT_EQ(plan, right);
  change_view(plan, 1, [](SlotView& view) { view.write[0] = kNowhere; });
  EXPECT_NE(plan, right);
  const auto view_of = [&](std::size_t layer) {
    return plan.views[static_cast<std::size_t>(plan.view_of_layer[layer])];
  };
  EXPECT_EQ(view_of(0), right.views[0]);
  EXPECT_EQ(view_of(1).write, (std::vector<int>{kNowhere, 2}));
}

// A sequence takes its drift along wherever its rows go, and a new one has none.
TEST(Drifts, follow_the_rows) {
  Hooks hooks;
  const auto drift = attach_drift(hooks);
  HookedEngine engine(make_builtin(tiny_model("tiny:rotary:1"), ScalarKind::f32, Arithmetic::row),
                      hooks);
  const SequenceId one = engine.open();
  const SequenceId other = engine.open();
  Logits unwanted;
  engine.feed(one, std::array{kFirstToken}, Rows::last, unwanted);
  drift->of(one) = 5;
  EXPECT_EQ(drift->of(other), 0);
  EXPECT_EQ(drift->of(engine.fork(one)), 5);
  const State state = engine.save(one);
  EXPECT_EQ(drift->of(engine.load(state)), 5);
  engine.reorder(std::array{one, other}, std::array{1, 0});
  EXPECT_EQ(drift->of(one), 0);
  EXPECT_EQ(drift->of(other), 5);
  engine.truncate(other, 0);
  EXPECT_EQ(drift->of(other), 0);
}

}  // namespace
}  // namespace kvcheck
