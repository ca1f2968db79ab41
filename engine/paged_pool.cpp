// SPDX-License-Identifier: MIT
// Paged caches: blocks of some rows from a common store. Copies share blocks, counted, until one of
// them writes. A full block is remembered by its tokens and all before them, also when nobody holds
// it any more, so that a prompt that begins like an earlier one takes it. As vLLM does (Kwon et
// al., arXiv 2309.06180). Every decision is an answer of ReuseRules.
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "engine/cache_pool.h"
#include "engine/error.h"

namespace kvcheck {
namespace {

// Few, so that short runs, too, see the store grow and every row move.
constexpr int kFirstBlocks = 4;

template <Scalar T>
class PagedPool final : public CachePool<T> {
 public:
  PagedPool(const Config& config, int block)
      : layers_(config.layers),
        block_rows_(block),
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
        const int at = rules_.place({cache.length() + i, feed.reused, block_rows_});
        take_blocks(cache, at + 1);
        const int slot = slot_of(cache, at);
        cache.reserve(std::span(&slot, 1));
      }
      if (plain) {
        cache.tokens().insert(cache.tokens().end(), feed.tokens.begin(), feed.tokens.end());
      }
    }
  }

  void settle(std::span<const CacheFeed<T>> feeds, std::uint64_t identity) override {
    for (const CacheFeed<T>& feed : feeds) {
      for (std::size_t i = 0; i < feed.cache->places().size(); ++i) {
        Block& block = block_of(*feed.cache, i);
        const int rows = feed.cache->length() - static_cast<int>(i) * block_rows_;
        block.filled = std::max(block.filled, std::min(rows, block_rows_));
      }
      remember(*feed.cache, feed.cache->tokens(), identity);
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
      const int rows = rows_in(i, cache.length());
      const int place = cache.places()[i];
      if (at(place).references > 1) {
        if (rows == block_rows_ || rules_.copies_unfilled) cache.places()[i] = copy_of(place, rows);
        continue;
      }
      forget(place);
      // What somebody still had a use for when the rows were rolled back.
      poison(place, rows);
      at(place).filled = rows;
    }
    cache.place(slots_of(cache, cache.length()));
  }

  int lookup(std::span<const int> tokens, std::uint64_t identity) const override {
    return find(tokens, identity).rows;
  }

  int adopt(KvCache<T>& cache, std::span<const int> tokens, std::uint64_t identity) override {
    const Found found = find(tokens, identity);
    for (const int place : found.blocks) hold(place);
    cache.places() = found.blocks;
    cache.tokens().assign(tokens.begin(), tokens.begin() + found.rows);
    cache.place(slots_of(cache, found.rows));
    cache.set_length(found.rows);
    if (rules_.remembered == Remembered::once_reserved) {
      take_blocks(cache, static_cast<int>(tokens.size()));
      remember(cache, tokens, identity);
    }
    return found.rows;
  }

  void reuse_rules(ReuseRules rules) override { rules_ = std::move(rules); }

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
    bool free = false;
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
  // `at`: in rows from the beginning of the first block.
  [[nodiscard]] int slot_of(const KvCache<T>& cache, int at) const {
    const int place = cache.places()[static_cast<std::size_t>(at / block_rows_)];
    return rules_.stored(place) * block_rows_ + at % block_rows_;
  }
  [[nodiscard]] std::vector<int> slots_of(const KvCache<T>& cache, int rows) const {
    std::vector<int> slots;
    for (std::size_t i = 0; i < cache.places().size(); ++i) {
      const int first = rules_.stored(cache.places()[i]) * block_rows_;
      for (int r = 0; r < rows_in(i, rows); ++r) slots.push_back(first + r);
    }
    return slots;
  }
  // Of so many rows of a sequence, those in its block i.
  [[nodiscard]] int rows_in(std::size_t i, int rows) const {
    return std::clamp(rows - static_cast<int>(i) * block_rows_, 0, block_rows_);
  }

  void add_blocks(int count) {
    for (int i = 0; i < count; ++i) {
      free_.push_back(static_cast<int>(blocks_.size()));
      blocks_.push_back({.free = true});
    }
    store_->grow(slots(static_cast<int>(blocks_.size())));
  }

  // So that the cache has blocks for `rows` rows.
  void take_blocks(KvCache<T>& cache, int rows) {
    while (static_cast<int>(cache.places().size()) * block_rows_ < rows) {
      cache.places().push_back(take_block());
    }
  }

  // The last one that became free.
  int take_block() {
    if (free_.empty()) add_blocks(static_cast<int>(blocks_.size()));
    const int place = free_.back();
    free_.pop_back();
    if (rules_.forgets_taken) forget(place);
    poison(place, 0);
    at(place).free = false;
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

  void hold(int place) {
    require(place >= 0 && place < static_cast<int>(blocks_.size()), "a block that there is not");
    Block& block = at(place);
    if (block.free) std::erase(free_, place);
    block.free = false;
    ++block.references;
  }

  // A remembered block is taken again after all others.
  void release(int place) {
    Block& block = at(place);
    if (--block.references > rules_.free_at || block.free) return;
    block.free = true;
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

  // Rows of a block by which it is remembered.
  [[nodiscard]] std::size_t known_rows() const {
    const int from = rules_.remembered_from;
    return static_cast<std::size_t>(from == 0 ? block_rows_ : std::min(from, block_rows_));
  }

  // The blocks of these tokens.
  void remember(const KvCache<T>& cache, std::span<const int> tokens, std::uint64_t identity) {
    std::uint64_t parent = rules_.first_parent(identity);
    const auto rows = static_cast<std::size_t>(block_rows_);
    for (std::size_t i = 0; i * rows + known_rows() <= tokens.size(); ++i) {
      const std::span<const int> own = tokens.subspan(i * rows, known_rows());
      const std::uint64_t key = rules_.key(parent, own);
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

  // Keys may collide: the tokens themselves decide.
  [[nodiscard]] bool same(const Block& block, std::uint64_t parent,
                          std::span<const int> tokens) const {
    if (rules_.compared == Compared::nothing) return true;
    const bool whole = rules_.compared == Compared::tokens_and_parent;
    return (!whole || block.parent == parent) && std::ranges::equal(block.tokens, tokens);
  }

  // What a prompt takes.
  struct Found {
    std::vector<int> blocks;
    int rows;
  };
  [[nodiscard]] Found find(std::span<const int> tokens, std::uint64_t identity) const {
    std::vector<int> known;
    std::uint64_t parent = rules_.first_parent(identity);
    const auto rows = static_cast<std::size_t>(block_rows_);
    for (std::size_t end = rows; end <= tokens.size(); end += rows) {
      const std::span<const int> own = tokens.subspan(end - rows, known_rows());
      const auto block = by_key_.find(rules_.key(parent, own));
      if (block == by_key_.end() || !same(at(block->second), parent, own)) break;
      known.push_back(block->second);
      parent = block->first;
    }
    const int most = static_cast<int>(known.size()) * block_rows_;
    const int provided = rules_.provided({most, static_cast<int>(tokens.size()), block_rows_});
    require(provided >= 0 && provided <= most, "a prompt takes of the rows that are known");
    known.resize(static_cast<std::size_t>((provided + block_rows_ - 1) / block_rows_));
    return {rules_.taken(std::move(known)), provided};
  }

  const int layers_;
  const int block_rows_;
  std::shared_ptr<KvStore<T>> store_;
  std::vector<Block> blocks_;
  std::vector<int> free_;
  std::unordered_map<std::uint64_t, int> by_key_;
  std::vector<std::unique_ptr<KvCache<T>>> caches_;
  ReuseRules rules_;
};

}  // namespace

template <Scalar T>
std::unique_ptr<CachePool<T>> make_paged_pool(const Config& config, int block) {
  return std::make_unique<PagedPool<T>>(config, block);
}

template std::unique_ptr<CachePool<float>> make_paged_pool(const Config&, int);
template std::unique_ptr<CachePool<double>> make_paged_pool(const Config&, int);

}  // namespace kvcheck
