// SPDX-License-Identifier: MIT
// A model in a GGUF file: which metadata is a configuration, which tensors are its weights, which
// words its vocabulary has.
#pragma once

#include <string>
#include <vector>

#include "engine/gguf.h"
#include "engine/model.h"

namespace kvcheck {

struct GgufModel {
  Model<float> weights;
  std::vector<std::string> words;  // [vocabulary], as plain_words() makes them, or empty
};

// Architectures llama, qwen2, qwen3, gpt2 and gemma2. Throws Error at metadata whose effect on
// logits is not known, and at tensors other than those that the metadata implies.
[[nodiscard]] GgufModel gguf_model(const Gguf& gguf);

}  // namespace kvcheck
