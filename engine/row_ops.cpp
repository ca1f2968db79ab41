// SPDX-License-Identifier: MIT
// Row arithmetic of the usual scalars, compiled once, here, and never contracted to fused
// operations: an inlined copy elsewhere could round differently.
#include "engine/row_ops_impl.h"

namespace kvcheck {

#define KVCHECK_INSTANTIATE(T)                            \
  template const Ops<T>& row_ops<T>();                    \
  template RotaryTable<T> rotary_table<T>(const Config&); \
  template void rotate<T>(const RotaryTable<T>&, RotaryPairs, std::span<const int>, int, View<T>);
KVCHECK_INSTANTIATE(float)
KVCHECK_INSTANTIATE(double)
KVCHECK_INSTANTIATE(long double)
#undef KVCHECK_INSTANTIATE

}  // namespace kvcheck
