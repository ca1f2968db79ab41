// SPDX-License-Identifier: MIT
// Random sequences of cache operations, valid by construction and drawn towards the lengths at
// which caches fail.
#pragma once

#include <rapidcheck.h>

#include <cstdint>
#include <iosfwd>

#include "verify/operation_space.h"
#include "verify/operations.h"

namespace kvcheck {

// At most `operations_max` operations, about four fifths of them on average, over at most
// `live_max` open sequences; the first one is an open. Half of all amounts make a length hit an
// edge of a window, a block or the context. Does not depend on the size; shrinks as each_simpler()
// says.
[[nodiscard]] rc::Gen<Operations> any_operations(const OperationSpace& space);

// Case `index` of run `seed`, whatever was drawn before, in whatever thread: nothing outside of the
// arguments is read.
[[nodiscard]] Operations random_operations(const OperationSpace& space, std::uint64_t seed,
                                           std::uint64_t index);

// How a counterexample shows it: as to_text().
std::ostream& operator<<(std::ostream& out, const Operation& operation);

}  // namespace kvcheck
