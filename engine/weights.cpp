// SPDX-License-Identifier: MIT
// Weights of the usual scalars.
#include "engine/weights_impl.h"

namespace kvcheck {

template class Weights<float>;
template class Weights<double>;
template class Weights<long double>;

}  // namespace kvcheck
