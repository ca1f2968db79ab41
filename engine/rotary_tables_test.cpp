// SPDX-License-Identifier: MIT
// Tables are shared by all that need the same numbers, and by nobody else.
#include "engine/rotary_tables.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "engine/test_support.h"

namespace kvcheck {
namespace {

Config rotary_config() {
  Config config = tiny_config();
  config.positions = Positions::rotary;
  config.head_size = 8;
  config.context = 11;
  config.rotary_base = 1234;
  return config;
}

std::shared_ptr<const RotaryTable<double>> table_of(const Config& config,
                                                    Turning turning = Turning::forth) {
  return rotary_tables<double>(config, turning).at(0);
}

void expect_equal(const RotaryTable<double>& a, const RotaryTable<double>& b) {
  EXPECT_EQ(a.pairs, b.pairs);
  EXPECT_EQ(a.positions, b.positions);
  EXPECT_EQ(a.frequencies, b.frequencies);
  EXPECT_EQ(a.cosine, b.cosine);
  EXPECT_EQ(a.sine, b.sine);
}

TEST(RotaryTables, are_those_of_the_configuration) {
  Config config = rotary_config();
  expect_equal(*table_of(config), rotary_table<double>(config, 1234));
  EXPECT_EQ(rotary_tables<double>(config).size(), 1U);
  config.rotary_base_windowed = 50;
  const auto both = rotary_tables<double>(config);
  ASSERT_EQ(both.size(), 2U);
  expect_equal(*both[0], rotary_table<double>(config, 1234));
  expect_equal(*both[1], rotary_table<double>(config, 50));
  config.positions = Positions::alibi;
  EXPECT_TRUE(rotary_tables<double>(config).empty());
}

TEST(RotaryTables, of_the_same_numbers_are_the_same_one) {
  Config other = rotary_config();
  other.width = 7;
  other.vocabulary = 9;
  EXPECT_EQ(table_of(rotary_config()), table_of(other));
  other.head_size = 16;
  other.rotary_dimensions = 8;
  EXPECT_EQ(table_of(rotary_config()), table_of(other));
}

TEST(RotaryTables, of_other_numbers_are_others) {
  void (*const changes[])(Config&) = {
      [](Config& c) { c.rotary_base = 1235; },
      [](Config& c) { c.head_size = 6; },
      [](Config& c) { c.rotary_dimensions = 4; },
      [](Config& c) { c.context = 12; },
  };
  for (const auto& change : changes) {
    Config config = rotary_config();
    change(config);
    EXPECT_NE(table_of(config), table_of(rotary_config()));
    expect_equal(*table_of(config), rotary_table<double>(config, config.rotary_base));
  }
}

TEST(RotaryTables, turn_back_by_the_negative_angles) {
  const auto forth = table_of(rotary_config());
  const auto back = table_of(rotary_config(), Turning::back);
  EXPECT_EQ(back->cosine, forth->cosine);
  for (std::size_t i = 0; i < forth->sine.size(); ++i) EXPECT_EQ(back->sine[i], -forth->sine[i]);
  for (int i = 0; i < 4; ++i) {
    const auto pair = static_cast<std::size_t>(i);
    EXPECT_EQ(back->frequencies[pair], -forth->frequencies[pair]);
  }
}

TEST(RotaryTables, that_were_not_asked_for_lately_are_forgotten_and_computed_again) {
  Config config = rotary_config();
  const std::weak_ptr<const RotaryTable<double>> first = table_of(config);
  EXPECT_FALSE(first.expired());
  for (std::size_t i = 0; i < kRememberedTables; ++i) {
    EXPECT_FALSE(first.expired()) << i;
    config.rotary_base = 2000 + static_cast<double>(i);
    (void)table_of(config);
  }
  EXPECT_TRUE(first.expired());
  expect_equal(*table_of(rotary_config()), rotary_table<double>(rotary_config(), 1234));
}

TEST(RotaryTables, may_be_asked_for_by_several_threads) {
  constexpr int kThreads = 4;
  std::vector<RotaryTables<double>> found(kThreads);
  std::vector<std::jthread> threads;
  for (RotaryTables<double>& tables : found) {
    threads.emplace_back([&tables] {
      for (int i = 0; i < 50; ++i) {
        Config config = rotary_config();
        config.rotary_base = 3000 + i % 5;
        tables = rotary_tables<double>(config);
      }
    });
  }
  threads.clear();
  for (const RotaryTables<double>& tables : found) EXPECT_EQ(tables, found[0]);
}

}  // namespace
}  // namespace kvcheck
