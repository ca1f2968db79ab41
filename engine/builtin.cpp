// SPDX-License-Identifier: MIT
// Sequences, and what is verified around every step of the built-in engine.
#include "engine/builtin.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/cache_edit.h"
#include "engine/error.h"
#include "engine/random.h"
#include "engine/round_site.h"

namespace kvcheck {

Capabilities builtin_capabilities(const Config& config, const CacheKind& kind) {
  // A ring holds the rows of the last positions only; a learned position is part of every number
  // of a row; and rotating what was rounded rounds it again, while the oracle that replays a log
  // knows keys before their rotation only, and could not round them as they were stored.
  const bool moves =
      config.positions != Positions::learned && kind.layout != CacheLayout::ring && !kind.lossy();
  return {.truncate = true,
          .fork = true,
          .batch = true,
          .reorder = true,
          .state = true,
          .shift = moves,
          .evict = moves,
          .reuse = kind.layout == CacheLayout::paged,
          .places = true,
          .fingerprint = true};
}

namespace {

// Everything that decides what the rows of a cache mean besides the weights.
std::vector<std::uint64_t> describe(const Config& config) {
  std::vector<std::uint64_t> parts;
  for (const double number :
       {config.norm_epsilon, config.rotary_base, config.rotary_base_windowed, config.attention_cap,
        config.logit_cap, config.embedding_scale, config.score_size}) {
    parts.push_back(std::hash<double>{}(number));
  }
  for (const double divisor : config.rotary_divisors) {
    parts.push_back(std::hash<double>{}(divisor));
  }
  for (const int number :
       {config.vocabulary, config.width, config.layers, config.query_heads, config.kv_heads,
        config.head_size, config.mlp_width, config.context, static_cast<int>(config.norm),
        static_cast<int>(config.positions), static_cast<int>(config.rotary_pairs),
        static_cast<int>(config.mlp), config.rotary_dimensions, static_cast<int>(config.head_norm),
        static_cast<int>(config.post_norms)}) {
    parts.push_back(static_cast<std::uint64_t>(number));
  }
  for (const int window : config.windows) parts.push_back(static_cast<std::uint64_t>(window));
  return parts;
}

template <Scalar T>
std::uint64_t identity_of(const Model<T>& model, const CacheKind& kind) {
  std::uint64_t identity = mix(stream_of(name(kind)) + sizeof(T));
  for (const std::uint64_t part : describe(model.config)) identity = mix(identity ^ part);
  for (const auto& tensor : tensors(model)) {
    for (const T value : tensor.values) identity = mix(identity ^ std::hash<T>{}(value));
  }
  return identity;
}

// Rounds the keys and values that a full forward computes as the cache rounds those that it stores.
template <Scalar T>
Observer<T> rounding(RowFormat format) {
  if (format == RowFormat::native) return {};
  return [format](const SiteTensor<T>& tensor) { round_site<T>(tensor, format); };
}

// What decides where the rows of a model lie.
std::string shape_of(const Config& config) {
  return fmt::format("{} layers of K/V rows of {}, context {}", config.layers, config.kv_width(),
                     config.context);
}

}  // namespace

template <Scalar T>
Builtin<T>::Builtin(HeldModel model, Arithmetic arithmetic, const CacheKind& kind)
    : Builtin(model, arithmetic, kind, make_pool<T>(model->config, kind)) {}

template <Scalar T>
Builtin<T>::Builtin(HeldModel model, Builtin& beside)
    : Builtin(model, beside.arithmetic_, beside.kind_, beside.pool_) {
  if (!hello_.can.reuse) {
    throw bad_input({"builtin", "memory of another engine", "a paged cache", name(kind_)});
  }
  const std::string mine = shape_of(model->config);
  const std::string theirs = shape_of(beside.model_->config);
  if (mine != theirs) throw bad_input({"builtin", "memory of another engine", theirs, mine});
}

template <Scalar T>
Builtin<T>::Builtin(HeldModel model, Arithmetic arithmetic, const CacheKind& kind,
                    std::shared_ptr<CachePool<T>> pool)
    : hello_{.name = "builtin",
             .vocabulary = model->config.vocabulary,
             .context = model->config.context,
             .compute = std::is_same_v<T, float> ? ScalarKind::f32 : ScalarKind::f64,
             .can = builtin_capabilities(model->config, kind)},
      model_(model.in<T>()),
      arithmetic_(arithmetic),
      kind_(kind),
      back_(rotary_tables<T>(model->config, Turning::back)),
      uncached_(*model_, ops_for<T>(arithmetic)),
      round_(rounding<T>(kind.format)),
      cached_(*model_, ops_for<T>(arithmetic)),
      pool_(std::move(pool)) {}

template <Scalar T>
void Builtin<T>::full(const TokenBlock& block, Rows rows, Logits& out) {
  copy_rows(uncached_.logits(block, rows, round_ ? &round_ : nullptr), out);
}

template <Scalar T>
SequenceId Builtin<T>::open() {
  if (free_.empty()) {
    sequences_.push_back({&pool_->make()});
    return static_cast<SequenceId>(sequences_.size()) - 1;
  }
  const SequenceId sequence = free_.back();
  free_.pop_back();
  sequences_[static_cast<std::size_t>(sequence)].open = true;
  sequences_[static_cast<std::size_t>(sequence)].next_position = 0;
  return sequence;
}

template <Scalar T>
void Builtin<T>::close(SequenceId sequence) {
  pool_->truncate(cache(sequence), 0);
  sequence_of(sequence).open = false;
  free_.push_back(sequence);
}

template <Scalar T>
void Builtin<T>::feed(SequenceId sequence, std::span<const int> tokens, Rows rows, Logits& out) {
  const Feed one{sequence, tokens};
  batch(std::span<const Feed>(&one, 1), rows, out);
}

template <Scalar T>
void Builtin<T>::batch(std::span<const Feed> feeds, Rows rows, Logits& out) {
  feeds_.clear();
  ++batches_;
  for (const Feed& feed : feeds) {
    feeds_.push_back({&cache(feed.sequence), feed.tokens});
    if (std::exchange(sequence_of(feed.sequence).last_batch, batches_) == batches_) {
      throw bad_input(
          {"batch", "a sequence twice", "each sequence once", fmt::format("{}", feed.sequence)});
    }
  }
  cached_.validate(feeds_);
  for (CacheFeed<T>& feed : feeds_) {
    // Rows that are reused are not computed, so nobody may ask for their logits.
    if (rows == Rows::last && hello_.can.reuse && feed.cache->next_position() == 0) {
      feed.reused = pool_->adopt(*feed.cache, feed.tokens, identity());
      feed.tokens = feed.tokens.subspan(static_cast<std::size_t>(feed.reused));
    }
  }
  pool_->reserve(feeds_);
  copy_rows(cached_.feed(feeds_, rows, observer_ ? &observer_ : nullptr), out);
  if (hello_.can.reuse) pool_->settle(feeds_, identity());
  for (const PlannedRow& row : cached_.plan().rows) {
    const SequenceId sequence = feeds[static_cast<std::size_t>(row.sequence)].sequence;
    sequence_of(sequence).next_position = row.position + 1;
  }
  for (const Feed& feed : feeds) check_guards(feed.sequence);
}

template <Scalar T>
void Builtin<T>::truncate(SequenceId sequence, int length) {
  KvCache<T>& rows = cache(sequence);
  if (length < 0 || length > rows.length()) {
    throw bad_input(
        {"truncate", "length", fmt::format("0 to {}", rows.length()), fmt::format("{}", length)});
  }
  if (length == rows.length()) return;
  pool_->truncate(rows, length);
  sequence_of(sequence).next_position = rows.next_position();
}

template <Scalar T>
SequenceId Builtin<T>::fork(SequenceId sequence) {
  const KvCache<T>& parent = cache(sequence);  // before open(), which may hand out this very id
  const SequenceId child = open();
  pool_->copy(parent, cache(child));
  sequence_of(child).next_position = sequence_of(sequence).next_position;
  return child;
}

// By way of copies, as one sequence may be the source of several, itself included.
template <Scalar T>
void Builtin<T>::reorder(std::span<const SequenceId> sequences, std::span<const int> from) {
  const auto count = static_cast<int>(sequences.size());
  if (from.size() != sequences.size()) {
    throw bad_input(
        {"reorder", "sources", fmt::format("{}", count), fmt::format("{}", from.size())});
  }
  for (int i = 0; i < count; ++i) {
    (void)cache(sequences[static_cast<std::size_t>(i)]);
    if (std::ranges::count(sequences, sequences[static_cast<std::size_t>(i)]) > 1) {
      throw bad_input({"reorder", "a sequence twice", "each sequence once",
                       fmt::format("{}", sequences[static_cast<std::size_t>(i)])});
    }
    const int source = from[static_cast<std::size_t>(i)];
    if (source < 0 || source >= count) {
      throw bad_input(
          {"reorder", "source", fmt::format("0 to {}", count - 1), fmt::format("{}", source)});
    }
  }
  std::vector<SequenceId> copies;
  for (const int source : from) copies.push_back(fork(sequences[static_cast<std::size_t>(source)]));
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    std::swap(sequence_of(sequences[i]), sequence_of(copies[i]));
    close(copies[i]);
  }
}

