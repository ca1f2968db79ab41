// SPDX-License-Identifier: MIT
// A column of a CSV report: a name and the member of the row that stands under it. One table of
// columns serves writer and reader, so that a new column is a new member and a new table row.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "engine/scalar.h"
#include "verify/verdict.h"

namespace kvcheck {

// An optional member without a value is an empty cell: not applicable.
template <typename Row>
using Member =
    std::variant<std::string Row::*, std::int64_t Row::*, std::optional<std::int64_t> Row::*,
                 std::optional<std::uint64_t> Row::*, std::optional<double> Row::*, Verdict Row::*,
                 Mark Row::*, Arithmetic Row::*, ScalarKind Row::*>;

template <typename Row>
struct Column {
  std::string_view name;
  Member<Row> member;
};

}  // namespace kvcheck
