// SPDX-License-Identifier: MIT
// The model that benches decode with.
#pragma once

#include "engine/generated.h"

namespace kvcheck {

// Random weights in the shape of stories260K: 5 layers, width 64.
inline Model<float> bench_model(int context) {
  Config c;
  c.vocabulary = 512;
  c.width = 64;
  c.layers = 5;
  c.query_heads = 8;
  c.kv_heads = 4;
  c.head_size = 8;
  c.mlp_width = 172;
  c.context = context;
  c.norm = Norm::rms;
  c.positions = Positions::rotary;
  c.mlp = Mlp::swiglu;
  c.windows.assign(5, 0);
  return random_model(c, WeightScales{}, 1);
}

}  // namespace kvcheck
