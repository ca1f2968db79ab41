// SPDX-License-Identifier: MIT
// Wrong answers to: which numbers do the bits of a stored row stand for?
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "verify/fault_caches.h"
#include "verify/faults.h"

namespace kvcheck {
namespace {

constexpr std::string_view kBits = "bits of a stored row";
constexpr std::string_view kRounding = "rounding of a row that is stored";
constexpr std::string_view kScale = "scale of a stored row";

constexpr SiteSet kRead = SiteSet().with(Site::cached_key).with(Site::cached_value);
constexpr SiteSet kWritten = SiteSet().with(Site::key).with(Site::value);

// ---- Rows of a tensor

template <Scalar T>
std::vector<T> values_of(const SiteTensor<T>& tensor, int row) {
  std::vector<T> values(static_cast<std::size_t>(tensor.columns));
  for (int c = 0; c < tensor.columns; ++c) {
    values[static_cast<std::size_t>(c)] = tensor.at(row, c);
  }
  return values;
}

// Whether this changed a bit.
template <Scalar T>
bool set_values(const SiteTensor<T>& tensor, int row, const std::vector<T>& values) {
  const std::vector<T> before = values_of(tensor, row);
  for (int c = 0; c < tensor.columns; ++c) tensor.at(row, c) = values[static_cast<std::size_t>(c)];
  return std::memcmp(before.data(), values.data(), values.size() * sizeof(T)) != 0;
}

// change(values) of every row of the fault's layers.
template <Scalar T, typename Change>
void each_row(const SiteTensor<T>& tensor, const FaultStep& step, Change change) {
  if (!step.in_layer(tensor.layer)) return;
  for (int r = 0; r < tensor.rows; ++r) {
    std::vector<T> values = values_of(tensor, r);
    change(values);
    set_values(tensor, r, values);
  }
}

// ---- 16 bits

// The bits of `written` taken for those of `read`.
template <Scalar T>
void reinterpret(std::vector<T>& row, RowFormat written, RowFormat read) {
  std::vector<std::byte> bits(
      static_cast<std::size_t>(row_bytes<T>(written, static_cast<int>(row.size()))));
  encode<T>(written, row, bits.data());
  decode<T>(read, bits.data(), row);
}

void other_format(const auto& tensor, const FaultStep& step) {
  const RowFormat own = step.cache.format;
  if (own != RowFormat::bf16 && own != RowFormat::f16) return;
  const RowFormat other = own == RowFormat::bf16 ? RowFormat::f16 : RowFormat::bf16;
  each_row(tensor, step, [&](auto& row) { reinterpret(row, own, other); });
}

template <RowFormat kFormat>
void narrow_to(const auto& tensor, const FaultStep& step) {
  each_row(tensor, step, [](auto& row) {
    using T = typename std::remove_cvref_t<decltype(row)>::value_type;
    round_row<T>(kFormat, row);
  });
}

// The lower half of a float is cut off.
void cut_to_bf16(const auto& tensor, const FaultStep& step) {
  each_row(tensor, step, [](auto& row) {
    for (auto& value : row) {
      const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value)) & 0xFFFF0000U;
      value = std::bit_cast<float>(bits);
    }
  });
}

// ---- 8 bits and a scale

// A row as it is stored in a cache of bytes: numbers from -127 to 127, and what they are times of.
struct ByteRow {
  float scale = 0;
  std::vector<int> steps;
};

template <Scalar T>
ByteRow bytes_of(const std::vector<T>& row) {
  std::vector<std::byte> stored(
      static_cast<std::size_t>(row_bytes<T>(RowFormat::int8, static_cast<int>(row.size()))));
  encode<T>(RowFormat::int8, row, stored.data());
  ByteRow bytes;
  std::memcpy(&bytes.scale, stored.data(), sizeof bytes.scale);
  for (std::size_t i = sizeof bytes.scale; i < stored.size(); ++i) {
    bytes.steps.push_back(std::bit_cast<std::int8_t>(stored[i]));
  }
  return bytes;
}

template <Scalar T>
std::vector<T> numbers_of(const ByteRow& bytes) {
  std::vector<T> row;
  for (const int step : bytes.steps) {
    row.push_back(static_cast<T>(static_cast<float>(step) * bytes.scale));
  }
  return row;
}

