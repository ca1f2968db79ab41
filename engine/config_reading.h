// SPDX-License-Identifier: MIT
// What every reader of configurations does, whatever the form of the file.
#pragma once

#include <string_view>

#include "engine/config.h"

namespace kvcheck {

// The same window in all layers, 0 for none. A count of layers too large to be true is left to
// validate(), before anything is allocated for it.
void make_windows(Config& config, int window);

// As validate(), of a decoder that is reckoned with and not run: weights and cache may be of any
// size.
void validate_shape(const Config& config, std::string_view where);

}  // namespace kvcheck
