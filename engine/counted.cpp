// SPDX-License-Identifier: MIT
// The counting number's functions, and the pure operations and the oracle over it.
#include "engine/counted.h"

#include <cstring>

#include "engine/error.h"
#include "engine/model_impl.h"
#include "engine/row_ops_impl.h"
#include "engine/uncached_impl.h"

namespace kvcheck {

Counted exp(Counted a) { return Counted::other(row::exponential<double>(a.value_)); }
Counted tanh(Counted a) { return Counted::other(row::hyperbolic_tangent<double>(a.value_)); }

template <>
std::int64_t row_bytes<Counted>(RowFormat format, int scalars) {
  require(format == RowFormat::native, "counting numbers are stored as they are");
  return std::int64_t{scalars} * static_cast<std::int64_t>(sizeof(Counted));
}

template <>
void encode<Counted>(RowFormat format, std::span<const Counted> row, std::byte* to) {
  require(format == RowFormat::native, "counting numbers are stored as they are");
  std::memcpy(to, row.data(), row.size_bytes());
}

template <>
void decode<Counted>(RowFormat format, const std::byte* from, std::span<Counted> row) {
  require(format == RowFormat::native, "counting numbers are stored as they are");
  std::memcpy(row.data(), from, row.size_bytes());
}

template Model<Counted> cast<Counted, float>(const Model<float>&);
template const Ops<Counted>& row_ops<Counted>();
template RotaryTable<Counted> rotary_table<Counted>(const Config&, double);
template void rotate<Counted>(const RotaryTable<Counted>&, RotaryPairs, std::span<const int>, int,
                              View<Counted>);
template class Weights<Counted>;
template class Uncached<Counted>;

}  // namespace kvcheck
