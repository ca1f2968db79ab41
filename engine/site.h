// SPDX-License-Identifier: MIT
// The named intermediate tensors of a decoder, in the order in which they depend on each other, and
// the one mechanism that looks at them (or changes them): an observer called at every site.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "engine/scalar.h"

namespace kvcheck {

enum class Site {
  embedding,           // [rows, width], positions not yet added
  input,               // [rows, width], what the first layer reads
  attention_norm,      // [rows, width]
  query,               // [rows, query_heads * head_size], rotated
  key,                 // [rows, kv_heads * head_size], rotated: the rows that a cache stores
  value,               // [rows, kv_heads * head_size]
  cached_key,          // one query row: [visible keys, kv_heads * head_size], as it reads them; a
                       // copy where there is a cache
  cached_value,        // likewise
  scores,              // one query row: [query_heads, visible keys], as the softmax takes them
  probabilities,       // one query row: [query_heads, visible keys]
  attention,           // [rows, query_heads * head_size], before the output projection
  attention_output,    // [rows, width], as it is added: normed where there are post norms
  attention_residual,  // [rows, width]
  mlp_norm,            // [rows, width]
  mlp_hidden,          // [rows, mlp_width], after the activation
  mlp_output,          // [rows, width], likewise
  residual,            // [rows, width], what the next layer reads
  final_norm,          // [rows, width]
  logits,              // [rows, vocabulary]
};

[[nodiscard]] std::string_view name(Site site);

// A tensor at a site, in place. An observer may change it; what follows then works with the changed
// values.
template <Scalar T>
struct SiteTensor {
  Site site;
  int layer;  // -1 outside the layers
  int row;    // the query row at sites of one, else 0
  T* data;
  int rows;  // query heads at scores and probabilities
  int columns;
  std::ptrdiff_t row_stride;
  std::ptrdiff_t column_stride;

  [[nodiscard]] T& at(int r, int c) const { return data[r * row_stride + c * column_stride]; }
};

// Sites that somebody wants to see.
class SiteSet {
 public:
  constexpr SiteSet() = default;
  [[nodiscard]] static constexpr SiteSet all() { return SiteSet(~std::uint32_t{0}); }
  // All that a decoder computes anyway. Rows as they are read lie in their store; for an observer
  // they are copied first, so that what it changes is not stored.
  [[nodiscard]] static constexpr SiteSet computed() {
    return SiteSet(~(bit(Site::cached_key) | bit(Site::cached_value)));
  }

  [[nodiscard]] constexpr bool has(Site site) const { return (bits_ & bit(site)) != 0; }
  [[nodiscard]] constexpr SiteSet with(Site site) const { return SiteSet(bits_ | bit(site)); }
  [[nodiscard]] constexpr SiteSet with(SiteSet sites) const { return SiteSet(bits_ | sites.bits_); }

 private:
  constexpr explicit SiteSet(std::uint32_t bits) : bits_(bits) {}
  static constexpr std::uint32_t bit(Site site) {
    return std::uint32_t{1} << static_cast<unsigned>(site);
  }
  std::uint32_t bits_ = 0;
};

// Called at every site of its set; an empty one is never called.
template <Scalar T>
class Observer {
 public:
  using Function = std::function<void(const SiteTensor<T>&)>;

  Observer() = default;
  template <typename F>
  requires std::is_invocable_v < F&, const SiteTensor<T>
  & > Observer(F function, SiteSet sites = SiteSet::computed())  // NOLINT: as a function is one
      : function_(std::move(function)),
  sites_(sites) {}

  [[nodiscard]] explicit operator bool() const { return static_cast<bool>(function_); }
  [[nodiscard]] bool wants(Site site) const { return function_ && sites_.has(site); }
  [[nodiscard]] SiteSet sites() const { return function_ ? sites_ : SiteSet(); }
  void operator()(const SiteTensor<T>& tensor) const {
    if (sites_.has(tensor.site)) function_(tensor);
  }

 private:
  Function function_;
  SiteSet sites_;
};

// Calls the first, then the second, each at the sites of its own.
template <Scalar T>
[[nodiscard]] Observer<T> both(Observer<T> first, Observer<T> second) {
  if (!first) return second;
  if (!second) return first;
  const SiteSet sites = first.sites().with(second.sites());
  return Observer<T>(
      [first = std::move(first), second = std::move(second)](const SiteTensor<T>& tensor) {
        first(tensor);
        second(tensor);
      },
      sites);
}

}  // namespace kvcheck
