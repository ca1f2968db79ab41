// SPDX-License-Identifier: MIT
// Every name that is written is read back.
#include "reports/names.h"

#include <gtest/gtest.h>

#include <set>

namespace kvcheck {
namespace {

template <Named Enum>
void expect_names_lead_back() {
  std::set<std::string_view> names;
  for (const Enum value : ValuesOf<Enum>::kAll) {
    EXPECT_EQ(from_name<Enum>(name(value)), value);
    EXPECT_NE(name(value), "?");
    EXPECT_TRUE(names.insert(name(value)).second) << name(value);
  }
}

TEST(Names, lead_back_to_their_values) {
  expect_names_lead_back<Verdict>();
  expect_names_lead_back<Mark>();
  expect_names_lead_back<Arithmetic>();
  expect_names_lead_back<ScalarKind>();
}

TEST(Names, other_words_are_none) {
  EXPECT_EQ(from_name<Verdict>("Agree"), std::nullopt);
  EXPECT_EQ(from_name<Verdict>(""), std::nullopt);
  EXPECT_EQ(from_name<ScalarKind>("f16"), std::nullopt);
}

TEST(Names, are_listed_for_messages) {
  EXPECT_EQ(expected_names<Verdict>(), "one of agree, gave-up, broken, diverge");
  EXPECT_EQ(expected_names<Mark>(), "one of nothing, flaky, crash, refused, widened, gated, tie");
}

}  // namespace
}  // namespace kvcheck
