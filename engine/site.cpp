// SPDX-License-Identifier: MIT
// The names of the sites.
#include "engine/site.h"

#include <array>

namespace kvcheck {

std::string_view name(Site site) {
  static constexpr std::array<std::string_view, 19> kNames{"embedding",
                                                           "input",
                                                           "attention_norm",
                                                           "query",
                                                           "key",
                                                           "value",
                                                           "cached_key",
                                                           "cached_value",
                                                           "scores",
                                                           "probabilities",
                                                           "attention",
                                                           "attention_output",
                                                           "attention_residual",
                                                           "mlp_norm",
                                                           "mlp_hidden",
                                                           "mlp_output",
                                                           "residual",
                                                           "final_norm",
                                                           "logits"};
  return kNames[static_cast<std::size_t>(site)];
}

}  // namespace kvcheck