// change(bytes) of every row that is read.
template <Scalar T, typename Change>
void each_byte_row(const SiteTensor<T>& tensor, const FaultStep& step, Change change) {
  each_row(tensor, step, [&](std::vector<T>& row) {
    ByteRow bytes = bytes_of(row);
    change(bytes);
    row = numbers_of<T>(bytes);
  });
}

// The row at `from(row)` gives its scale; a row that there is not gives none.
template <Scalar T, typename From>
void scales_of_others(const SiteTensor<T>& tensor, const FaultStep& step, From from) {
  if (!step.in_layer(tensor.layer)) return;
  std::vector<ByteRow> bytes;
  for (int r = 0; r < tensor.rows; ++r) bytes.push_back(bytes_of(values_of(tensor, r)));
  for (int r = 0; r < tensor.rows; ++r) {
    const int source = from(r);
    if (source < 0 || source >= tensor.rows || source == r) continue;
    ByteRow wrong = bytes[static_cast<std::size_t>(r)];
    wrong.scale = bytes[static_cast<std::size_t>(source)].scale;
    set_values(tensor, r, numbers_of<T>(wrong));
  }
}

void scale_of_neighbour(const auto& tensor, const FaultStep& step) {
  scales_of_others(tensor, step, [&](int row) { return row - step.amount(); });
}

void scale_of_first(const auto& tensor, const FaultStep& step) {
  scales_of_others(tensor, step, [](int) { return 0; });
}

// Rows of the block that the newest one lies in are read by its scale.
void scale_of_newest(const auto& tensor, const FaultStep& step) {
  const int newest = step.held(tensor.row) + step.place(tensor.row);
  const int last = tensor.rows - 1;
  scales_of_others(tensor, step, [&](int row) {
    const bool same_block = (newest - (last - row)) / step.amount() == newest / step.amount();
    return same_block ? last : row;
  });
}

void scale_one(const auto& tensor, const FaultStep& step) {
  each_byte_row(tensor, step, [](ByteRow& bytes) { bytes.scale = 1; });
}

void scale_of_128(const auto& tensor, const FaultStep& step) {
  each_byte_row(tensor, step, [](ByteRow& bytes) { bytes.scale *= 127.0F / 128.0F; });
}

void zero_point(const auto& tensor, const FaultStep& step) {
  each_byte_row(tensor, step, [&](ByteRow& bytes) {
    for (int& number : bytes.steps) number += step.amount();
  });
}

void read_unsigned(const auto& tensor, const FaultStep& step) {
  each_byte_row(tensor, step, [](ByteRow& bytes) {
    for (int& number : bytes.steps) number += number < 0 ? 256 : 0;
  });
}

void largest_wraps(const auto& tensor, const FaultStep& step) {
  each_byte_row(tensor, step, [](ByteRow& bytes) {
    for (int& number : bytes.steps) number = number == 127 ? -127 : number;
  });
}

// Toward zero instead of to the nearest; what comes out is stored as it is.
void cut_to_bytes(const auto& tensor, const FaultStep& step) {
  each_row(tensor, step, [](auto& row) {
    using T = typename std::remove_cvref_t<decltype(row)>::value_type;
    const float scale = bytes_of<T>(row).scale;
    if (!(scale > 0)) return;
    for (T& value : row)
      value = static_cast<T>(std::trunc(static_cast<float>(value) / scale) * scale);
  });
}

// ---- What one site says of another

// watch(tensor) at sites of the planting's layers, which answers whether it changed something.
template <Scalar T, typename Watch>
void plant_watch(const Planting<T>& planting, SiteSet sites, Watch watch) {
  planting.engine.observe_cached(Observer<T>(
      [watch, trace = planting.trace](const SiteTensor<T>& tensor) {
        if (watch(tensor)) trace->changed();
      },
      sites));
}

// Values are stored with the scales of their keys.
template <Scalar T>
void plant_scale_of_keys(const Planting<T>& planting) {
  auto scales = std::make_shared<std::vector<float>>();  // [rows], of the keys of the layer at hand
  plant_watch(planting, kWritten, [scales, planting](const SiteTensor<T>& tensor) {
    if (!planting.in_layer(tensor.layer)) return false;
    if (tensor.site == Site::key) scales->clear();
    bool changed = false;
    for (int r = 0; r < tensor.rows; ++r) {
      ByteRow bytes = bytes_of(values_of(tensor, r));
      if (tensor.site == Site::key) {
        scales->push_back(bytes.scale);
        continue;
      }
      bytes.scale = (*scales)[static_cast<std::size_t>(r)];
      changed = set_values(tensor, r, numbers_of<T>(bytes)) || changed;
    }
    return changed;
  });
}

