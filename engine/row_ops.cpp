// SPDX-License-Identifier: MIT
// Row arithmetic of the usual scalars, compiled once, here, and never contracted to fused
// operations: an inlined copy elsewhere could round differently.
#include "engine/row_ops_impl.h"

namespace kvcheck {

std::vector<long double> alibi_slopes(int heads) {
  const int power = static_cast<int>(std::bit_floor(static_cast<unsigned>(heads)));
  std::vector<long double> slopes;
  for (int h = 0; h < power; ++h) slopes.push_back(std::exp2(-8.0L * (h + 1) / power));
  for (int h = 0; h < heads - power; ++h) slopes.push_back(std::exp2(-4.0L * (2 * h + 1) / power));
  return slopes;
}

#define KVCHECK_INSTANTIATE(T)                                    \
  template const Ops<T>& row_ops<T>();                            \
  template RotaryTable<T> rotary_table<T>(const Config&, double); \
  template void rotate<T>(const RotaryTable<T>&, RotaryPairs, std::span<const int>, int, View<T>);
KVCHECK_INSTANTIATE(float)
KVCHECK_INSTANTIATE(double)
KVCHECK_INSTANTIATE(long double)
#undef KVCHECK_INSTANTIATE

}  // namespace kvcheck
