// SPDX-License-Identifier: MIT
// Moving, saving and loading rows.
#include "engine/cache_edit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/error.h"
#include "engine/random.h"

namespace kvcheck {
namespace {

constexpr std::uint64_t kMagic = 0x3130657661737663;  // "cvsave01"

// What a saved cache begins with; positions, if numbered, tokens and rows follow.
struct Header {
  std::uint64_t magic = kMagic;
  std::uint64_t identity = 0;
  std::int32_t length = 0;
  std::int32_t next_position = 0;
  std::int32_t peak = 0;
  std::int32_t numbered = 0;
  std::int32_t tokens = 0;
  std::int32_t unused = 0;
};

std::size_t size_of_ints(int count) { return static_cast<std::size_t>(count) * sizeof(int); }

void append(std::vector<std::byte>& out, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  out.resize(out.size() + bytes);
  std::memcpy(&out[out.size() - bytes], from, bytes);
}

template <Scalar T>
std::size_t stored_row_bytes(const KvCache<T>& cache) {
  return static_cast<std::size_t>(cache.store().row_bytes() / 2);
}

// Calls visit(bytes) for the key and the value row of every row that is held, layer by layer.
template <typename Cache, typename Visit>
void each_row(Cache& cache, Visit visit) {
  for (int l = 0; l < cache.store().layers(); ++l) {
    for (int row = cache.oldest_row(l); row < cache.length(); ++row) {
      visit(cache.key(l, cache.slot(l, row)));
      visit(cache.value(l, cache.slot(l, row)));
    }
  }
}

Error not_saved_here(std::string_view got) {
  return bad_input({"load", "state", "bytes that this engine saved", got});
}

Header header_of(std::span<const std::byte> state, const Config& config, std::uint64_t identity) {
  Header header;
  if (state.size() < sizeof header) {
    throw not_saved_here(fmt::format("{} bytes", state.size()));
  }
  std::memcpy(&header, state.data(), sizeof header);
  if (header.magic != kMagic) throw not_saved_here("bytes of something else");
  if (header.identity != identity) {
    throw not_saved_here("the state of another model, scalar or kind of cache");
  }
  const bool fits = header.length >= 0 && header.next_position >= header.length &&
                    header.next_position <= config.context && header.peak >= header.length &&
                    header.peak <= config.context &&
                    (header.tokens == 0 || header.tokens == header.length);
  if (!fits) throw not_saved_here("counts that do not fit the context");
  return header;
}

std::vector<int> take_ints(std::span<const std::byte>& state, int count) {
  std::vector<int> found(static_cast<std::size_t>(count));
  if (count == 0) return found;
  const std::size_t bytes = size_of_ints(count);
  if (state.size() < bytes) throw not_saved_here("bytes that end early");
  std::memcpy(found.data(), state.data(), bytes);
  state = state.subspan(bytes);
  return found;
}

bool all_within(const std::vector<int>& numbers, int end) {
  return std::ranges::all_of(numbers, [&](int n) { return n >= 0 && n < end; });
}

}  // namespace

template <Scalar T>
void drop_rows(CachePool<T>& pool, KvCache<T>& cache, int first, int count) {
  if (count == 0) return;
  pool.own(cache, first);
  const int next = cache.next_position();
  std::vector<int> positions;
  for (int row = 0; row < cache.length(); ++row) {
    if (row >= first && row < first + count) continue;
    const int to = static_cast<int>(positions.size());
    positions.push_back(cache.position(row));
    if (to == row) continue;
    for (int l = 0; l < cache.store().layers(); ++l) {
      cache.store().copy(cache.store(), l, cache.slot(l, row), cache.slot(l, to), 1);
    }
  }
  pool.truncate(cache, cache.length() - count);
  cache.renumber(std::move(positions), next);
}

template <Scalar T>
void move_back(CachePool<T>& pool, KvCache<T>& cache, int first, int by, const Config& config,
               const RotaryTables<T>& back) {
  pool.own(cache, first);
  std::vector<int> positions;
  for (int row = 0; row < cache.length(); ++row) {
    positions.push_back(cache.position(row) - (row >= first ? by : 0));
  }
  if (config.positions == Positions::rotary) {
    for (int l = 0; l < cache.store().layers(); ++l) {
      const RotaryTable<T>& table = *back[static_cast<std::size_t>(config.rotary_base_of(l))];
      for (int row = first; row < cache.length(); ++row) {
        const View<T> key{cache.key(l, cache.slot(l, row)), 1, config.kv_width(), 1};
        rotate(table, config.rotary_pairs, std::span(&by, 1), config.head_size, key);
      }
    }
  }
  cache.renumber(std::move(positions), cache.next_position() - by);
}

template <Scalar T>
std::vector<std::byte> save_rows(const KvCache<T>& cache, std::uint64_t identity) {
  const Header header{.identity = identity,
                      .length = cache.length(),
                      .next_position = cache.next_position(),
                      .peak = cache.peak(),
                      .numbered = cache.numbered() ? 1 : 0,
                      .tokens = static_cast<std::int32_t>(cache.tokens().size())};
  std::vector<std::byte> out;
  append(out, &header, sizeof header);
  append(out, cache.positions().data(), cache.positions().size_bytes());
  append(out, cache.tokens().data(), size_of_ints(header.tokens));
  each_row(cache, [&](const T* row) { append(out, row, stored_row_bytes(cache)); });
  return out;
}

template <Scalar T>
void load_rows(CachePool<T>& pool, KvCache<T>& cache, const Config& config,
               std::span<const std::byte> state, std::uint64_t identity) {
  const Header header = header_of(state, config, identity);
  state = state.subspan(sizeof header);
  const std::vector<int> positions = take_ints(state, header.numbered != 0 ? header.length : 0);
  std::vector<int> tokens = take_ints(state, header.tokens);
  if (!all_within(positions, config.context) || !all_within(tokens, config.vocabulary)) {
    throw not_saved_here("positions or tokens that there are not");
  }
  std::size_t rows = 0;
  for (int l = 0; l < cache.store().layers(); ++l) {
    const int ring = cache.rings().empty() ? 0 : cache.rings()[static_cast<std::size_t>(l)];
    const int gone = ring > 0 ? std::min(header.length, std::max(0, header.peak - ring)) : 0;
    rows += static_cast<std::size_t>(header.length - gone);
  }
  if (state.size() != 2 * rows * stored_row_bytes(cache)) {
    throw not_saved_here(fmt::format("{} bytes of rows", state.size()));
  }
  const bool known = header.tokens > 0;
  tokens.resize(static_cast<std::size_t>(header.length));
  const CacheFeed<T> feed{&cache, tokens};
  pool.reserve(std::span(&feed, 1));
  if (!known) cache.tokens().clear();
  cache.set_length(header.length);
  cache.set_peak(header.peak);
  each_row(cache, [&](T* row) {
    std::memcpy(row, state.data(), stored_row_bytes(cache));
    state = state.subspan(stored_row_bytes(cache));
  });
  if (header.numbered != 0) cache.renumber(positions, header.next_position);
  pool.settle(std::span(&feed, 1), identity);
}

template <Scalar T>
std::uint64_t fingerprint(const KvCache<T>& cache) {
  std::uint64_t hash = mix(static_cast<std::uint64_t>(cache.length()) ^
                           static_cast<std::uint64_t>(cache.next_position()) << 32);
  const auto add = [&](std::uint64_t word) {
    hash = (hash ^ word) * 0x9E3779B97F4A7C15;  // odd: no word is lost
    hash ^= hash >> 29;
  };
  for (const int position : cache.positions()) add(static_cast<std::uint64_t>(position));
  const std::size_t bytes = stored_row_bytes(cache);
  each_row(cache, [&](const T* row) {
    const auto* at = reinterpret_cast<const std::byte*>(row);
    for (std::size_t i = 0; i < bytes; i += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, at + i, std::min(sizeof word, bytes - i));
      add(word);
    }
  });
  return hash;
}

template void drop_rows(CachePool<float>&, KvCache<float>&, int, int);
template void drop_rows(CachePool<double>&, KvCache<double>&, int, int);
template void move_back(CachePool<float>&, KvCache<float>&, int, int, const Config&,
                        const RotaryTables<float>&);
template void move_back(CachePool<double>&, KvCache<double>&, int, int, const Config&,
                        const RotaryTables<double>&);
template std::vector<std::byte> save_rows(const KvCache<float>&, std::uint64_t);
template std::vector<std::byte> save_rows(const KvCache<double>&, std::uint64_t);
template void load_rows(CachePool<float>&, KvCache<float>&, const Config&,
                        std::span<const std::byte>, std::uint64_t);
template void load_rows(CachePool<double>&, KvCache<double>&, const Config&,
                        std::span<const std::byte>, std::uint64_t);
template std::uint64_t fingerprint(const KvCache<float>&);
template std::uint64_t fingerprint(const KvCache<double>&);

}  // namespace kvcheck
