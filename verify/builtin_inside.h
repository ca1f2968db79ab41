// SPDX-License-Identifier: MIT
// The built-in engine inside another one.
#pragma once

#include "engine/builtin.h"
#include "verify/hooked_engine.h"

namespace kvcheck {

// Whatever hooks are around it; null: there is none, or one in another scalar.
template <Scalar T>
[[nodiscard]] Builtin<T>* builtin_inside(Engine& engine) {
  Engine* inner = &engine;
  while (auto* const hooked = dynamic_cast<HookedEngine*>(inner)) inner = &hooked->inner();
  return dynamic_cast<Builtin<T>*>(inner);
}

}  // namespace kvcheck
