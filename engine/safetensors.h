// SPDX-License-Identifier: MIT
// Weights in a safetensors file: 8 bytes of header length (little-endian), a JSON header that gives
// each tensor's dtype, shape and data_offsets, then the numbers. Here every tensor is F32 with the
// name and shape of tensor_shapes(); nothing else may stand in the file, apart from the header's
// "__metadata__".
#pragma once

#include <cstdint>
#include <filesystem>

#include "engine/files.h"
#include "engine/model.h"

namespace kvcheck {

// The bound of the format's own reader. A valid header takes about 100 bytes a tensor.
inline constexpr std::int64_t kHeaderBytesMax = 100'000'000;

// Throws Error unless the file holds exactly the tensors that `config` implies, all of them finite.
// Nothing is allocated for the weights before the file is known to hold that many bytes.
[[nodiscard]] Model<float> read_safetensors(const std::filesystem::path& path,
                                            const Config& config);

// Throws Error at a weight that is not finite.
void write_safetensors(OutputFile& file, const Model<float>& model);

}  // namespace kvcheck