// Rows of a layer are read by the scales of the layer below.
template <Scalar T>
void plant_scale_of_layer_below(const Planting<T>& planting) {
  using Scales = std::vector<float>;  // of the rows that are seen, the newest first
  auto below = std::make_shared<std::map<std::pair<Site, int>, Scales>>();
  plant_watch(planting, kRead, [below](const SiteTensor<T>& tensor) {
    Scales& scales = (*below)[{tensor.site, tensor.row}];
    const Scales others = std::exchange(scales, {});
    bool changed = false;
    for (int r = tensor.rows - 1; r >= 0; --r) {
      ByteRow bytes = bytes_of(values_of(tensor, r));
      scales.push_back(bytes.scale);
      if (tensor.layer == 0 || scales.size() > others.size()) continue;
      bytes.scale = others[scales.size() - 1];
      changed = set_values(tensor, r, numbers_of<T>(bytes)) || changed;
    }
    return changed;
  });
}

// A query reads its own row as it was before it was stored.
template <Scalar T>
void plant_fresh_row(const Planting<T>& planting) {
  using Rows = std::vector<std::vector<T>>;
  auto fresh = std::make_shared<std::map<Site, Rows>>();
  const SiteSet sites = kRead.with(Site::key).with(Site::value);
  plant_watch(planting, sites, [fresh, planting](const SiteTensor<T>& tensor) {
    if (tensor.site == Site::key || tensor.site == Site::value) {
      Rows& rows = (*fresh)[tensor.site];
      rows.clear();
      for (int r = 0; r < tensor.rows; ++r) rows.push_back(values_of(tensor, r));
      return false;
    }
    const Rows& rows = (*fresh)[tensor.site == Site::cached_key ? Site::key : Site::value];
    return planting.in_layer(tensor.layer) &&
           set_values(tensor, tensor.rows - 1, rows[static_cast<std::size_t>(tensor.row)]);
  });
}

constexpr Features kAny{};
constexpr SiteFault kOtherFormat =
    at_sites(kRead, [](const auto& tensor, const FaultStep& step) { other_format(tensor, step); });
constexpr VerbFault kFreshRow = at_verbs([](const auto& planting) { plant_fresh_row(planting); });

