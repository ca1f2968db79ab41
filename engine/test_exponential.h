// SPDX-License-Identifier: MIT
// The exponential of row arithmetic, compiled as the library is: a test that included its kernels
// would have them without optimisation, and the whole engine with it.
#pragma once

namespace kvcheck {

[[nodiscard]] float exponential_of(float x);
[[nodiscard]] double exponential_of(double x);

}  // namespace kvcheck
