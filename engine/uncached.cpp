// SPDX-License-Identifier: MIT
// The oracle for the usual scalars.
#include "engine/uncached_impl.h"

namespace kvcheck {

template class Uncached<float>;
template class Uncached<double>;
template class Uncached<long double>;

}  // namespace kvcheck
