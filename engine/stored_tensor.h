// SPDX-License-Identifier: MIT
// Tensors as a file of weights holds them, whatever its format, and the one way from there into a
// model.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/dequantize.h"
#include "engine/model.h"

namespace kvcheck {

// Positions that are used of a model of another program that takes more: a cache of all of them
// would not fit.
inline constexpr int kStoredContextMax = 8192;

// Seen in place: valid as long as the file is mapped. All of it lies inside the file.
struct StoredTensor {
  std::string where;  // the file
  std::string name;
  std::string format;               // as the file calls it
  std::optional<Dtype> dtype;       // nothing: one whose numbers nobody can read
  std::vector<std::int64_t> shape;  // row by row, the last extent contiguous
  std::span<const std::byte> bytes;
};

enum class Stored : std::uint8_t { as_here, transposed };

// Where the tensors of one place of a decoder are. A '*' in both names stands for a layer's number.
// `target` is a name of tensor_shapes() without its ending; .weight and .scale of the model are
// .weight of the file, .bias and .shift are .bias, and what has no ending is .weight too.
struct TensorPlace {
  std::string_view target;
  std::string_view source;
  Stored stored = Stored::as_here;  // of matrices; here they are [in, out]
  int part = 0;                     // of `parts` equal ones, side by side along the outputs
  int parts = 1;
};

// A file's names, put together by its format and family.
struct TensorPlaces {
  std::span<const TensorPlace> places;
  std::string_view prefix = {};                            // of all names but "output"'s
  bool norms_from_one = false;                             // norms store their scale less 1
  std::function<bool(std::string_view name)> unused = {};  // has no part in the logits
};

// The model that the tensors are, with `config` as their shape. `where` names what lacks a tensor.
// Throws Error for a tensor that is missing, superfluous, of another shape, in a format that cannot
// be read, or not finite. Nothing is allocated for the weights before all of them are known to be
// there.
[[nodiscard]] Model<float> assemble(const Config& config, std::span<const StoredTensor> tensors,
                                    const TensorPlaces& places, std::string_view where);

// "[2, 3]", cut where it is long.
[[nodiscard]] std::string shape_text(std::span<const std::int64_t> shape);
// "tensor "name""
[[nodiscard]] std::string tensor_text(std::string_view name);
// Throws Error naming the first number that is not finite.
void check_finite(std::string_view name, std::span<const float> values, std::string_view where);

}  // namespace kvcheck
