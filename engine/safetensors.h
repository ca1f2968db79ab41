// SPDX-License-Identifier: MIT
// Weights in a safetensors file: 8 bytes of header length (little-endian), a JSON header that gives
// each tensor's dtype, shape and data_offsets, then the numbers. In a file of kvcheck's own every
// tensor is F32 with the name and shape of tensor_shapes(); nothing else may stand in it, apart
// from the header's "__metadata__".
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "engine/files.h"
#include "engine/model.h"
#include "engine/stored_tensor.h"

namespace kvcheck {

// The bound of the format's own reader. A valid header takes about 100 bytes a tensor.
inline constexpr std::int64_t kHeaderBytesMax = 100'000'000;

// Most bytes of a file: weights that are twice as wide as they are here, and a header.
inline constexpr std::int64_t kSafetensorsBytesMax = 2 * kBytesMax + 2 * kHeaderBytesMax;

// Which formats of numbers may stand in a file. Of those other than F64, F32, F16 and BF16 nobody
// reads the numbers, and their size is not known either.
enum class Dtypes : std::uint8_t { f32, any };

// The tensors of a file that lies in memory, by name. They cover its data from the first byte to
// the last, without a hole and without sharing any. `where` names it in messages.
[[nodiscard]] std::vector<StoredTensor> parse_safetensors(std::span<const std::byte> file,
                                                          std::string_view where, Dtypes dtypes);

// Throws Error unless the file holds exactly the tensors that `config` implies, all of them finite.
// Nothing is allocated for the weights before the file is known to hold that many bytes.
[[nodiscard]] Model<float> read_safetensors(const std::filesystem::path& path,
                                            const Config& config);

// Throws Error at a weight that is not finite.
void write_safetensors(OutputFile& file, const Model<float>& model);

}  // namespace kvcheck
