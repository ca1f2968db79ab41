// SPDX-License-Identifier: MIT
// Paged caches: blocks of some rows from a common store. Copies share blocks, counted, until one of
// them writes. A full block is remembered by its tokens and all before them, also when nobody holds
// it any more, so that a prompt that begins like an earlier one takes it. As vLLM does (Kwon et
// al., arXiv 2309.06180).
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "engine/cache_pool.h"
#include "engine/random.h"

namespace kvcheck {
namespace {

constexpr int kFirstBlocks = 4;

template <Scalar T>
class PagedPool final : public CachePool<T> {
 public:
  PagedPool(const Config& config, int block, std::uint64_t identity)
      : layers_(config.layers),
        block_rows_(block),
        root_(mix(identity)),
        store_(std::make_shared<KvStore<T>>(slots(0), config.kv_width(), RowFormat::native)) {
    add_blocks(kFirstBlocks);
  }

  KvCache<T>& make() override {
    caches_.push_back(std::make_unique<KvCache<T>>(store_, std::vector<int>{}));
    return *caches_.back();
  }

  void reserve(std::span<const CacheFeed<T>> feeds) override {
    for (const CacheFeed<T>& feed : feeds) {
      KvCache<T>& cache = *feed.cache;
      own(cache, cache.length());
      const bool plain = static_cast<int>(cache.tokens().size()) == cache.length() &&
                         cache.next_position() == cache.length();
      for (int i = 0; i < static_cast<int>(feed.tokens.size()); ++i) {
        const int row = cache.length() + i;
        if (row % block_rows_ == 0) cache.places().push_back(take_block());
        const int slot = slot_of(cache, row);
        cache.reserve(std::span(&slot, 1));
      }
      if (plain) {
        cache.tokens().insert(cache.tokens().end(), feed.tokens.begin(), feed.tokens.end());
      }
    }
  }

  void settle(std::span<const CacheFeed<T>> feeds) override {
    for (const CacheFeed<T>& feed : feeds) {
      for (std::size_t i = 0; i < feed.cache->places().size(); ++i) {
        Block& block = block_of(*feed.cache, i);
        const int rows = feed.cache->length() - static_cast<int>(i) * block_rows_;
        block.filled = std::max(block.filled, std::min(rows, block_rows_));
      }
      remember(*feed.cache);
    }
  }

  void truncate(KvCache<T>& cache, int length) override {
    std::vector<int>& places = cache.places();
    const auto kept = static_cast<std::size_t>((length + block_rows_ - 1) / block_rows_);
    while (places.size() > kept) {
      release(places.back());
      places.pop_back();
    }
    cache.forget(length);
    const int partial = length % block_rows_;
    if (partial == 0) return;
    Block& last = block_of(cache, kept - 1);
    // Rows that another cache, or the memory of prompts, still has a use for stay as they are.
    if (last.references > 1 || last.remembered) return;
    last.filled = partial;
    poison(places.back(), partial);
  }

  void copy(const KvCache<T>& from, KvCache<T>& to) override {
    to.assume(from);
    for (const int place : to.places()) ++at(place).references;
  }

  void own(KvCache<T>& cache, int first) override {
    for (auto i = static_cast<std::size_t>(first / block_rows_); i < cache.places().size(); ++i) {
      const int rows = std::min(block_rows_, cache.length() - static_cast<int>(i) * block_rows_);
      const int place = cache.places()[i];
      if (at(place).references > 1) {
        cache.places()[i] = copy_of(place, rows);
        continue;
      }
      forget(place);
      // What somebody still had a use for when the rows were rolled back.
      poison(place, rows);
      at(place).filled = rows;
    }
    std::vector<int> slots;
    for (int row = 0; row < cache.length(); ++row) slots.push_back(slot_of(cache, row));
    cache.place(std::move(slots));
  }

  int lookup(std::span<const int> tokens) const override {
    return static_cast<int>(remembered(tokens).size()) * block_rows_;
  }

  int adopt(KvCache<T>& cache, std::span<const int> tokens) override {
    const std::vector<int> found = remembered(tokens);
    std::vector<int> slots;
    for (const int place : found) {
      if (at(place).references++ == 0) std::erase(free_, place);
      for (int i = 0; i < block_rows_; ++i) slots.push_back(place * block_rows_ + i);
    }
    const int rows = static_cast<int>(slots.size());
    cache.places() = found;
    cache.tokens().assign(tokens.begin(), tokens.begin() + rows);
    cache.place(std::move(slots));
    cache.set_length(rows);
    return rows;
  }

  std::string complaint(const KvCache<T>&) const override {
    if (!store_->guards_intact()) return std::string(kGuardComplaint);
    std::vector<int> references(blocks_.size(), 0);
    for (const auto& cache : caches_) {
      for (const int place : cache->places()) ++references[static_cast<std::size_t>(place)];
    }
    std::size_t unused = 0;
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      const Block& block = blocks_[b];
      if (block.references != references[b]) return "a block is not counted as often as it is held";
      unused += block.references == 0 ? 1 : 0;
      for (int l = 0; l < layers_; ++l) {
        const int first = static_cast<int>(b) * block_rows_ + block.filled;
        if (!store_->poisoned(l, first, block_rows_ - block.filled)) {
          return std::string(kPoisonComplaint);
        }
      }
    }
    if (unused != free_.size()) return "a block that nobody holds is not free, or free twice";
    return "";
  }