constexpr std::array kFaults{
    Fault{"dtype-reinterpret-bf16",
          kBits,
          "rows are stored as bf16 and read as f16",
          "vLLM 54338",
          kAny,
          "bf16",
          {.layers = true},
          kOtherFormat},
    Fault{"dtype-reinterpret-f16",
          kBits,
          "rows are stored as f16 and read as bf16",
          "vLLM 54338",
          kAny,
          "f16",
          {.layers = true},
          kOtherFormat},
    Fault{"dtype-narrow-bf16",
          kRounding,
          "a cache that promises whole numbers stores bf16",
          "class of transformers 25420",
          kAny,
          "flat",
          {.layers = true},
          at_sites(kWritten,
                   [](const auto& tensor, const FaultStep& step) {
                     narrow_to<RowFormat::bf16>(tensor, step);
                   })},
    Fault{
        "dtype-narrow-f16",
        kRounding,
        "a cache that promises whole numbers stores f16",
        "class of transformers 25420",
        kAny,
        "flat",
        {.layers = true},
        at_sites(kWritten, [](const auto& tensor,
                              const FaultStep& step) { narrow_to<RowFormat::f16>(tensor, step); })},
    Fault{"dtype-narrow-int8",
          kRounding,
          "a cache that promises whole numbers stores bytes",
          "class of transformers 25420",
          kAny,
          "flat",
          {.layers = true},
          at_sites(kWritten,
                   [](const auto& tensor, const FaultStep& step) {
                     narrow_to<RowFormat::int8>(tensor, step);
                   })},
    Fault{"dtype-f16-by-bf16",
          kRounding,
          "rows pass through bf16 on their way to f16",
          "class of vLLM 54338",
          kAny,
          "f16",
          {.layers = true},
          at_sites(kWritten,
                   [](const auto& tensor, const FaultStep& step) {
                     narrow_to<RowFormat::bf16>(tensor, step);
                   })},
    Fault{"dtype-bf16-cut",
          kRounding,
          "bf16 is cut off a float instead of rounded",
          "class of transformers 25420",
          kAny,
          "bf16",
          {.layers = true},
          at_sites(kWritten,
                   [](const auto& tensor, const FaultStep& step) { cut_to_bf16(tensor, step); })},
    Fault{"dtype-fresh-row-bf16",
          kRounding,
          "a query reads its own row unrounded, later ones read it as bf16",
          "class of transformers 25420",
          kAny,
          "bf16",
          {.layers = true},
          kFreshRow},
    Fault{"dtype-fresh-row-f16",
          kRounding,
          "a query reads its own row unrounded, later ones read it as f16",
          "class of transformers 25420",
          kAny,
          "f16",
          {.layers = true},
          kFreshRow},
    Fault{"quant-fresh-row",
          kRounding,
          "a query reads its own row unrounded, later ones read bytes",
          "class of transformers 25420",
          kAny,
          "int8",
          {.layers = true},
          kFreshRow},
    Fault{"quant-cut",
          kRounding,
          "bytes are rounded toward zero",
          "class of aprender 2029",
          kAny,
          "int8",
          {.layers = true},
          at_sites(kWritten,
                   [](const auto& tensor, const FaultStep& step) { cut_to_bytes(tensor, step); })},
    Fault{"quant-scale-one",
          kScale,
          "rows are stored with a scale and read without",
          "sglang 20705",
          kAny,
          "int8",
          {.layers = true},
          at_sites(kRead,
                   [](const auto& tensor, const FaultStep& step) { scale_one(tensor, step); })},
    Fault{"quant-scale-of-neighbour",
          kScale,
          "a row is read by the scale of a row near it",
          "vLLM 49716",
          kAny,
          "int8",
          {.layers = true, .amounts = {-1, 1}},
          at_sites(kRead, [](const auto& tensor,
                             const FaultStep& step) { scale_of_neighbour(tensor, step); })},
    Fault{"quant-scale-of-the-first",
          kScale,
          "all rows are read by the scale of the first",
          "class of aprender 2029",
          kAny,
          "int8",
          {.layers = true},
          at_sites(kRead, [](const auto& tensor,
                             const FaultStep& step) { scale_of_first(tensor, step); })},
    Fault{"quant-block-rescale",
          kScale,
          "the newest row of a block gives its scale to all rows of the block",
          "aprender 2029",
          kAny,
          "int8",
          {.layers = true, .amounts = {2, 4}},
          at_sites(kRead, [](const auto& tensor,
                             const FaultStep& step) { scale_of_newest(tensor, step); })},
    Fault{"quant-scale-of-the-key",
          kScale,
          "values are stored with the scales of their keys",
          "class of vLLM 50084",
          kAny,
          "int8",
          {.layers = true},
          at_verbs([](const auto& planting) { plant_scale_of_keys(planting); })},
    Fault{"quant-scale-of-the-layer-below",
          kScale,
          "rows are read by the scales of another layer",
          "vLLM 55559, turboquant 79",
          {Feature::two_layers},
          "int8",
          {},
          at_verbs([](const auto& planting) { plant_scale_of_layer_below(planting); })},
    Fault{"quant-scale-of-128",
          kScale,
          "the largest byte is 127 for the writer and 128 for the reader",
          "class of sglang 20705",
          kAny,
          "int8",
          {.layers = true},
          at_sites(kRead,
                   [](const auto& tensor, const FaultStep& step) { scale_of_128(tensor, step); })},
    Fault{"quant-zero-point",
          kBits,
          "zero is another byte for the reader than for the writer",
          "class of sglang 20705",
          kAny,
          "int8",
          {.layers = true, .amounts = {-1, 1}},
          at_sites(kRead,
                   [](const auto& tensor, const FaultStep& step) { zero_point(tensor, step); })},
    Fault{"quant-read-unsigned",
          kBits,
          "bytes are read without their sign",
          "class of vLLM 54338",
          kAny,
          "int8",
          {.layers = true},
          at_sites(kRead,
                   [](const auto& tensor, const FaultStep& step) { read_unsigned(tensor, step); })},
    Fault{"quant-largest-wraps",
          kBits,
          "the largest byte passes the end of its range and comes out negative",
          "class of vLLM 54338",
          kAny,
          "int8",
          {.layers = true},
          at_sites(kRead,
                   [](const auto& tensor, const FaultStep& step) { largest_wraps(tensor, step); })},
};

}  // namespace

std::span<const Fault> format_faults() { return kFaults; }

}  // namespace kvcheck
