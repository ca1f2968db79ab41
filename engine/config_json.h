// SPDX-License-Identifier: MIT
// A configuration as JSON text, the config.json of a model folder.
//
// "format" is "kvcheck-model-1"; every other key has the name of a Config field. Keys that may be
// absent, with Config's defaults: norm_epsilon, rotary_pairs, rotary_base, rotary_base_windowed,
// rotary_dimensions, rotary_divisors, qkv_bias, attention_output_bias, mlp_bias, windows (all 0),
// head_norm, post_norms, score_size, attention_cap, logit_cap and embedding_scale. Every other key
// is required, an unknown key is an Error: a choice that is not understood must not be dropped in
// silence.
#pragma once

#include <string>
#include <string_view>

#include "engine/config.h"

namespace kvcheck {

// Keys in one stable order, no newline at the end; parse_config gives the same Config back. The
// keys rotary_base_windowed, rotary_dimensions, rotary_divisors and all from head_norm on are left
// out at their defaults.
[[nodiscard]] std::string config_text(const Config& config);

// A validated configuration; `where` names the file in messages.
[[nodiscard]] Config parse_config(std::string_view text, std::string_view where);

}  // namespace kvcheck