 private:
  struct Block {
    int references = 0;  // caches that hold it
    int filled = 0;      // rows that were written
    bool remembered = false;
    std::uint64_t key = 0;     // while remembered: of its tokens and all before them
    std::uint64_t parent = 0;  // key of the block before
    std::vector<int> tokens = {};
  };

  [[nodiscard]] std::vector<int> slots(int blocks) const {
    return std::vector<int>(static_cast<std::size_t>(layers_), blocks * block_rows_);
  }
  [[nodiscard]] Block& at(int place) { return blocks_[static_cast<std::size_t>(place)]; }
  [[nodiscard]] const Block& at(int place) const {
    return blocks_[static_cast<std::size_t>(place)];
  }
  [[nodiscard]] Block& block_of(const KvCache<T>& cache, std::size_t i) {
    return at(cache.places()[i]);
  }
  [[nodiscard]] int slot_of(const KvCache<T>& cache, int row) const {
    const int place = cache.places()[static_cast<std::size_t>(row / block_rows_)];
    return place * block_rows_ + row % block_rows_;
  }

  void add_blocks(int count) {
    for (int i = 0; i < count; ++i) {
      free_.push_back(static_cast<int>(blocks_.size()));
      blocks_.emplace_back();
    }
    store_->grow(slots(static_cast<int>(blocks_.size())));
  }

  // The last one that became free; what it was remembered for is forgotten.
  int take_block() {
    if (free_.empty()) add_blocks(static_cast<int>(blocks_.size()));
    const int place = free_.back();
    free_.pop_back();
    forget(place);
    poison(place, 0);
    at(place).filled = 0;
    at(place).references = 1;
    return place;
  }

  // The first rows of a block in one of its own; one holder of the block becomes its holder.
  int copy_of(int place, int rows) {
    const int copy = take_block();
    for (int l = 0; l < layers_; ++l) {
      store_->copy(*store_, l, place * block_rows_, copy * block_rows_, rows);
    }
    at(copy).filled = rows;
    --at(place).references;
    return copy;
  }

  // A remembered block is taken again after all others.
  void release(int place) {
    Block& block = at(place);
    if (--block.references > 0) return;
    if (block.remembered) {
      free_.insert(free_.begin(), place);
      return;
    }
    free_.push_back(place);
    poison(place, 0);
    block.filled = 0;
  }

  void poison(int place, int from) {
    for (int l = 0; l < layers_; ++l) {
      store_->poison(l, place * block_rows_ + from, block_rows_ - from);
    }
  }

  [[nodiscard]] static std::uint64_t key_of(std::uint64_t parent, std::span<const int> tokens) {
    std::uint64_t key = parent;
    for (const int token : tokens) key = mix(key ^ (static_cast<std::uint64_t>(token) + 1));
    return key;
  }

  void remember(const KvCache<T>& cache) {
    std::uint64_t parent = root_;
    const std::span<const int> tokens = cache.tokens();
    const auto rows = static_cast<std::size_t>(block_rows_);
    for (std::size_t i = 0; (i + 1) * rows <= tokens.size(); ++i) {
      const std::span<const int> own = tokens.subspan(i * rows, rows);
      const std::uint64_t key = key_of(parent, own);
      Block& block = block_of(cache, i);
      if (!block.remembered && by_key_.emplace(key, cache.places()[i]).second) {
        block.remembered = true;
        block.key = key;
        block.parent = parent;
        block.tokens.assign(own.begin(), own.end());
      }
      parent = key;
    }
  }

  void forget(int place) {
    Block& block = at(place);
    if (block.remembered) by_key_.erase(block.key);
    block.remembered = false;
  }

  // Blocks that hold the beginning of a prompt. At least one of its tokens is left to be computed:
  // somebody wants its logits.
  [[nodiscard]] std::vector<int> remembered(std::span<const int> tokens) const {
    std::vector<int> found;
    std::uint64_t parent = root_;
    const auto rows = static_cast<std::size_t>(block_rows_);
    for (std::size_t end = rows; end < tokens.size(); end += rows) {
      const std::span<const int> own = tokens.subspan(end - rows, rows);
      const auto block = by_key_.find(key_of(parent, own));
      // Keys may collide: the tokens themselves decide.
      if (block == by_key_.end() || at(block->second).parent != parent ||
          !std::ranges::equal(at(block->second).tokens, own)) {
        break;
      }
      found.push_back(block->second);
      parent = block->first;
    }
    return found;
  }

  const int layers_;
  const int block_rows_;
  const std::uint64_t root_;
  std::shared_ptr<KvStore<T>> store_;
  std::vector<Block> blocks_;
  std::vector<int> free_;
  std::unordered_map<std::uint64_t, int> by_key_;
  std::vector<std::unique_ptr<KvCache<T>>> caches_;
};

}  // namespace

template <Scalar T>
std::unique_ptr<CachePool<T>> make_paged_pool(const Config& config, int block,
                                              std::uint64_t identity) {
  return std::make_unique<PagedPool<T>>(config, block, identity);
}

template std::unique_ptr<CachePool<float>> make_paged_pool(const Config&, int, std::uint64_t);
template std::unique_ptr<CachePool<double>> make_paged_pool(const Config&, int, std::uint64_t);

}  // namespace kvcheck