template <Scalar T>
State Builtin<T>::save(SequenceId sequence) {
  return save_rows(cache(sequence), identity());
}

template <Scalar T>
SequenceId Builtin<T>::load(std::span<const std::byte> state) {
  const SequenceId sequence = open();
  try {
    load_rows(*pool_, cache(sequence), model_->config, state, identity());
  } catch (const Error&) {
    close(sequence);
    throw;
  }
  sequence_of(sequence).next_position = cache(sequence).next_position();
  return sequence;
}

template <Scalar T>
void Builtin<T>::shift(SequenceId sequence, int from, int to) {
  if (!hello_.can.shift) unsupported("shift");
  drop("shift", sequence, from, to - from);
  move_back(*pool_, cache(sequence), from, to - from, model_->config, back_);
  sequence_of(sequence).next_position = cache(sequence).next_position();
}

template <Scalar T>
void Builtin<T>::evict(SequenceId sequence, int keep, int drop_count) {
  if (!hello_.can.evict) unsupported("evict");
  drop("evict", sequence, keep, drop_count);
}

template <Scalar T>
void Builtin<T>::drop(std::string_view verb, SequenceId sequence, int first, int count) {
  KvCache<T>& rows = cache(sequence);
  if (first < 0 || count < 0 || first > rows.length() || count > rows.length() - first) {
    throw bad_input({verb, "rows", fmt::format("some of the {} that are held", rows.length()),
                     fmt::format("{} from row {} on", count, first)});
  }
  drop_rows(*pool_, rows, first, count);
}

