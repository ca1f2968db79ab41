// SPDX-License-Identifier: MIT
// One call of the kernel for each scalar.
#include "engine/test_exponential.h"

#include "engine/row_ops_impl.h"

namespace kvcheck {

float exponential_of(float x) { return row::exponential<float>(x); }
double exponential_of(double x) { return row::exponential<double>(x); }

}  // namespace kvcheck
