// SPDX-License-Identifier: MIT
// Enumerations by name, as report files spell them: name() writes, from_name() reads.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "engine/scalar.h"
#include "verify/verdict.h"

namespace kvcheck {

// Every value of an enumeration, in the order of its declaration.
template <typename Enum>
struct ValuesOf;
template <>
struct ValuesOf<Verdict> {
  static constexpr std::array kAll{Verdict::agree, Verdict::gave_up, Verdict::broken,
                                   Verdict::diverge};
};
template <>
struct ValuesOf<Mark> {
  static constexpr std::array kAll{Mark::none,    Mark::flaky, Mark::crash, Mark::refused,
                                   Mark::widened, Mark::gated, Mark::tie};
};
template <>
struct ValuesOf<Arithmetic> {
  static constexpr std::array kAll{Arithmetic::row, Arithmetic::matrix};
};
template <>
struct ValuesOf<ScalarKind> {
  static constexpr std::array kAll{ScalarKind::f32, ScalarKind::f64};
};

template <typename Enum>
concept Named = requires {
  ValuesOf<Enum>::kAll;
};

template <Named Enum>
[[nodiscard]] std::optional<Enum> from_name(std::string_view text) {
  for (const Enum value : ValuesOf<Enum>::kAll) {
    if (name(value) == text) return value;
  }
  return std::nullopt;
}

// For messages: "one of row, matrix".
template <Named Enum>
[[nodiscard]] std::string expected_names() {
  std::string text;
  for (const Enum value : ValuesOf<Enum>::kAll) {
    text += text.empty() ? "one of " : ", ";
    text += name(value).empty() ? std::string_view("nothing") : name(value);
  }
  return text;
}

}  // namespace kvcheck