template <Scalar T>
int Builtin<T>::lookup(std::span<const int> tokens) {
  if (!hello_.can.reuse) unsupported("lookup");
  return pool_->lookup(tokens, identity());
}

template <Scalar T>
void Builtin<T>::reuse_rules(ReuseRules rules) {
  if (!hello_.can.reuse) unsupported("reuse_rules");
  pool_->reuse_rules(std::move(rules));
}

template <Scalar T>
Held Builtin<T>::held(SequenceId sequence) const {
  const KvCache<T>& rows = cache(sequence);
  const std::string complaint = pool_->complaint(rows);
  if (!complaint.empty()) {
    throw EngineError(fmt::format("builtin: sequence {}: {}", sequence, complaint));
  }
  return {rows.length(), sequences_[static_cast<std::size_t>(sequence)].next_position,
          rows.bytes(rows.length())};
}

template <Scalar T>
Places Builtin<T>::places(SequenceId sequence) const {
  const KvCache<T>& rows = cache(sequence);
  Places places;
  for (int row = 0; row < rows.length(); ++row) {
    places.positions.push_back(rows.position(row));
    places.slots.push_back(rows.slots().empty() ? row
                                                : rows.slots()[static_cast<std::size_t>(row)]);
  }
  places.blocks = rows.places();
  return places;
}

template <Scalar T>
std::uint64_t Builtin<T>::fingerprint(SequenceId sequence) const {
  return kvcheck::fingerprint(cache(sequence));
}

template <Scalar T>
std::uint64_t Builtin<T>::identity() {
  if (!identity_) identity_ = identity_of(*model_, kind_);
  return *identity_;
}

template <Scalar T>
auto Builtin<T>::sequence_of(SequenceId sequence) -> Sequence& {
  return sequences_[static_cast<std::size_t>(sequence)];
}

template <Scalar T>
KvCache<T>& Builtin<T>::cache(SequenceId sequence) {
  return const_cast<KvCache<T>&>(std::as_const(*this).cache(sequence));  // NOLINT: one look-up
}

template <Scalar T>
const KvCache<T>& Builtin<T>::cache(SequenceId sequence) const {
  const auto s = static_cast<std::size_t>(sequence);
  if (sequence < 0 || s >= sequences_.size() || !sequences_[s].open) {
    throw bad_input({"sequence", "not open", "an open sequence", fmt::format("{}", sequence)});
  }
  return *sequences_[s].cache;
}

template <Scalar T>
void Builtin<T>::check_guards(SequenceId sequence) const {
  if (cache(sequence).guards_intact()) return;
  throw EngineError(fmt::format("builtin: sequence {}: {}", sequence, kGuardComplaint));
}

template class Builtin<float>;
template class Builtin<double>;

std::unique_ptr<Engine> make_builtin(HeldModel model, ScalarKind scalar, Arithmetic arithmetic,
                                     const CacheKind& kind) {
  if (scalar == ScalarKind::f32)
    return std::make_unique<Builtin<float>>(std::move(model), arithmetic, kind);
  return std::make_unique<Builtin<double>>(std::move(model), arithmetic, kind);
}

}  // namespace kvcheck
